"""Seals of what earlier runs wrote down and later ones believe: remembered metadata, and orphans in quarantine.

Whoever may write the control location could write them, too. Where a plan key is configured, such a document begins
with a line that has its seal: over its bytes, its table and its place. What has no seal, or another one, is not
believed, and costs requests or time but stops nothing. Without a key nothing is sealed, and all is believed.
"""

import hashlib
import json

from lakesweep.control.area import ControlArea
from lakesweep.errors import MaintenanceError

_MAGIC = b"LSSEAL1 "
_CONTEXT = "lakesweep memory"
_MAX_LINE = 1024


def put_sealed(area: ControlArea, name: str, data: bytes) -> None:
    """Write a document, sealed where there is a key.

    Raises:
        StorageError: It could not be written, or KMS did not seal it.
    """
    if area.sealer is not None:
        data = _MAGIC + area.sealer.seal(_digest(area, name, data)).encode() + b"\n" + data
    area.put(name, data)


def believed(area: ControlArea, name: str, data: bytes) -> bytes | None:
    """Return what a document says, `None` where a key is configured and none of its keys sealed it.

    Args:
        area: Where it lies.
        name: Of the document.
        data: As it was read.
    """
    seal, rest = _split(data)
    if area.sealer is None:
        return rest
    if seal is None:
        return None
    try:
        return rest if area.sealer.accepts(_digest(area, name, rest), seal) else None
    except MaintenanceError:  # KMS does not say; reading anew needs no answer
        return None


def _split(data: bytes) -> tuple[str | None, bytes]:
    if not data.startswith(_MAGIC):
        return None, data
    end = data.find(b"\n", len(_MAGIC), _MAX_LINE)
    if end < 0:
        return None, data
    return data[len(_MAGIC) : end].decode("ascii", "replace"), data[end + 1 :]


def _digest(area: ControlArea, name: str, data: bytes) -> bytes:
    where = json.dumps([_CONTEXT, area.table, area.prefix, name, hashlib.sha256(data).hexdigest()])
    return hashlib.sha256(where.encode("utf-8", "surrogatepass")).digest()
