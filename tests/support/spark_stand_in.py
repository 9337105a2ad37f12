"""A stand-in for Spark: it does what Spark promises, in this process and on stores in memory.

Pieces and answers travel as they do with Spark. The match is handed the same rows, in partitions by numbers that stand
for names, sorted, and in batches that are cut anywhere. So a scan can be held against thousands of tables in the time
that Spark takes for one, with stores that are watched, paged or broken. That Spark keeps its promises is for the tests
that run it.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.model.plan import Plan
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.judging import Holding, Question
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.spark import match as matching
from lakesweep.spark import scan as scanning
from lakesweep.spark import tasks
from lakesweep.spark.listing import LISTING_SCHEMA
from lakesweep.spark.live import LIVE_SCHEMA
from lakesweep.spark.match import LISTED, LIVE
from lakesweep.spark.parts import Part, read_part
from lakesweep.spark.scan import SparkScan
from lakesweep.spark.tasks import Access, Row, Task, run_stream
from lakesweep.storage.open import StoreSettings
from lakesweep.storage.store import Store

_MATCHED = pa.schema(
    [("h1", pa.int64()), ("h2", pa.int64()), ("side", pa.int8()), *list(LIVE_SCHEMA)[1:], *LISTING_SCHEMA]
)


@dataclass(frozen=True, slots=True)
class _Shared:
    value: Any

    def unpersist(self) -> None:
        """Forget nothing."""


@dataclass(slots=True)
class _Frame:
    """Rows that are there, or that a function makes of the batches of each partition."""

    partitions: Sequence[Sequence[pa.RecordBatch]]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def mapInArrow(self, function: Callable[..., Iterator[pa.RecordBatch]], _: object) -> "_Frame":
        found = [row for batches in self.partitions for batch in function(iter(batches)) for row in batch.to_pylist()]
        return _Frame((), found)

    def collect(self) -> list[dict[str, Any]]:
        return self.rows


class StandIn:
    """What a scan asks of a session."""

    def __init__(self, seed: int = 0) -> None:
        """Cut batches by this seed."""
        self.random = Random(seed)
        self.defaultParallelism = 2
        self.sparkContext = self

    def broadcast(self, value: object) -> _Shared:
        return _Shared(pickle.loads(pickle.dumps(value)))

    def range(self, start: int, end: int, step: int, partitions: int) -> _Frame:
        return _Frame([[pa.RecordBatch.from_pydict({"id": [number]})] for number in range(start, end, step)])

    def createDataFrame(self, rows: Sequence[tuple[int, int]], _: str) -> Sequence[tuple[int, int]]:
        return rows


@dataclass(slots=True)
class _Names:
    """The names in live parts, as they are asked for behind a match."""

    names: dict[tuple[int, int], bytes]

    def join(self, keys: Sequence[tuple[int, int]], _: object) -> "_Names":
        return _Names({key: self.names[key] for key in keys})

    def select(self, _: str) -> "_Names":
        return self

    def distinct(self) -> "_Names":
        return self

    def collect(self) -> list[dict[str, bytes]]:
        return [{"name": name} for name in self.names.values()]


def numbers_of(name: bytes) -> tuple[int, int]:
    """Return the two numbers that stand for a name."""
    digest = blake2b(name, digest_size=16).digest()
    return int.from_bytes(digest[:8], "big", signed=True), int.from_bytes(digest[8:], "big", signed=True)


def _rows_of(access: Access, parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    area = Task(access).scans
    for part in parts:
        yield from read_part(area, part).to_pylist()


def _match(
    session: Any,
    access: Access,
    live: Sequence[Part],
    listed: Sequence[Part],
    question: Question,
    holdings: Mapping[int, Holding],
) -> Iterator[Row]:
    random: Random = session.random
    key = "owner" if question.by_owner else "name"
    found = []
    for row in _rows_of(access, live):
        found.append((*numbers_of(row["name"]), LIVE, *list(row.values())[1:], *[None] * len(LISTING_SCHEMA)))
    for row in _rows_of(access, listed):
        found.append((*numbers_of(row[key]), LISTED, None, None, None, *row.values()))
    random.shuffle(found)
    partitions: list[list[pa.RecordBatch]] = [[], [], []]
    for number, partition in enumerate(partitions):
        rows = sorted((row for row in found if row[0] % len(partitions) == number), key=lambda row: row[:3])
        while rows:
            size = random.choice((1, 2, 3, 10, 1000))
            columns = zip(zip(*rows[:size], strict=True), _MATCHED, strict=True)
            partition.append(
                pa.RecordBatch.from_arrays([pa.array(values, each.type) for values, each in columns], schema=_MATCHED)
            )
            del rows[:size]
    shared: Any = _Shared(dict(holdings))
    yield from run_stream(_Frame(partitions), access, matching._stream(question, shared))  # type: ignore[arg-type]


def _live_frame(session: Any, access: Access, parts: Sequence[Part], *, with_names: bool = False) -> _Names:
    return _Names({numbers_of(row["name"]): row["name"] for row in _rows_of(access, parts)})


def stand_in_plan(
    patch: pytest.MonkeyPatch, table: Table, arguments: OrphanArguments, scan_id: str | None = None, seed: int = 0
) -> Plan:
    """Plan with the Spark engine and no Spark. Executors work on the very stores of the table."""
    area = require_area(table)

    def open_store(location: str, **_: object) -> Store:
        known = {table.ref.location: table.store, area.store.location: area.store}
        return known.get(location) or table.open_store(location)

    from pyspark.sql import functions

    with patch.context() as patched:
        patched.setattr(tasks, "open_store", open_store)
        patched.setattr(scanning, "match", _match)
        patched.setattr(scanning, "live_frame", _live_frame)
        patched.setattr(functions, "broadcast", lambda frame: frame)
        session: Any = StandIn(seed)
        return SparkScan(session, StoreSettings(), scan_id).plan(table, arguments)
