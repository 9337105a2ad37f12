"""Orphans that earlier scans saw. A file may be deleted if it is an orphan now and was the same orphan long ago.

One document per table, written by each scan with quarantine. Two scans may overwrite each other's document, which is
harmless: each entry says when that very object was first seen as an orphan. If an entry is lost, the quarantine of that
object starts again. The document is sealed where a plan key is configured (`control/sealed.py`). Without a right seal
it counts as empty.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.ndjson import pack, unpack
from lakesweep.control.sealed import believed, put_sealed
from lakesweep.errors import FormatError, ObjectNotFoundError

_NAME = "orphans.ndjson.gz"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """What earlier scans saw."""

    first_seen_ms: dict[tuple[str, str, int], int]
    """Key, ETag and time of an object -> start of the first scan that saw it as an orphan."""

    def is_known(self, key: str, etag: str, modified_ms: int, before_ms: int) -> bool:
        """Tell whether a scan that began at `before_ms` or earlier saw this object as an orphan."""
        seen_ms = self.first_seen_ms.get((key, etag, modified_ms))
        return seen_ms is not None and seen_ms <= before_ms


def read_quarantine(area: ControlArea, digest: str | None = None) -> Quarantine:
    """Return what earlier scans saw.

    A damaged or unsealed document counts as empty, so no file is deleted because of it.

    Args:
        area: Of the table.
        digest: From `believed_quarantine`, for a process that has no key.
    """
    try:
        data = area.read(_NAME).data
        if digest is not None and hashlib.sha256(data).hexdigest() != digest:
            return Quarantine({})
        known = believed(area, _NAME, data)
        if known is None:
            return Quarantine({})
        rows = unpack(known, area.path(_NAME), max_rows=None)
        return Quarantine(
            {
                (str(row["key"]), str(row["etag"]), int(str(row["modified_ms"]))): int(str(row["seen_ms"]))
                for row in rows
            }
        )
    except (ObjectNotFoundError, FormatError, KeyError, ValueError):
        return Quarantine({})


def believed_quarantine(area: ControlArea) -> str | None:
    """Return the SHA-256 of the document if its seal is right. Processes without a key compare the document with it.

    Returns:
        An empty text if there is no such document, and `None` if no key is configured.
    """
    if area.sealer is None:
        return None
    try:
        data = area.read(_NAME).data
    except ObjectNotFoundError:
        return ""
    return "" if believed(area, _NAME, data) is None else hashlib.sha256(data).hexdigest()


def write_quarantine(
    area: ControlArea, earlier: Quarantine, orphans: Iterable[tuple[str, str, int]], now_ms: int
) -> None:
    """Note the orphans of a scan.

    Args:
        area: Of the table.
        earlier: The quarantine before this scan.
        orphans: Key, ETag and time of each orphan.
        now_ms: When the scan began.
    """
    rows = [
        {
            "key": key,
            "etag": etag,
            "modified_ms": modified_ms,
            "seen_ms": min(earlier.first_seen_ms.get((key, etag, modified_ms), now_ms), now_ms),
        }
        for key, etag, modified_ms in orphans
    ]
    put_sealed(area, _NAME, pack(rows))
