"""The key that plans are sealed with. Reads the environment."""

import os
from pathlib import Path

from lakesweep.control.seal import Sealer, keys_of
from lakesweep.errors import UsageError

_FILE = "LAKESWEEP_PLAN_KEY_FILE"
_KMS = "LAKESWEEP_PLAN_KEY"


def plan_keys() -> Sealer | None:
    """Return what seals plans, `None` where no key is configured.

    Raises:
        UsageError: Both kinds of keys are, the file cannot be read, or a key means nothing.
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
        text = Path(file).read_bytes()
    except OSError as error:
        raise UsageError(
            f"${_FILE}: expected a file with plan keys at {file}: {error.strerror}", code="bad_plan_key"
        ) from error
    return keys_of(text, file)
