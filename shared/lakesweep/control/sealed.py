"""Seals of documents that later runs rely on: the metadata cache, and the orphans in quarantine.

Somebody who may write the control location could write these documents, too. Where a plan key is configured, such a
document begins with a line that holds its seal. The seal covers its bytes, its table and its place.

A document without a right seal is not used. That costs requests or time but stops nothing. Without a configured key,
documents are not sealed, and all are used.
"""

import hashlib
import json

from lakesweep.control.area import ControlArea
from lakesweep.errors import MaintenanceError

_MAGIC = b"LSSEAL1 "
_CONTEXT = "lakesweep memory"
_MAX_LINE = 1024


def put_sealed(area: ControlArea, name: str, data: bytes) -> None:
    """Write a document, sealed if a key is configured.

    Raises:
        StorageError: It could not be written, or KMS did not seal it.
    """
    if area.sealer is not None:
        data = _MAGIC + area.sealer.seal(_digest(area, name, data)).encode() + b"\n" + data
    area.put(name, data)


def believed(area: ControlArea, name: str, data: bytes) -> bytes | None:
    """Return the content of a document; `None` if keys are configured and none of them sealed it.

    Args:
        area: Of the table.
        name: Of the document.
        data: The bytes that were read.
    """
    seal, rest = _split(data)
    if area.sealer is None:
        return rest
    if seal is None:
        return None
    try:
        return rest if area.sealer.accepts(_digest(area, name, rest), seal) else None
    except MaintenanceError:  # KMS does not answer; without the document, the run reads everything again
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
