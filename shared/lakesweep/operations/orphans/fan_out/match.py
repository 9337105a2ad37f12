"""The match: it compares the listed objects with the names that roots refer to, for a range of name hashes.

A task reads the same slots of every spill of the scan, names first. It keeps each object whose name is among the names.
It judges all other objects by the rules of any other scan, and the orphans become a part of the plan. It reports a name
that no listing showed if some root needs a file of that name.

An extra file is kept if Lakesweep keeps the file it belongs to. If no root refers to an extra file, the task writes it
down under the name of its owner, and a second match judges it. Without such files there is no second match.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.control.area import ControlArea
from lakesweep.control.ndjson import pack
from lakesweep.control.quarantine import read_quarantine
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.codec import to_json
from lakesweep.model.paths.file_class import FileClass, FileClasses
from lakesweep.operations.orphans.fan_out.documents import Match, Scan, ScanDocuments, Source
from lakesweep.operations.orphans.fan_out.heads import MatchedHead
from lakesweep.operations.orphans.fan_out.names import ROW, names_of_table
from lakesweep.operations.orphans.fan_out.objects import Listed, Rest, rest_of, row_of, rows_in
from lakesweep.operations.orphans.fan_out.spill import SpillWriter, read_slots
from lakesweep.operations.orphans.fan_out.tasks import MatchTask
from lakesweep.operations.orphans.findings import MOST_UNSEEN, Seen
from lakesweep.operations.orphans.judging import Holding, Judge, Question, is_needed
from lakesweep.operations.orphans.parts import PlanParts, StoredPart
from lakesweep.operations.orphans.rules.orphans import Orphan
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.storage.pools import threads
from lakesweep.table.outside import classify_outside
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.reach.named_entries import BY_ROOT

PARALLEL = 8
"""Spills that are read at the same time."""
DAMAGED_SEGMENT = "damaged_segment"
"""Code of the error that says that names of an earlier scan are gone or damaged."""
DEAD = -1
"""Stands for a holding where no root names the manifest any more."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a source, to be read."""

    area: ControlArea
    source: Source

    @property
    def path(self) -> str:
        return self.area.path(self.source.name)

    def blocks(self, task: MatchTask) -> Iterator[bytes]:
        key = self.area.prefix + self.source.name
        return read_slots(self.area.store, key, self.source.spill, task.first, task.end)


def match(
    table: Table, documents: ScanDocuments, scan: Scan, goes_by: Match, task: MatchTask
) -> tuple[SpillWriter, MatchedHead]:
    """Match some slots.

    Returns:
        Extra files under the names of their owners, and the head of the task's spill.

    Raises:
        FormatError: A spill is gone or damaged.
        StorageError: A request failed.
    """
    question = Question(
        cutoff_ms=scan.cutoff_ms,
        damaged=bool(goes_by.capture.damaged),
        quarantine_before_ms=goes_by.quarantine_before_ms,
        nested=goes_by.nested,
        places=scan.places,
        plan_id=goes_by.plan_id,
        folder=documents.scan_id,
        by_owner=task.by_owner,
    )
    names = [_Rows(names_of_table(documents.area), source) for source in goes_by.names]
    names += [_Rows(documents.area, source) for source in goes_by.own_names]
    matching = _Matching(table, documents, question, FileClasses(scan.layout), task)
    matching.take_names(names)
    matching.take_objects([_Rows(documents.area, source) for source in goes_by.objects])
    if matching.rows != task.rows:
        raise FormatError(
            f"{documents.path(task.document)}: expected {task.rows} rows in slots {task.first} to {task.end}, found "
            f"{matching.rows}; begin another scan"
        )
    holdings = {number: Holding(*(int(text, 16) for text in row)) for number, row in enumerate(goes_by.holdings)}
    return matching.owned, matching.found(names, holdings)


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
    _orphans: list[Seen] = field(default_factory=list)
    _plan: PlanParts = field(init=False)
    _judge: Judge = field(init=False)
    _parts: list[StoredPart] = field(default_factory=list)

    def __post_init__(self) -> None:
        area = require_area(self.table)
        self.owned = SpillWriter(packed=True)
        self._plan = PlanParts(area, self.question.plan_id)
        quarantine = None if self.question.quarantine_before_ms is None else read_quarantine(area)
        self._judge = Judge(self.question, self._plan, self.table.store, quarantine, self._own, self._see)

    def take_names(self, sources: Sequence[_Rows]) -> None:
        """Read the names that roots refer to."""
        live = self._live
        for source, blocks in zip(sources, _all_blocks(sources, self._names_of), strict=True):
            for block in blocks:
                self.rows += len(block) // ROW.size
                held = source.source.held
                for hashed, _, manifest, _ in ROW.iter_unpack(block):
                    if held is None or held[manifest] != DEAD:
                        live[hashed] = False
            self._blocks.append(blocks)

    def take_objects(self, sources: Sequence[_Rows]) -> None:
        """Compare the listed objects with the names, and judge the objects with other names."""
        live = self._live
        for source, blocks in zip(sources, _all_blocks(sources, self._objects_of), strict=True):
            for block in blocks:
                for listed in rows_in(block, source.path):
                    self.rows += 1
                    if listed.name_hash in live:
                        live[listed.name_hash] = True
                        self._judge.keep_live(listed.place, listed.size_bytes)
                    else:
                        self._take(listed, source.path)
                self._parts += self._plan.full()
        self._judge.confirm()
        self._parts += self._plan.rest()

    def _names_of(self, source: _Rows) -> list[bytes]:
        return list(_blocks_of(source, self.task))

    def _objects_of(self, source: _Rows) -> list[bytes]:
        return list(source.blocks(self.task))

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
        self._orphans.append(Seen(orphan.key, orphan.etag, orphan.modified_ms, seen_ms))

    def found(self, names: Sequence[_Rows], holdings: Mapping[int, Holding]) -> MatchedHead:
        """Return the facts that the match found."""
        findings = self._judge.findings
        findings.rows = self.rows
        missing: list[tuple[str, tuple[tuple[int, int], ...]]] = []
        for hashed, entries in () if self.task.by_owner else self._unseen(names).items():
            if is_needed([(ident, held, flags) for ident, held, flags, _ in entries], holdings):
                findings.unseen += 1
                if len(missing) < MOST_UNSEEN:
                    missing.append((hashed.hex(), tuple(sorted({at for *_, at in entries}))))
        orphans = None
        if self._orphans:
            orphans = f"orphans-{uuid.uuid4().hex}.ndjson.gz"
            rows = pack(map(to_json, self._orphans))
            self.documents.area.put(self.documents.name(orphans), rows, if_absent=True)
        return MatchedHead(findings, tuple(self._parts), tuple(missing), orphans)

    def _unseen(self, names: Sequence[_Rows]) -> dict[bytes, list[tuple[int, int, int, tuple[int, int]]]]:
        """Return the entries of each name that no listing showed.

        Each entry is: number that a deletion of it has to match, holding, flags, and source and manifest.
        """
        entries: dict[bytes, list[tuple[int, int, int, tuple[int, int]]]] = {
            hashed: [] for hashed, is_seen in self._live.items() if not is_seen
        }
        if not entries:
            return entries
        for number, (source, blocks) in enumerate(zip(names, self._blocks, strict=True)):
            held = source.source.held
            for block in blocks:
                for hashed, ident, manifest, flags in ROW.iter_unpack(block):
                    if hashed in entries and (held is None or held[manifest] != DEAD):
                        holding = DEAD if held is None or flags & BY_ROOT else held[manifest]
                        entries[hashed].append((ident, holding, flags, (number, manifest)))
        return entries


def _all_blocks(sources: Sequence[_Rows], read: Callable[[_Rows], list[bytes]]) -> Iterator[list[bytes]]:
    """Yield the blocks of each source; several are read at the same time."""
    if len(sources) < 2:
        yield from map(read, sources)
        return
    with threads(PARALLEL, "slots") as pool:
        yield from pool.map(read, sources)


def _blocks_of(source: _Rows, task: MatchTask) -> Iterator[bytes]:
    """Yield the rows of some slots of names, checked.

    Raises:
        FormatError: The rows are gone or damaged. Without them live files would look like orphans.
    """
    try:
        for block in source.blocks(task):
            if len(block) % ROW.size:
                raise FormatError(f"{source.path}: expected rows of {ROW.size} bytes, found {len(block)} bytes")
            yield block
    except (FormatError, ObjectNotFoundError) as error:
        raise FormatError(f"names of an earlier task are lost: {error}", code=DAMAGED_SEGMENT) from error
