"""The keys that seal plans. Reads the environment."""

import os
import stat

from lakesweep.control.seal import Sealer, keys_of
from lakesweep.errors import UsageError

_FILE = "LAKESWEEP_PLAN_KEY_FILE"
_KMS = "LAKESWEEP_PLAN_KEY"
_MAX_BYTES = 65_536


def plan_keys() -> Sealer | None:
    """Return the sealer of plans; `None` if no key is configured.

    Raises:
        UsageError: Both kinds of keys are configured, the file cannot be read, or a key is not valid.
    """
    file, kms = os.environ.get(_FILE), os.environ.get(_KMS)
    if file and kms:
        raise UsageError(f"${_FILE} and ${_KMS} are both set; expected one of them", code="bad_plan_key")
    if kms:
        from lakesweep.aws.plan_key import kms_keys

        return kms_keys(kms, f"${_KMS}")
    if not file:
        return None
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as found:
            text = found.read(_MAX_BYTES + 1) if stat.S_ISREG(os.fstat(found.fileno()).st_mode) else None
    except OSError as error:
        raise UsageError(
            f"${_FILE}: expected a file with plan keys at {file}: {error.strerror}", code="bad_plan_key"
        ) from error
    if text is None or len(text) > _MAX_BYTES:
        what = "something else" if text is None else "more"
        raise UsageError(
            f"${_FILE}: expected a file of {_MAX_BYTES} bytes at most at {file}, found {what}", code="bad_plan_key"
        )
    return keys_of(text, file)
