"""What a worker does with one task of a scan.

The worker writes its findings into one object under the task's name. If the object exists already, another worker had
the same task, and its findings count. A worker also writes down an error that would occur again on every attempt. Any
other error goes to the queue, which repeats the task.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Protocol

from lakesweep.control.area import ControlArea
from lakesweep.errors import (
    AccessDeniedError,
    FormatError,
    HeldBackError,
    MaintenanceError,
    OutOfTimeError,
    PreconditionFailedError,
    RefusedError,
    UnsupportedFormatError,
    UsageError,
)
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.model.paths.file_class import FileClasses
from lakesweep.model.paths.layout import layout_of_json
from lakesweep.operations.orphans.fan_out.documents import SCAN, Json, ScanDocuments, understood
from lakesweep.operations.orphans.fan_out.limits import WAYS
from lakesweep.operations.orphans.fan_out.match import match
from lakesweep.operations.orphans.fan_out.names import Names, names_of_table
from lakesweep.operations.orphans.fan_out.objects import Rest, row_of
from lakesweep.operations.orphans.fan_out.spill import SpillWriter, head_of
from lakesweep.operations.orphans.fan_out.tasks import (
    DecodeTask,
    ListTask,
    MatchTask,
    Task,
    children_of,
    shard_of,
    task_of,
)
from lakesweep.operations.orphans.listing import Place, PlaceListing, Walk
from lakesweep.operations.orphans.rules.totals import to_row
from lakesweep.runs.run import require_area
from lakesweep.runs.session import Table
from lakesweep.storage.store import Page
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.live_set import name_hash

_LASTING = (RefusedError, FormatError, UsageError, AccessDeniedError)
"""Errors that occur again however often a task is repeated."""


class Outbox(Protocol):
    """Sends messages to workers."""

    def tasks(self, tasks: Sequence[Mapping[str, object]]) -> None:
        """Send these tasks to workers."""

    def fold(self, turn: int, delay_s: int, *, progress: bool) -> None:
        """Schedule the next step of the scan.

        Args:
            turn: Number of the step.
            delay_s: Seconds until it shall run.
            progress: Whether tasks reported something since the last step. A scan without progress goes in circles.
        """


Found = tuple[SpillWriter, Json]
"""Rows of the spill, and facts for its head."""


def work(table: Table, scan_id: str, task: Mapping[str, object], outbox: Outbox) -> None:
    """Carry out one task. Running it twice is harmless.

    Raises:
        FormatError: It is not a valid task, or there is no valid scan.
        StorageError: A request failed; the task can be repeated.
        OutOfTimeError: There was no time for it; the task can be repeated.
    """
    documents = ScanDocuments.of(require_area(table), scan_id)
    todo = task_of(task, f"task of scan {scan_id}")
    before, before_bytes = table.counter.snapshot(), table.counter.read_bytes
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
            writer, info = _found(table, documents, scan, todo)
    except _LASTING as error:
        writer = SpillWriter(packed=False)
        info = {"error": {"type": type(error).__name__, "code": error.code, "message": str(error)}}
    area, name = place_of(documents, todo)
    counted = table.counter.snapshot()
    requests = {kind: count - before[kind] for kind, count in counted.items()}
    info["requests"] = {**requests, "put": requests["put"] + 1}
    info["read_bytes"] = table.counter.read_bytes - before_bytes
    try:
        area.put(name, writer.to_bytes(info), if_absent=True)
    except PreconditionFailedError:
        # Another worker has done this task. It may have died before it sent the rest of the range, so this one sends
        # it.
        info = dict(head_of(area.store, area.prefix + name).info)
    if isinstance(todo, ListTask):
        left = [shard_of(row, area.path(name)) for row in info.get("left", ())]
        if left:
            outbox.tasks([child.to_json() for child in children_of(todo.id, left)])


def place_of(documents: ScanDocuments, task: Task) -> tuple[ControlArea, str]:
    """Return where a task writes its findings: the area, and the name in it."""
    if isinstance(task, DecodeTask):
        return names_of_table(documents.area), segment_name(documents.scan_id, task.id)
    return documents.area, documents.name(f"tasks/{task.id}")


def segment_name(scan_id: str, task_id: str) -> str:
    """Return the name of the segment that a task writes."""
    return f"{scan_id}.{task_id}"


def _found(table: Table, documents: ScanDocuments, scan: Json, task: Task) -> Found:
    if isinstance(task, ListTask):
        return _list(table, documents, scan, task)
    if isinstance(task, DecodeTask):
        return _decode(table, documents, scan if task.document == SCAN else documents.read(task.document)[0], task)
    return _match(table, documents, scan, task)


def _list(table: Table, documents: ScanDocuments, scan: Json, task: ListTask) -> Found:
    with understood(documents.path(SCAN)):
        places = [Place(**row) for row in scan["places"]]
        classes = FileClasses(layout_of_json(scan["layout"]))
    if task.shard.place >= len(places):
        raise FormatError(f"task {task.id}: expected one of {len(places)} places, found {task.shard.place}")
    number, place = task.shard.place, places[task.shard.place]
    found = PlaceListing(table.ref.location, place, classes)
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
        return SpillWriter(packed=True), {"place": number, "unlisted": str(error)}
    return writer, {
        "place": number,
        "totals": to_row(found.totals),
        "nested": sorted(found.nested),
        "left": [asdict(shard) for shard in walk.left(WAYS)],
    }


def _in_time(pages: Iterator[Page], check_time: Callable[[str], None]) -> Iterator[Page]:
    """Yield pages until time runs out. The pages so far count, and another task lists the rest."""
    for page in pages:
        yield page
        try:
            check_time("list")
        except OutOfTimeError:
            return


def _decode(table: Table, documents: ScanDocuments, content: Json, task: DecodeTask) -> Found:
    names, area = Names(), names_of_table(documents.area)
    with understood(documents.path(task.document)):
        wanted = content["decode"][task.id]
        again = [meta_of(row) for row in wanted["manifests"]]
        segments = [(segment, [meta_of(row) for row in manifests]) for segment, manifests in wanted["segments"]]
    for segment, kept in segments:
        if not names.copy(area, segment, frozenset(meta.file_name for meta in kept)):
            again += kept
    here = set(names.manifests)
    names.decode(MetadataReader(table.store), [meta for meta in again if meta.file_name not in here])
    return names.writer, names.info()


def meta_of(row: Sequence[object]) -> ManifestMeta:
    """Read a manifest from a row of a task."""
    name, size, added, deleted = row
    return ManifestMeta(str(name), int(str(size)), int(str(added)), int(str(deleted)), 0, None, None, ())


def meta_row(meta: ManifestMeta) -> list[object]:
    """Return a manifest as a row of a task."""
    return [meta.file_name, meta.file_size, meta.added_count, meta.deleted_count]


def _match(table: Table, documents: ScanDocuments, scan: Json, task: MatchTask) -> Found:
    goes_by = documents.read(task.document)[0]
    return match(table, documents, scan, goes_by, task)


def error_of(info: Mapping[str, object]) -> MaintenanceError | None:
    """Return the lasting error that a task met and wrote down, or `None`."""
    found = info.get("error")
    if not isinstance(found, dict):
        return None
    kinds = {kind.__name__: kind for kind in (*_LASTING, HeldBackError, UnsupportedFormatError)}
    kind = kinds.get(str(found.get("type")), RefusedError)
    return kind(str(found.get("message")), code=str(found.get("code")))
