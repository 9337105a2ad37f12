"""The results and costs of the last orphan scans of a table, in one document per table.

The history improves the next estimate and decides nothing else: a scan finds the same files whatever the history says.
So two scans that end at the same time may overwrite each other. A damaged document, or one of another version, counts
as empty.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.codec import Check, from_json, to_json

HISTORY_VERSION = 1
KEPT = 10
"""Number of scans in the history."""
_NAME = "orphan_scans.json"
_POSSIBLE = Check(lambda number: 0 <= number < 1 << 62, "a number from 0")  # NaN fails this comparison, too
Number = Annotated[int, _POSSIBLE]
Usd = Annotated[float, _POSSIBLE]


@dataclass(frozen=True, slots=True)
class PastScan:
    """One completed scan. `None`: the scan's backend did not count this."""

    engine: str
    began_ms: Number
    ended_ms: Number
    status: str
    """As in its report: `planned`, `nothing_to_do`, `done`, ..."""
    objects: Number
    """Below the table and its owned external roots."""
    bytes: Number | None
    roots: Number
    manifests: Number
    lists: Number | None = None
    entries: Number | None = None
    entries_decoded: Number | None = None
    manifests_decoded: Number | None = None
    latest_id: Number | None = None
    """The newest snapshot of main at that time."""
    live: Number | None = None
    """Objects that a root referred to."""
    deleted: Number | None = None
    """Objects that the same run deleted."""
    inventory: bool = False
    requests: Mapping[str, Number] = field(default_factory=dict)
    usd: Usd | None = None
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
    if document.get("format_version") != HISTORY_VERSION:
        return ()
    known = {each.name for each in fields(PastScan)}
    try:
        rows = from_json(tuple[dict[str, object], ...], document.get("scans"), area.path(_NAME))
        # Fields of a later version are left out.
        scans = [
            from_json(PastScan, {name: row[name] for name in row.keys() & known}, area.path(_NAME)) for row in rows
        ]
    except FormatError:
        return ()
    return tuple(scans[-KEPT:])


def note_scan(area: ControlArea, scan: PastScan) -> None:
    """Add a scan to a table's history. Adding the same scan twice has the same result.

    Raises:
        StorageError: The control location could not be read or written.
    """
    past = [each for each in read_history(area) if (each.began_ms, each.engine) != (scan.began_ms, scan.engine)]
    kept = sorted([*past, scan], key=lambda each: each.began_ms)[-KEPT:]
    area.put(_NAME, to_json_bytes({"format_version": HISTORY_VERSION, "scans": to_json(kept)}))
