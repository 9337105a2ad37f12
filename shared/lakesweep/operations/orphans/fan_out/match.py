"""The match: it compares the listed objects with the names that roots refer to, for a range of name hashes.

A task reads the same slots of every spill of the scan, names first. It keeps each object whose name is among the names.
It judges all other objects by the rules of any other scan, and the orphans become a part of the plan. It reports a name
that no listing showed if some root needs a file of that name.

An extra file is kept if Lakesweep keeps the file it belongs to. If no root refers to an extra file, the task writes it
down under the name of its owner, and a second match judges it. Without such files there is no second match.
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
from lakesweep.model.paths.file_class import FileClass, FileClasses
from lakesweep.model.paths.layout import layout_of_json
from lakesweep.operations.orphans.fan_out.documents import Json, ScanDocuments
from lakesweep.operations.orphans.fan_out.names import ROW, names_of_table
from lakesweep.operations.orphans.fan_out.objects import Listed, Rest, rest_of, row_of, rows_in
from lakesweep.operations.orphans.fan_out.spill import Spill, SpillWriter, read_slots
from lakesweep.operations.orphans.fan_out.tasks import MatchTask
from lakesweep.operations.orphans.judging import Holding, Judge, Question, is_needed
from lakesweep.operations.orphans.listing import Place
from lakesweep.operations.orphans.parts import PlanParts
from lakesweep.operations.orphans.rules.orphans import Orphan
from lakesweep.operations.orphans.rules.totals import to_row
from lakesweep.runs.run import require_area
from lakesweep.runs.session import Table
from lakesweep.table.outside import classify_outside
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.reach.named_entries import BY_ROOT

PARALLEL = 8
"""Spills that are read at the same time."""
MOST_UNSEEN = 1000
"""A task reports at most this many unseen names; of the rest it reports only the number."""
DAMAGED_SEGMENT = "damaged_segment"
"""Code of the error that says that names of an earlier scan are gone or damaged."""
DEAD = -1
"""Stands for a holding where no root names the manifest any more."""


@dataclass(frozen=True, slots=True)
class Source:
    """Names, or objects, that take part in a match."""

    area: ControlArea
    name: str
    spill: Spill
    held: Sequence[int] | None = None
    """For names in manifests: the number of each manifest's holding, or `DEAD`. `None` for other sources."""

    def blocks(self, first: int, end: int) -> Iterator[bytes]:
        """Yield the rows of some slots; see `read_slots`."""
        return read_slots(self.area.store, self.area.prefix + self.name, self.spill, first, end)

    @property
    def path(self) -> str:
        """Return the path of the source, for messages."""
        return self.area.path(self.name)


def source_of(area: ControlArea, row: Json) -> Source:
    """Return the source that a row in a document of the scan describes."""
    return Source(area, row["name"], Spill.from_json(row["spill"], area.path(row["name"])), row.get("held"))


def question_of(goes_by: Json, scan: Json, scan_id: str, *, by_owner: bool) -> Question:
    """Return what decides about the objects of a match."""
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
        Extra files under the names of their owners, and the facts for the head of the task's spill.

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
    """Hash of a name -> whether a listing showed an object of that name."""
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
        """Read the names that roots refer to."""
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
        """Compare the listed objects with the names, and judge the objects with other names."""
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
        """Return the facts that the match found."""
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
        """Return the entries of each name that no listing showed.

        Each entry is: number that a deletion of it has to match, holding, flags, and source and manifest.
        """
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
    """Yield the blocks of each source; several are read at the same time."""
    if len(sources) < 2:
        yield from map(read, sources)
        return
    with ThreadPoolExecutor(max_workers=PARALLEL, thread_name_prefix="slots") as pool:
        yield from pool.map(read, sources)


def _blocks_of(source: Source, task: MatchTask) -> Iterator[bytes]:
    """Yield the rows of some slots of names, checked.

    Raises:
        FormatError: The rows are gone or damaged. Without them live files would look like orphans.
    """
    try:
        for block in source.blocks(task.first, task.end):
            if len(block) % ROW.size:
                raise FormatError(f"{source.path}: expected rows of {ROW.size} bytes, found {len(block)} bytes")
            yield block
    except (FormatError, ObjectNotFoundError) as error:
        raise FormatError(f"names of an earlier task are lost: {error}", code=DAMAGED_SEGMENT) from error
