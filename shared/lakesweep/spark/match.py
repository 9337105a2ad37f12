"""The match: it compares the listed objects with the names that roots refer to, in one shuffle.

Two numbers stand for a name (`shuffle.py`). Equal names have equal numbers. So no root refers to a file whose numbers
match no live name. If two names ever share both numbers, Lakesweep keeps a file that it could
delete. Each partition is sorted by these numbers, live names first. One pass over it shows for each group of equal
names whether some root refers to the name and whether some listing showed it. Lakesweep keeps a file that a root refers
to. It judges any other file by the rules of any other scan, and the orphans become a part of the plan. A file that a
root needs and no listing showed may be missing.

An extra file is kept if Lakesweep keeps the file it belongs to. Extra files without a reference go through a second
match, by the names of their owners. Without such files there is no second match.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakesweep.control.quarantine import read_quarantine
from lakesweep.errors import MaintenanceError
from lakesweep.format.codec import to_json
from lakesweep.model.paths.file_class import FileClass
from lakesweep.model.roots import base_name
from lakesweep.operations.orphans.findings import MOST_UNSEEN
from lakesweep.operations.orphans.judging import Holding, Judge, Question, is_needed
from lakesweep.operations.orphans.parts import PlanParts
from lakesweep.operations.orphans.rules.orphans import Orphan
from lakesweep.spark.listing import LISTING_SCHEMA
from lakesweep.spark.parts import Columns, Part, as_bytes, as_text, part_of, part_row, read_part
from lakesweep.spark.shuffle import LISTED, numbers_of, shuffled, sorted_rows
from lakesweep.spark.tasks import Access, Row, Task, run_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_OF_TASK = 500_000
"""Rows that a task has in memory at once, as far as names are evenly spread."""


def match(
    session: "SparkSession",
    access: Access,
    live: Sequence[Part],
    listed: Sequence[Part],
    question: Question,
    holdings: Mapping[int, Holding],
) -> Iterator[Row]:
    """Match, and yield the answers of all tasks."""
    context = session.sparkContext
    rows = sum(part.rows for part in (*live, *listed))
    partitions = max(context.defaultParallelism, -(-rows // ROWS_OF_TASK))
    chunks = shuffled(context, access, live, listed, partitions, by_owner=question.by_owner)
    shared = context.broadcast(dict(holdings))
    try:
        yield from run_partitions(chunks, access, _MatchPartition(question, shared, partitions))
    finally:
        shared.unpersist()


@dataclass(frozen=True, slots=True)
class _MatchPartition:
    """A task's work: match the rows of one partition."""

    question: Question
    shared: Any
    """The holdings of manifests, as a broadcast."""
    partitions: int

    def __call__(self, task: Task, number: int, chunks: Iterator[Any]) -> Iterator[Row]:
        rows = sorted_rows(chunks, number, self.partitions)
        return Matcher(task, self.question, self.shared.value).rows(rows)


@dataclass(frozen=True, slots=True)
class NamesOf:
    """A task's work: find the names in a live part for which some numbers stand."""

    keys: frozenset[tuple[int, int]]

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Yield each name that is found."""
        names = read_part(task.scans, part_of(piece)).column("name").to_pylist()
        for name, key in zip(names, numbers_of(names).tolist(), strict=True):
            if tuple(key) in self.keys:
                yield {"name": as_text(name)}


class Matcher:
    """Matches the rows of one partition."""

    def __init__(self, task: Task, question: Question, holdings: Mapping[int, Holding]) -> None:
        self._question = question
        self._holdings = holdings
        self._owned = Columns(task.scans, question.folder, "owned", LISTING_SCHEMA)
        self._seen_orphans = Columns(task.scans, question.folder, "orphans", ORPHAN_SCHEMA)
        quarantine = (
            None if question.quarantine_before_ms is None else read_quarantine(task.area, question.quarantine_digest)
        )
        self._plan = PlanParts(task.area, question.plan_id)
        store = task.store(task.access.table)
        self._judging = Judge(question, self._plan, store, quarantine, self._own, self._see)
        self._findings = self._judging.findings
        self._last: tuple[int, int, int] | None = None
        self._open = _Group()

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        """Take sorted batches and yield the rows of the answer."""
        for batch in batches:
            if batch.num_rows:
                self._findings.rows += batch.num_rows
                yield from self._batch(batch)
        yield from self._close([self._open])
        self._judging.confirm()
        yield from self._parts(is_end=True)
        yield to_json(self._findings)

    def _batch(self, batch: pa.RecordBatch) -> Iterator[Row]:
        h1, h2, side = (batch.column(name).to_numpy(zero_copy_only=False) for name in ("h1", "h2", "side"))
        begins = np.empty(len(h1), dtype=bool)
        begins[0] = (int(h1[0]), int(h2[0])) != self._open.key
        begins[1:] = (h1[1:] != h1[:-1]) | (h2[1:] != h2[:-1])
        self._check_order(h1, h2, side)
        if begins[0]:
            yield from self._close([self._open])
            self._open = _Group((int(h1[0]), int(h2[0])))
        # Group 0 is the open group, which may have rows in earlier batches.
        group = np.cumsum(begins) - int(begins[0])
        count = int(group[-1]) + 1
        is_listed = side == LISTED
        has_live = np.bincount(group[~is_listed], minlength=count) > 0
        has_listed = np.bincount(group[is_listed], minlength=count) > 0
        has_live[0] |= self._open.has_live
        has_listed[0] |= self._open.has_listed
        listed = np.flatnonzero(is_listed)
        known = has_live[group[listed]]
        self._stay(batch, listed[known])
        self._judge(batch, listed[~known])
        yield from self._parts(is_end=False)
        yield from self._unseen_groups(batch, group, is_listed, has_live, has_listed)

    def _check_order(self, h1: Any, h2: Any, side: Any) -> None:
        """Refuse rows that are not sorted: a live row after the file that it protects would come too late.

        Raises:
            MaintenanceError: The rows are not sorted.
        """
        later = (h1[1:] > h1[:-1]) | ((h1[1:] == h1[:-1]) & (h2[1:] > h2[:-1]))
        equal = (h1[1:] == h1[:-1]) & (h2[1:] == h2[:-1])
        in_order = (later | (equal & (side[1:] >= side[:-1]))).all()
        if not in_order or (self._last is not None and (int(h1[0]), int(h2[0]), int(side[0])) < self._last):
            raise MaintenanceError(
                "Spark returned the rows of a match in wrong order; expected them sorted by name, live names first; "
                "nothing was changed",
                code="spark_failed",
            )
        self._last = int(h1[-1]), int(h2[-1]), int(side[-1])

    def _unseen_groups(
        self, batch: pa.RecordBatch, group: Any, is_listed: Any, has_live: Any, has_listed: Any
    ) -> Iterator[Row]:
        """Report the groups that end in a batch and that no listing showed. The last group stays open."""
        h1, h2 = batch.column("h1"), batch.column("h2")
        wanted = has_live & ~has_listed
        wanted[-1] = not has_listed[-1]
        rows = np.flatnonzero(~is_listed & wanted[group])
        ended: dict[int, _Group] = {}
        columns = [batch.column(name).take(pa.array(rows)).to_pylist() for name in ("ident", "manifest", "flags")]
        for row, *values in zip(rows.tolist(), *columns, strict=True):
            number = int(group[row])
            if number == 0:
                found = self._open
            else:
                found = ended.setdefault(number, _Group((h1[row].as_py(), h2[row].as_py())))
            found.entries.append((values[0], values[1], values[2]))
        last = len(has_live) - 1
        if last == 0:
            self._open.has_live, self._open.has_listed = bool(has_live[0]), bool(has_listed[0])
            if self._open.has_listed:
                self._open.entries.clear()
            return
        self._open.has_listed = bool(has_listed[0])
        yield from self._close([self._open, *(each for number, each in ended.items() if number != last)])
        self._open = ended.get(last) or _Group((h1[-1].as_py(), h2[-1].as_py()))
        self._open.has_live, self._open.has_listed = bool(has_live[last]), bool(has_listed[last])

    def _close(self, groups: Iterable["_Group"]) -> Iterator[Row]:
        """Report the names that some root needs and no listing showed."""
        if self._question.by_owner:
            return
        for group in groups:
            if group.key is None or group.has_listed or not is_needed(group.entries, self._holdings):
                continue
            self._findings.unseen += 1
            if self._findings.unseen <= MOST_UNSEEN:
                manifests = sorted({manifest for _, manifest, _ in group.entries})
                yield {"missing": list(group.key), "manifests": manifests}

    def _stay(self, batch: pa.RecordBatch, rows: Any) -> None:
        """Count the files that some root refers to."""
        if not len(rows):
            return
        places = batch.column("place").take(pa.array(rows)).to_numpy(zero_copy_only=False).astype(np.int64)
        sizes = batch.column("size").take(pa.array(rows)).to_numpy(zero_copy_only=False).astype(np.int64)
        for place in np.unique(places).tolist():
            here = places == place
            self._judging.keep_live(place, int(sizes[here].sum()), int(here.sum()))

    def _judge(self, batch: pa.RecordBatch, rows: Any) -> None:
        """Judge the files that no root refers to by the rules."""
        if not len(rows):
            return
        chosen = batch.select(LISTING_SCHEMA.names).take(pa.array(rows))
        for row in zip(*(column.to_pylist() for column in chosen.columns), strict=True):
            place, _, key, size_bytes, etag, modified_ms, kind, policy, owner = row
            whose = None if owner is None else as_text(owner)
            orphan = Orphan(as_text(key), kind, size_bytes, etag, modified_ms, whose)
            self._judging.judge(place, orphan, FileClass(kind, policy))

    def _own(self, place: int, orphan: Orphan) -> None:
        key, kind, size_bytes, etag, modified_ms, owner = orphan
        name, whose = as_bytes(base_name(key)), as_bytes(owner or "")
        self._owned.add(place, name, as_bytes(key), size_bytes, etag, modified_ms, kind, "delete", whose)

    def _see(self, orphan: Orphan, seen_ms: int | None) -> None:
        self._seen_orphans.add(as_bytes(orphan.key), orphan.etag, orphan.modified_ms, seen_ms)

    def _parts(self, *, is_end: bool) -> Iterator[Row]:
        for columns, word in ((self._owned, "owned"), (self._seen_orphans, "orphans")):
            for part in columns.rest() if is_end else columns.full():
                yield {word: part_row(part)}
        yield from map(to_json, self._plan.rest() if is_end else self._plan.full())


@dataclass(slots=True)
class _Group:
    """The rows of one name that have been read so far."""

    key: tuple[int, int] | None = None
    has_live: bool = False
    has_listed: bool = False
    entries: list[tuple[int, int, int]] = field(default_factory=list)
    """Manifest entries: number that a deletion must match, manifest, flags. Empty once a listing showed the name."""


ORPHAN_SCHEMA = pa.schema([("key", pa.binary()), ("etag", pa.string()), ("modified", pa.int64()), ("seen", pa.int64())])
"""Orphans for the quarantine: the identity of each file, and the time since when it is known."""
