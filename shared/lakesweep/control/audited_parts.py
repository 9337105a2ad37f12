"""What the parts of one run say of themselves: whether each has its place in a chain, and its name says which."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import HEAD, MAIN_WRITER, hash_of_beginning, hash_of_part, is_object_row
from lakesweep.control.ndjson import unpack

SLICE_WRITER = re.compile(r"[0-9]{7,}-[0-9]{2}")
"""Name of an attempt at a slice."""
_SLICE_KINDS = {1: "intent", 2: "result"}


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a ledger."""

    name: str
    head: Mapping[str, object] | None
    digest: str
    ends: Mapping[str, str]
    """Writer -> hash of its last part, as far as this part says."""
    has_objects: bool
    """It has rows of objects."""
    deleted: int
    """Rows that say that an object was deleted."""

    @property
    def writer(self) -> str:
        """Return who wrote it, as its head says."""
        return str((self.head or {}).get("writer"))

    @property
    def number(self) -> int:
        """Return its number in its chain, 0 where the head says none."""
        number = (self.head or {}).get("number")
        return number if isinstance(number, int) else 0


def read_part(area: ControlArea, name: str) -> Part:
    """Return one part.

    Raises:
        FormatError: It is damaged.
        ObjectNotFoundError: It is gone.
    """
    data = area.read(name).data
    rows = list(unpack(data, area.path(name)))
    head = rows[0].get(HEAD) if rows else None
    return Part(
        name,
        head if isinstance(head, dict) else None,
        hash_of_part(data),
        {str(row["writer"]): str(row["ends"]) for row in rows if "ends" in row and "writer" in row},
        any(map(is_object_row, rows)),
        sum(row.get("result") == "deleted" for row in rows),
    )


def breaks(area: ControlArea, run_id: str, folder: str, parts: list[Part]) -> Iterator[str]:
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


def _names(folder: str, part: Part) -> list[str]:
    """Return the names that a part may have."""
    if part.writer == MAIN_WRITER:
        # A part of which nobody knew whether it was written is written again, with what came since: so a part of any
        # rows may have either name.
        return [f"{folder}{part.number:05d}-{kind}.ndjson.gz" for kind in _SLICE_KINDS.values()]
    return [f"{folder}{part.writer}-{_SLICE_KINDS.get(part.number, 'result')}.ndjson.gz"]


def unnamed_writers(run_id: str, by_writer: Mapping[str, list[Part]], ends: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with writers of which neither the report nor a chain says where they end.

    A run that many processes carry out may have such attempts at slices: it was stopped before it wrote down where they
    end, or a process was lost. Its own chain has no row of an object. A run that carries its plan out alone has none.
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
