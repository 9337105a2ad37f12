"""Who calls: the ARN of the credentials where it can be known quickly, else the user and the machine.

Asked once in a process, and only when a run begins: a pass that finds nothing to do asks nobody. STS has two seconds to
answer. Another S3 than AWS has no STS that would know.
"""

import getpass
import socket
from functools import cache

from lakesweep.model.who import Who
from lakesweep.storage.s3_identity import caller_arn


@cache
def caller(is_on_aws: bool, region: str | None) -> Who:
    """Return who calls.

    Args:
        is_on_aws: Some store is S3 of AWS.
        region: Where the usual configuration names none.
    """
    host = socket.gethostname() or "unknown"
    arn = caller_arn(region) if is_on_aws else None
    if arn is not None:
        return Who(arn, host)
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container without users
        user = "unknown"
    return Who(f"{user}@{host}", host)
