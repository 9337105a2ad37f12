"""A stand-in for Spark: it does what Spark promises, in this process and on stores in memory.

Pieces and answers travel as they do with Spark. A shuffle hands over its rows in any order, and batches are cut
anywhere. So a scan can be held against thousands of tables in the time that Spark takes for one, with stores that are
watched, paged or broken. That Spark keeps its promises is for the tests that run it.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.model.plan import Plan
from lakesweep.model.scans import OrphanArguments
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.spark import shuffle, tasks
from lakesweep.spark.scan import SparkScan
from lakesweep.storage.open import StoreSettings
from lakesweep.storage.store import Store


@dataclass(frozen=True, slots=True)
class _Shared:
    value: Any

    def unpersist(self) -> None:
        """Forget nothing."""


@dataclass(frozen=True, slots=True)
class StandInRDD:
    """Rows in partitions."""

    session: "StandIn"
    partitions: Sequence[Sequence[Any]]

    def mapPartitions(self, function: Callable[[Iterator[Any]], Iterable[Any]]) -> "StandInRDD":
        return self.mapPartitionsWithIndex(lambda _, rows: function(rows))

    def mapPartitionsWithIndex(self, function: Callable[[int, Iterator[Any]], Iterable[Any]]) -> "StandInRDD":
        done = [list(function(number, iter(rows))) for number, rows in enumerate(self.partitions)]
        return StandInRDD(self.session, pickle.loads(pickle.dumps(done)))

    def partitionBy(self, count: int, place: Callable[[Any], int]) -> "StandInRDD":
        found: list[list[Any]] = [[] for _ in range(count)]
        rows = [row for rows in self.partitions for row in rows]
        self.session.random.shuffle(rows)
        for row in rows:
            found[place(row[0]) % count].append(row)
        return StandInRDD(self.session, found)

    def getNumPartitions(self) -> int:
        return len(self.partitions)

    def collect(self) -> list[Any]:
        return [row for rows in self.partitions for row in rows]


class StandIn:
    """What a scan asks of a session."""

    def __init__(self, seed: int = 0) -> None:
        """Order rows by this seed."""
        self.random = Random(seed)
        self.defaultParallelism = 3
        self.sparkContext = self

    def broadcast(self, value: object) -> _Shared:
        return _Shared(pickle.loads(pickle.dumps(value)))

    def parallelize(self, rows: Sequence[Any], partitions: int) -> StandInRDD:
        assert partitions == max(1, len(rows))
        return StandInRDD(self, [[pickle.loads(pickle.dumps(row))] for row in rows] or [[]])


def stand_in_plan(
    patch: pytest.MonkeyPatch, table: Table, arguments: OrphanArguments, scan_id: str | None = None, seed: int = 0
) -> Plan:
    """Plan with the Spark engine and no Spark. Executors work on the very stores of the table."""
    area = require_area(table)

    def open_store(location: str, **_: object) -> Store:
        known = {table.ref.location: table.store, area.store.location: area.store}
        return known.get(location) or table.open_store(location)

    def area_of(control: Store, _: Store, root: str = area.root) -> ControlArea:
        """Return the driver's: tests may leave out the endpoint of a table in S3, with control documents in memory."""
        return replace(area, store=control, root=root)

    session: Any = StandIn(seed)
    with patch.context() as patched:
        patched.setattr(tasks, "open_store", open_store)
        patched.setattr(tasks, "area_of", area_of)
        patched.setattr(shuffle, "BATCH_ROWS", session.random.choice((1, 2, 3, 10, 1000)))
        return SparkScan(session, StoreSettings(), scan_id).plan(table, arguments)
