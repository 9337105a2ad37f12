"""The caller: the ARN of the credentials if it can be found quickly, else the user and the machine.

Lakesweep asks once in a process, and only when a run begins. A pass without work does not ask. STS has two seconds to
answer. A store other than S3 of AWS has no STS that knows the caller.
"""

import getpass
import socket
from functools import cache

from lakesweep.model.who import Who
from lakesweep.storage.aws_identity import caller_arn


@cache
def caller(is_on_aws: bool, region: str | None) -> Who:
    """Return the caller.

    Args:
        is_on_aws: Whether some store is S3 of AWS.
        region: Region to use if the usual configuration names none.
    """
    host = socket.gethostname() or "unknown"
    arn = caller_arn(region) if is_on_aws else None
    if arn is not None:
        return Who(arn, host)
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):  # for example a container without users
        user = "unknown"
    return Who(f"{user}@{host}", host)
