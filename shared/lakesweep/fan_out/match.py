"""The match: what is there against what is referred to, for the names whose hashes begin with some bytes.

A task reads the same slots of every spill of the scan, names first. An object whose name is among them stays. What else
is there is held against the same rules as in any other scan, and becomes a plan part. A name that no listing showed is
told of where some root needs a file of that name.

Extra files stay with the file that they belong to. Those that no root refers to are written down by the names of their
owners, and a second match takes them; where there are none, that costs nothing.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from lakesweep.control.area import ControlArea
from lakesweep.control.ndjson import pack
from lakesweep.control.quarantine import read_quarantine
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.fan_out.documents import Json, ScanDocuments
from lakesweep.fan_out.names import ROW, names_of_table
from lakesweep.fan_out.objects import Listed, Rest, rest_of, row_of, rows_in
from lakesweep.fan_out.spill import Spill, SpillWriter, read_slots
from lakesweep.fan_out.tasks import MatchTask
from lakesweep.model.file_class import FileClass, FileClasses
from lakesweep.model.layout import layout_of_json
from lakesweep.operations.context import Table
from lakesweep.operations.orphan_judging import Holding, Judge, Question, is_needed
from lakesweep.operations.orphan_listing import Place
from lakesweep.operations.orphan_parts import PlanParts
from lakesweep.operations.run import require_area
from lakesweep.plan.orphan_totals import to_row
from lakesweep.plan.orphans import Orphan
from lakesweep.table.live_set import name_hash
from lakesweep.table.named_entries import BY_ROOT
from lakesweep.table.outside import classify_outside

PARALLEL = 8
"""Spills that are read at once."""
MOST_UNSEEN = 1000
"""So many unseen names a task tells of; of more, only how many."""
DAMAGED_SEGMENT = "damaged_segment"
"""Code of names of an earlier scan that are gone or damaged."""
DEAD = -1
"""In place of a holding: no root names the manifest any more."""


@dataclass(frozen=True, slots=True)
class Source:
    """Names, or objects, that take part in a match."""

    area: ControlArea
    name: str
    spill: Spill
    held: Sequence[int] | None = None
    """Of names in manifests: the number of each manifest's holding, or `DEAD`."""

    def blocks(self, first: int, end: int) -> Iterator[bytes]:
        """Yield the rows of some slots; see `read_slots`."""
        return read_slots(self.area.store, self.area.prefix + self.name, self.spill, first, end)

    @property
    def path(self) -> str:
        """Return where it lies, for messages."""
        return self.area.path(self.name)


def source_of(area: ControlArea, row: Json) -> Source:
    """Return a source as a document of the scan describes it."""
    return Source(area, row["name"], Spill.from_json(row["spill"], area.path(row["name"])), row.get("held"))


def question_of(goes_by: Json, scan: Json, scan_id: str, *, by_owner: bool) -> Question:
    """Return what a match goes by."""
    return Question(
        cutoff_ms=scan["cutoff_ms"],
        damaged=bool(goes_by["capture"]["damaged"]),
        quarantine_before_ms=goes_by["quarantine_before_ms"],
        nested=tuple(goes_by["nested"]),
        places=tuple(Place(**row) for row in scan["places"]),
        plan_id=goes_by["plan_id"],
        folder=scan_id,
        by_owner=by_owner,
    )


def match(
    table: Table, documents: ScanDocuments, scan: Json, goes_by: Json, task: MatchTask
) -> tuple[SpillWriter, Json]:
    """Match some slots.

    Returns:
        Extra files by the names of their owners, and what was found.

    Raises:
        FormatError: A spill is gone or damaged.
        StorageError: A request failed.
    """
    question = question_of(goes_by, scan, documents.scan_id, by_owner=task.by_owner)
    names = [source_of(names_of_table(documents.area), row) for row in goes_by["names"]]
    names += [source_of(documents.area, row) for row in goes_by["own_names"]]
    objects = [source_of(documents.area, row) for row in goes_by["owned" if task.by_owner else "objects"]]
    holdings = [Holding(*(int(text, 16) for text in row)) for row in goes_by["holdings"]]
    matching = _Matching(table, documents, question, FileClasses(layout_of_json(scan["layout"])), task)
    matching.take_names(names)
    matching.take_objects(objects)
    if matching.rows != task.rows:
        raise FormatError(
            f"{documents.path(task.document)}: expected {task.rows} rows in slots {task.first} to {task.end}, found "
            f"{matching.rows}; begin another scan"
        )
    return matching.owned, matching.found(names, dict(enumerate(holdings)))


@dataclass(slots=True)
class _Matching:
    table: Table
    documents: ScanDocuments
    question: Question
    classes: FileClasses
    task: MatchTask
    owned: SpillWriter = field(init=False)
    rows: int = 0
    _live: dict[bytes, bool] = field(default_factory=dict)
    """Hash of a name -> whether an object of that name was listed."""
    _blocks: list[list[bytes]] = field(default_factory=list)
    """The rows of each source of names."""
    _orphans: list[dict[str, object]] = field(default_factory=list)
    _plan: PlanParts = field(init=False)
    _judge: Judge = field(init=False)
    _parts: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        area = require_area(self.table)
        self.owned = SpillWriter(packed=True)
        self._plan = PlanParts(area, self.question.plan_id)
        quarantine = None if self.question.quarantine_before_ms is None else read_quarantine(area)
        self._judge = Judge(self.question, self._plan, self.table.store, quarantine, self._own, self._see)

    def take_names(self, sources: Sequence[Source]) -> None:
        """Take what roots refer to."""
        live = self._live
        for source, blocks in zip(sources, _all_blocks(sources, self._names_of), strict=True):
            for block in blocks:
                self.rows += len(block) // ROW.size
                held = source.held
                for hashed, _, manifest, _ in ROW.iter_unpack(block):
                    if held is None or held[manifest] != DEAD:
                        live[hashed] = False
            self._blocks.append(blocks)

    def take_objects(self, sources: Sequence[Source]) -> None:
        """Hold objects against it."""
        live, totals, why = self._live, self._judge.totals, self._judge.why_live
        for source, blocks in zip(sources, _all_blocks(sources, self._objects_of), strict=True):
            for block in blocks:
                for listed in rows_in(block, source.path):
                    self.rows += 1
                    if listed.name_hash in live:
                        live[listed.name_hash] = True
                        totals[listed.place].kept[why] += 1
                        totals[listed.place].kept_bytes[why] += listed.size_bytes
                    else:
                        self._take(listed, source.path)
                self._parts += self._plan.full()
        self._judge.confirm()
        self._parts += self._plan.rest()

    def _names_of(self, source: Source) -> list[bytes]:
        return list(_blocks_of(source, self.task))

    def _objects_of(self, source: Source) -> list[bytes]:
        return list(source.blocks(self.task.first, self.task.end))

    def _take(self, listed: Listed, path: str) -> None:
        rest = rest_of(listed, path)
        place = self.question.places[listed.place]
        found = self.classes.classify(rest.key) if place.is_table else classify_outside(self.classes, rest.key)
        key = rest.key if place.is_table else f"{place.location}/{rest.key}"
        orphan = Orphan(key, found.kind, listed.size_bytes, rest.etag, rest.modified_ms, found.owner)
        self._judge.judge(listed.place, orphan, FileClass(found.kind, found.policy))

    def _own(self, number: int, orphan: Orphan) -> None:
        place = self.question.places[number]
        key = orphan.key if place.is_table else orphan.key.removeprefix(f"{place.location}/")
        hashed = name_hash(orphan.owner or "")
        rest = Rest(key, orphan.etag, orphan.modified_ms)
        self.owned.add(hashed, row_of(hashed, number, orphan.size_bytes, rest))

    def _see(self, orphan: Orphan, seen_ms: int | None) -> None:
        self._orphans.append(
            {"key": orphan.key, "etag": orphan.etag, "modified_ms": orphan.modified_ms, "seen_ms": seen_ms}
        )

    def found(self, names: Sequence[Source], holdings: Mapping[int, Holding]) -> Json:
        """Return what was found."""
        unseen = 0
        missing: list[list[object]] = []
        if not self.task.by_owner:
            for hashed, entries in self._unseen(names).items():
                if is_needed([(ident, held, flags) for ident, held, flags, _ in entries], holdings):
                    unseen += 1
                    if len(missing) < MOST_UNSEEN:
                        where = sorted({at for *_, at in entries})
                        missing.append([hashed.hex(), [list(at) for at in where]])
        info: Json = {
            "totals": [to_row(totals) for totals in self._judge.totals],
            "others": self._judge.others,
            "going": self._judge.going,
            "plan": self._parts,
            "unseen": unseen,
            "missing": missing,
            "rows": self.rows,
        }
        if self._orphans:
            name = f"orphans-{uuid.uuid4().hex}.ndjson.gz"
            self.documents.area.put(self.documents.name(name), pack(self._orphans), if_absent=True)
            info["orphans"] = name
        return info

    def _unseen(self, names: Sequence[Source]) -> dict[bytes, list[tuple[int, int, int, tuple[int, int]]]]:
        """Return the entries of each name that no listing showed: what a deletion matches, holding, flags, where."""
        entries: dict[bytes, list[tuple[int, int, int, tuple[int, int]]]] = {
            hashed: [] for hashed, is_seen in self._live.items() if not is_seen
        }
        if not entries:
            return entries
        for number, (source, blocks) in enumerate(zip(names, self._blocks, strict=True)):
            held = source.held
            for block in blocks:
                for hashed, ident, manifest, flags in ROW.iter_unpack(block):
                    if hashed in entries and (held is None or held[manifest] != DEAD):
                        holding = DEAD if held is None or flags & BY_ROOT else held[manifest]
                        entries[hashed].append((ident, holding, flags, (number, manifest)))
        return entries


def _all_blocks(sources: Sequence[Source], read: Callable[[Source], list[bytes]]) -> Iterator[list[bytes]]:
    """Yield the blocks of each source; requests of many go at once."""
    if len(sources) < 2:
        yield from map(read, sources)
        return
    with ThreadPoolExecutor(max_workers=PARALLEL, thread_name_prefix="slots") as pool:
        yield from pool.map(read, sources)


def _blocks_of(source: Source, task: MatchTask) -> Iterator[bytes]:
    """Yield the rows of some slots of names, checked.

    Raises:
        FormatError: They are gone or damaged: without them live files would look like orphans.
    """
    try:
        for block in source.blocks(task.first, task.end):
            if len(block) % ROW.size:
                raise FormatError(f"{source.path}: expected rows of {ROW.size} bytes, found {len(block)} bytes")
            yield block
    except (FormatError, ObjectNotFoundError) as error:
        raise FormatError(f"names of an earlier task are lost: {error}", code=DAMAGED_SEGMENT) from error
