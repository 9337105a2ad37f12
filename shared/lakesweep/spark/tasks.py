"""Tasks: pieces of work that Spark distributes over executors, and their answers.

A piece is a small JSON object, and so is each row of an answer. Files are in parts, never in answers. If a task meets
an error of Lakesweep, it answers with the error, and the driver raises it. So Spark does not repeat a task that would
fail again.
"""

import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from lakesweep import __version__, errors
from lakesweep.control.area import ControlArea, area_of
from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.format.zstd import zstd_module
from lakesweep.spark.archives import forget_archives, keep_modules
from lakesweep.storage.open import DEFAULT_SETTINGS, StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

Row = dict[str, Any]
SCANS = "scans"
_NEEDED = ("numpy", "pyarrow.parquet")
"""Packages of executors that this module does not import."""
_RAISED = re.compile(r"[\w.]+(?:Error|Exception)\b")
"""Beginning of a line that names an exception; other lines of a stack trace name places in the code."""
_OWN_ERRORS = f"{errors.__name__}."


@dataclass(frozen=True, slots=True)
class Access:
    """How tasks reach the table and the control location."""

    table: str
    control: str
    settings: StoreSettings = DEFAULT_SETTINGS
    version: str = __version__
    """Version of the driver's package; every executor must have the same."""


@dataclass(slots=True)
class Task:
    """The stores and counters of one task."""

    access: Access
    counter: RequestCounter = field(default_factory=RequestCounter)

    def store(self, location: str) -> Store:
        """Open a store that counts its requests."""
        return open_store(location, counter=self.counter, settings=self.access.settings)

    @property
    def area(self) -> ControlArea:
        """Return the area with the table's control documents."""
        return area_of(self.store(self.access.control), self.store(self.access.table))

    @property
    def scans(self) -> ControlArea:
        """Return the area with the parts of the table's scans."""
        return area_of(self.store(self.access.control), self.store(self.access.table), SCANS)


Work = Callable[[Task, Row], Iterable[Row]]
"""Carries out one piece. Spark sends it to executors, so it must be a function or an object of a module."""
PartitionWork = Callable[[Task, int, Iterator[Any]], Iterable[Row]]
"""Processes one partition, which it knows by its number."""


def run_tasks(session: "SparkSession", access: Access, work: Work, pieces: Sequence[Row]) -> Iterator[Row]:
    """Carry out pieces of work, one per task, and yield the rows of their answers.

    Raises:
        MaintenanceError: A task failed with this error, or a task gave no answer. A missing answer is not an empty one.
    """
    if not pieces:
        return
    tasks = session.sparkContext.parallelize([json.dumps(piece) for piece in pieces], len(pieces))
    yield from _complete(tasks.mapPartitions(partial(_of_pieces, access, work)), len(pieces))


def run_partitions(rows: "RDD[Any]", access: Access, work: PartitionWork) -> Iterator[Row]:
    """Process each partition of an RDD, and yield the rows of the answers.

    Raises:
        MaintenanceError: A task failed with this error, or a task gave no answer.
    """
    answers = rows.mapPartitionsWithIndex(partial(_of_partition, access, work))
    yield from _complete(answers, rows.getNumPartitions())


def _complete(answers: "RDD[str]", expected: int) -> Iterator[Row]:
    ended = 0
    for row in collected(answers):
        ended += "requests" in row  # the last row of each answer
        yield row
    if ended != expected:
        raise MaintenanceError(
            f"Spark: expected answers of {expected} tasks, found {ended}; nothing was changed, and another attempt "
            "with the same scan id continues the scan",
            code="spark_failed",
        )


def _of_pieces(access: Access, work: Work, pieces: Iterable[str]) -> Iterator[str]:
    for piece in pieces:
        yield from _answered(access, partial(_with_piece, work, json.loads(piece)))


def _of_partition(access: Access, work: PartitionWork, number: int, rows: Iterator[Any]) -> Iterator[str]:
    yield from _answered(access, lambda task: work(task, number, rows))


def collected(answers: "RDD[str]") -> Iterator[Row]:
    """Yield the rows of answers.

    Raises:
        MaintenanceError: A task failed with this error, or Spark failed.
    """
    try:
        texts = answers.collect()
    except Exception as error:  # noqa: BLE001 - Spark's exception classes differ between versions
        _raise_of_spark(error)
    rows: list[Row] = [json.loads(text) for text in texts]
    for row in rows:
        if "error" in row:
            raise _error_of(row)
    yield from rows


def check_workers(session: "SparkSession", access: Access) -> None:
    """Check that executors have this package in the driver's version, and the packages that it needs.

    Raises:
        UsageError: They do not.
    """
    for _ in run_tasks(session, access, _probe, [{}] * session.sparkContext.defaultParallelism):
        pass


def check_version(access: Access) -> None:
    """Check, in a task, that this executor has the driver's version. Another one may hash names in another way.

    Raises:
        UsageError: It has another version.
    """
    if access.version != __version__:
        raise UsageError(
            f"an executor has lakesweep {__version__}; expected {access.version}, the driver's version: both "
            "need the same archive",
            code="version_mismatch",
        )


def count_requests(counter: RequestCounter, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows that hold no counts; add the counts of the other rows to the counter."""
    for row in rows:
        if "requests" in row:
            for kind, count in row["requests"].items():
                counter.add(kind, count, free=row["free"][kind])
            counter.add_read_bytes(row["read_bytes"])
            counter.add_deleted_keys(row["deleted_keys"])
        else:
            yield row


def _with_piece(work: Work, piece: Row, task: Task) -> Iterable[Row]:
    return work(task, piece)


def _probe(task: Task, piece: Row) -> Iterator[Row]:
    zstd_module()  # manifests are compressed with it
    for name in _NEEDED:
        importlib.import_module(name)
    yield {}


def _answered(access: Access, work: Callable[[Task], Iterable[Row]]) -> Iterator[str]:
    task = Task(access)
    try:
        check_version(access)
        for row in work(task):
            yield json.dumps(row)
    except MaintenanceError as error:
        yield json.dumps({"error": type(error).__name__, "code": error.code, "message": str(error)})
    forget_archives()
    keep_modules()
    counter = task.counter
    yield json.dumps(
        {
            "requests": counter.snapshot(),
            "free": counter.free(),
            "read_bytes": counter.read_bytes,
            "deleted_keys": counter.deleted_keys,
        }
    )


def _error_of(row: Row) -> MaintenanceError:
    kind = _kind_of(str(row["error"])) or MaintenanceError
    return kind(f"{row['message']} (in an executor)", code=str(row["code"]))


def _kind_of(name: str) -> type[MaintenanceError] | None:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, MaintenanceError) else None


def _raise_of_spark(error: Exception) -> NoReturn:
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    missing = next((line for line in lines if line.startswith(("ModuleNotFoundError", "ImportError"))), None)
    if missing is not None:
        raise UsageError(
            f"Spark's Python workers lack a package: {missing}; expected the driver's packages there, lakesweep and "
            "pyarrow among them",
            code="spark_workers",
        ) from error
    for line in reversed(lines):
        # A task that fails while it reads parts has no answer that could hold the error, so the error is in Spark's
        # text. An error stands after its cause.
        name, _, message = line.removeprefix(_OWN_ERRORS).partition(": ")
        if line.startswith(_OWN_ERRORS) and (kind := _kind_of(name)) is not None:
            raise kind(f"{message} (in an executor)") from error
    found = [line for line in lines if _RAISED.match(line)]
    # Where no Python raised, the second line tells why: a worker was killed, or the answers were too large.
    found += [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    raise MaintenanceError(
        f"Spark: {(found or lines or [type(error).__name__])[0][:500]}; nothing was changed, and another attempt with "
        "the same scan id continues the scan",
        code="spark_failed",
    ) from error
