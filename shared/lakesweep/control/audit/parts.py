"""The parts of one run's ledger: whether each has its place in a chain, and a name that fits."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import HEAD, MAIN_WRITER, hash_of_beginning, hash_of_part, is_object_row
from lakesweep.control.ndjson import unpack

SLICE_WRITER = re.compile(r"[0-9]{7,}-[0-9]{2}")
"""The name of an attempt at a slice, as a writer."""
_SLICE_KINDS = {1: "intent", 2: "result"}


@dataclass(frozen=True, slots=True)
class LedgerPart:
    """One part of a ledger."""

    name: str
    head: Mapping[str, object] | None
    digest: str
    ends: Mapping[str, str]
    """Writer -> hash of its last part, as stated in this part."""
    has_objects: bool
    """The part has rows of objects."""
    deleted: int
    """Number of rows that record a deleted object."""

    @property
    def writer(self) -> str:
        """Return the writer that the head names."""
        return str((self.head or {}).get("writer"))

    @property
    def number(self) -> int:
        """Return the part's number in its chain, 0 if the head has none."""
        number = (self.head or {}).get("number")
        return number if isinstance(number, int) else 0


def read_part(area: ControlArea, name: str) -> LedgerPart:
    """Return one part.

    Raises:
        FormatError: It is damaged.
        ObjectNotFoundError: It is gone.
    """
    data = area.read(name).data
    return part_of(name, data, list(unpack(data, area.path(name))))


def part_of(name: str, data: bytes, rows: list[dict[str, object]]) -> LedgerPart:
    """Return a part that was read.

    Args:
        name: In its area.
        data: As stored.
        rows: In it.
    """
    head = rows[0].get(HEAD) if rows else None
    return LedgerPart(
        name,
        head if isinstance(head, dict) else None,
        hash_of_part(data),
        {str(row["writer"]): str(row["ends"]) for row in rows if "ends" in row and "writer" in row},
        any(map(is_object_row, rows)),
        sum(row.get("result") == "deleted" for row in rows),
    )


def breaks(area: ControlArea, run_id: str, folder: str, parts: list[LedgerPart]) -> Iterator[str]:
    """Yield where the chain of one writer is broken.

    Args:
        area: Of the table.
        run_id: Which run.
        folder: Where its parts lie.
        parts: Of the writer, by number.
    """
    previous = beginning = hash_of_beginning(parts[0].head or {})
    for number, part in enumerate(parts, 1):
        head = part.head or {}
        where = area.path(part.name)
        if head.get("run_id") != run_id or head.get("table") != area.table:
            yield f"{where}: expected a part of run {run_id} of this table, found another run's or table's"
        if part.number != number:
            yield f"{where}: expected part {number} of {head.get('writer')}, found {head.get('number')}"
        elif head.get("previous") != previous:
            yield f"{where}: expected the hash of the part before, found another one"
        elif hash_of_beginning(head) != beginning:
            yield f"{where}: expected the same plan, policy and caller as in part 1, found others"
        if part.name not in _names(folder, part):
            yield f"{where}: expected {' or '.join(_names(folder, part))}, as its head says, found another name"
        previous = part.digest


def _names(folder: str, part: LedgerPart) -> list[str]:
    """Return the names that a part may have."""
    if part.writer == MAIN_WRITER:
        # After a failed write, a run does not know whether the part was written. It writes the part again under the
        # same name, with the rows that came since. So either name is possible for any rows.
        return [f"{folder}{part.number:05d}-{kind}.ndjson.gz" for kind in _SLICE_KINDS.values()]
    return [f"{folder}{part.writer}-{_SLICE_KINDS.get(part.number, 'result')}.ndjson.gz"]


def unnamed_writers(run_id: str, by_writer: Mapping[str, list[LedgerPart]], ends: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with writers whose last part neither the report nor a chain names.

    A run with many processes may have such attempts at slices: it was stopped before it recorded their ends, or a
    process was lost. The chain of such a run itself has no row of an object. A run that works alone has no other
    writer.
    """
    main_has_objects = any(part.has_objects for part in by_writer.get(MAIN_WRITER, ()))
    for writer, parts in by_writer.items():
        if writer in ends or writer == MAIN_WRITER:
            continue
        where = parts[0].name.rpartition("/")[2]
        if not SLICE_WRITER.fullmatch(writer):
            yield f"run {run_id}: expected part {where} of {MAIN_WRITER} or of an attempt at a slice, found {writer!r}"
        elif main_has_objects:
            yield f"run {run_id}: expected no part of another writer, since it worked alone; found {where} of {writer}"
