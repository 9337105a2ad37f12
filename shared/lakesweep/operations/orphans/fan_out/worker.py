"""What a worker does with one task of a scan.

The worker writes its findings into one object under the task's name. If the object exists already, another worker had
the same task, and its findings count. A worker also writes down an error that would occur again on every attempt. Any
other error goes to the queue, which repeats the task.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, MaintenanceError, OutOfTimeError, PreconditionFailedError
from lakesweep.format.codec import to_json
from lakesweep.model.paths.file_class import FileClasses
from lakesweep.operations.orphans.fan_out.documents import (
    SCAN,
    DecodeWork,
    Match,
    More,
    Scan,
    ScanDocuments,
    understood,
)
from lakesweep.operations.orphans.fan_out.heads import LASTING, DecodedHead, FailedHead, Head, ListedHead, read_head
from lakesweep.operations.orphans.fan_out.limits import WAYS
from lakesweep.operations.orphans.fan_out.match import match
from lakesweep.operations.orphans.fan_out.names import Names, names_of_table
from lakesweep.operations.orphans.fan_out.objects import Rest, row_of
from lakesweep.operations.orphans.fan_out.spill import SpillWriter
from lakesweep.operations.orphans.fan_out.tasks import DecodeTask, ListTask, Task, children_of, task_of
from lakesweep.operations.orphans.listing import PlaceListing, Walk
from lakesweep.operations.orphans.rules.orphans import Totals
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.storage.store import Page
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.live_set import name_hash


class Outbox(Protocol):
    """Sends messages to workers."""

    def tasks(self, tasks: Sequence[Mapping[str, object]]) -> None:
        """Send these tasks to workers."""

    def advance(self, step: int, delay_s: int, *, progress: bool) -> None:
        """Schedule the next step of the scan.

        Args:
            step: Number of the step.
            delay_s: Seconds until it shall run.
            progress: Whether tasks reported something since the last step. A scan without progress goes in circles.
        """


Found = tuple[SpillWriter, Head]
"""Rows of the spill, and its head."""


def work(table: Table, scan_id: str, task: Mapping[str, object], outbox: Outbox) -> None:
    """Carry out one task. Running it twice is harmless.

    Raises:
        FormatError: It is not a valid task, or there is no valid scan.
        StorageError: A request failed; the task can be repeated.
        OutOfTimeError: There was no time for it; the task can be repeated.
    """
    documents = ScanDocuments.of(require_area(table), scan_id)
    todo = task_of(task, f"task of scan {scan_id}")
    before = table.counter.snapshot()
    try:
        scan = documents.find_scan()
    except FormatError:
        if documents.find_result() is not None:
            return  # the scan is over
        raise
    if scan is None:
        raise FormatError(f"{documents.path('')}: expected a scan, found none", code="no_such_scan")
    try:
        with understood(documents.path("")):
            writer, head = _found(table, documents, scan, todo)
    except LASTING as error:
        writer, head = SpillWriter(packed=False), FailedHead(type(error).__name__, error.code, str(error))
    area, name = place_of(documents, todo)
    requests = {kind: count - before[kind] for kind, count in table.counter.snapshot().items()}
    head = replace(head, requests={**requests, "put": requests["put"] + 1})
    try:
        area.put(name, writer.to_bytes(to_json(head)), if_absent=True)
    except PreconditionFailedError:
        # Another worker has done this task. It may have died before it sent the rest of the range, so this one sends
        # it.
        head = read_head(area, name)[0]
    if isinstance(head, ListedHead) and head.left:
        outbox.tasks([to_json(child) for child in children_of(todo.id, head.left)])


def place_of(documents: ScanDocuments, task: Task) -> tuple[ControlArea, str]:
    """Return where a task writes its findings: the area, and the name in it."""
    if isinstance(task, DecodeTask):
        return names_of_table(documents.area), segment_name(documents.scan_id, task.id)
    return documents.area, documents.name(f"tasks/{task.id}")


def segment_name(scan_id: str, task_id: str) -> str:
    """Return the name of the segment that a task writes."""
    return f"{scan_id}.{task_id}"


def _found(table: Table, documents: ScanDocuments, scan: Scan, task: Task) -> Found:
    if isinstance(task, ListTask):
        return _list(table, scan, task)
    if isinstance(task, DecodeTask):
        work = (scan if task.document == SCAN else documents.read(More, task.document)[0]).decode[task.id]
        return _decode(table, names_of_table(documents.area), work)
    return match(table, documents, scan, documents.read(Match, task.document)[0], task)


def _list(table: Table, scan: Scan, task: ListTask) -> Found:
    if task.shard.place >= len(scan.places):
        raise FormatError(f"task {task.id}: expected one of {len(scan.places)} places, found {task.shard.place}")
    number, place = task.shard.place, scan.places[task.shard.place]
    found = PlaceListing(table.ref.location, place, FileClasses(scan.layout))
    writer = SpillWriter(packed=True)
    try:
        store = table.store if place.is_table else table.open_store(place.location)
        walk = Walk(task.shard, task.budget, store.list_range("", task.shard.after, task.shard.until))
        for page in _in_time(walk.pages(), table.check_time):
            for each, _, _ in found.sorted(page):
                hashed = name_hash(each.key.rpartition("/")[2])
                rest = Rest(each.key, each.etag, each.modified_ms)
                writer.add(hashed, row_of(hashed, number, each.size_bytes, rest))
    except MaintenanceError as error:
        if place.is_table or place.is_owned or isinstance(error, OutOfTimeError):
            raise
        return SpillWriter(packed=True), ListedHead(number, Totals(), unlisted=str(error))
    return writer, ListedHead(number, found.totals, tuple(sorted(found.nested)), tuple(walk.left(WAYS)))


def _in_time(pages: Iterator[Page], check_time: Callable[[str], None]) -> Iterator[Page]:
    """Yield pages until time runs out. The pages so far count, and another task lists the rest."""
    for page in pages:
        yield page
        try:
            check_time("list")
        except OutOfTimeError:
            return


def _decode(table: Table, area: ControlArea, work: DecodeWork) -> Found:
    names, again = Names(), list(work.manifests)
    for segment, kept in work.segments:
        if not names.copy(area, segment, frozenset(row.name for row in kept)):
            again += kept
    here = set(names.manifests)
    names.decode(MetadataReader(table.store), [row.meta for row in again if row.name not in here])
    return names.writer, DecodedHead(tuple(names.manifests), names.entries)
