"""The results and costs of the last orphan scans of a table, in one document per table.

The history improves the next estimate and decides nothing else: a scan finds the same files whatever the history says.
So two scans that end at the same time may overwrite each other. A damaged document, or one of another version, counts
as empty.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import UnionType

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import FormatError, ObjectNotFoundError

HISTORY_VERSION = 1
KEPT = 10
"""Number of scans in the history."""
_NAME = "orphan_scans.json"


@dataclass(frozen=True, slots=True)
class PastScan:
    """One completed scan. `None`: the scan's backend did not count this."""

    engine: str
    began_ms: int
    ended_ms: int
    status: str
    """As in its report: `planned`, `nothing_to_do`, `done`, ..."""
    objects: int
    """Below the table and its owned external roots."""
    bytes: int | None
    roots: int
    manifests: int
    lists: int | None = None
    entries: int | None = None
    entries_decoded: int | None = None
    manifests_decoded: int | None = None
    latest_id: int | None = None
    """The newest snapshot of main at that time."""
    live: int | None = None
    """Objects that a root referred to."""
    deleted: int | None = None
    """Objects that the same run deleted."""
    inventory: bool = False
    requests: Mapping[str, int] = field(default_factory=dict)
    usd: float | None = None
    estimate: Mapping[str, object] | None = None
    """The cost estimate before the scan."""
    reason: str | None = None
    """Why this backend was chosen; `None`: the user chose it."""

    @property
    def seconds(self) -> float:
        """Return the duration of the scan."""
        return (self.ended_ms - self.began_ms) / 1000


def read_history(area: ControlArea) -> tuple[PastScan, ...]:
    """Return the last scans of a table, the oldest first.

    Raises:
        StorageError: The control location could not be read.
    """
    try:
        document = from_json_bytes(area.read(_NAME).data, area.path(_NAME))
    except (ObjectNotFoundError, FormatError):
        return ()
    rows = document.get("scans")
    if document.get("format_version") != HISTORY_VERSION or not isinstance(rows, list):
        return ()
    try:
        return tuple(_scan(row) for row in rows)[-KEPT:]
    except (TypeError, ValueError):
        return ()


def note_scan(area: ControlArea, scan: PastScan) -> None:
    """Add a scan to a table's history. Adding the same scan twice has the same result.

    Raises:
        StorageError: The control location could not be read or written.
    """
    past = [each for each in read_history(area) if (each.began_ms, each.engine) != (scan.began_ms, scan.engine)]
    kept = sorted([*past, scan], key=lambda each: each.began_ms)[-KEPT:]
    area.put(_NAME, to_json_bytes({"format_version": HISTORY_VERSION, "scans": [asdict(each) for each in kept]}))


_TYPES: Mapping[str, type | UnionType] = {
    "engine": str,
    "status": str,
    "inventory": bool,
    "requests": dict,
    "usd": float | int | None,
    "estimate": dict | None,
    "reason": str | None,
    **dict.fromkeys(
        ("lists", "entries", "entries_decoded", "manifests_decoded", "latest_id", "live", "deleted", "bytes"),
        int | None,
    ),
    **dict.fromkeys(("began_ms", "ended_ms", "objects", "roots", "manifests"), int),
}


def _scan(row: object) -> PastScan:
    """Raise TypeError or ValueError if the row is not a scan. Fields of a later version are left out."""
    if not isinstance(row, dict):
        raise TypeError(type(row).__name__)
    known = {each.name: row[each.name] for each in fields(PastScan) if each.name in row}
    for name, value in known.items():
        if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "inventory"):
            raise TypeError(name)
        if isinstance(value, int | float) and not 0 <= value < 1 << 62:  # NaN fails this comparison, too
            raise ValueError(name)
    if not all(type(count) is int and count >= 0 for count in known.get("requests", {}).values()):
        raise ValueError("requests")
    return PastScan(**known)
