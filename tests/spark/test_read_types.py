"""Rows of tables that the engine wrote, read by Spark: every type, changed schemas, three formats, vectors.

`tests/differential/test_typed_reads.py` compares the Arrow reader with the engine. Spark has to find the same rows.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.format.values.data_type import DataType
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.spark.reading.read import frame_of
from lakesweep.spark.reading.routes import choose
from lakesweep.storage.local.store import LocalStore
from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.differential.typed_history import REFUSALS, TypedHistory, lines
from tests.differential.typed_values import PARTITIONS, PLAIN
from tests.support.rows_read import arrow_rows, planned
from tests.support.typed_rows import shown, shown_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.differential


@pytest.fixture(scope="module")
def engine(engine_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(tmp_path_factory.mktemp("engine"), engine_classpath) as engine:
        yield engine


@dataclass(slots=True)
class Seen:
    """What a comparison has shown."""

    rows: int = 0
    files: Counter[str] = field(default_factory=Counter)
    """By how they were read."""


def spark_rows(frame: "DataFrame", plan: ReadPlan) -> list[list[Any]]:
    """Return the rows of a frame, by position, as `shown_rows` does."""
    batches = frame._collect_as_arrow()
    if not batches:
        return []
    table = pa.Table.from_batches(batches)
    columns = [
        shown(table.column(number).combine_chunks(), column.field.type) for number, column in enumerate(plan.columns)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def cut(value: Any, type_: DataType) -> Any:
    """Return a value with six digits of a second."""
    if value is None:
        return None
    match type_.root:
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return [value[0], value[1] // 1000 * 1000]
        case "ROW":
            return [cut(each, inner.type) for each, inner in zip(value, type_.fields, strict=True)]
        case "ARRAY":
            return [cut(each, type_.children[0]) for each in value]
        case "MAP" | "MULTISET":
            item = type_.children[-1] if type_.root == "MAP" else DataType("INT")
            return [[cut(key, type_.children[0]), cut(each, item)] for key, each in value]
    return value


class PlainHistory(TypedHistory):
    """A table in Parquet of which Spark reads many files itself: its first columns are not nested."""

    def create(self) -> None:
        random_ = self._random
        self._formats = ("parquet",)
        keyed = random_.random() < 0.3
        partitions = [[f"p{number}", random_.choice(PARTITIONS)] for number in range(random_.choice((0, 0, 1, 2)))]
        columns = [[f"c{number}", type_] for number, type_ in enumerate(random_.sample(PLAIN, random_.randint(3, 12)))]
        every = columns + partitions + [["k", "INT"]] * keyed
        random_.shuffle(every)
        self._partitions = tuple(name for name, _ in partitions)
        self._keys = (*self._partitions, "k") if keyed else ()
        options = {
            **RETAIN_EVERYTHING,
            "deletion-vectors.enabled": "true",
            "deletion-vectors.bitmap64": str(random_.random() < 0.5).lower(),
            "bucket": "2" if keyed else "-1",
        }
        self.engine(
            "typed_create", table=self.table, columns=every, primary_keys=list(self._keys),
            partition_keys=list(self._partitions), options=options,
        )  # fmt: skip


def compared(spark: "SparkSession", history: TypedHistory) -> Seen:
    """Compare the latest snapshot of a history."""
    store = LocalStore(str(history.location))
    plan = planned(store, open_store=LocalStore)
    types = [column.field.type for column in plan.columns]
    expected = [
        [cut(value, type_) for value, type_ in zip(row, types, strict=True)]
        for row in shown_rows(arrow_rows(store, plan, LocalStore), [column.field for column in plan.columns])
    ]
    found = spark_rows(frame_of(spark, plan), plan)
    assert Counter(lines(found, types)) == Counter(lines(expected, types)), f"seed {history.seed}"
    routes = choose(plan, spark_sees_table=True)
    by_spark = sum(map(len, routes.spark.values()))
    return Seen(len(found), Counter(spark=by_spark, arrow=len(routes.arrow)))


def played(engine: Engine, seed: int) -> TypedHistory:
    kind = PlainHistory if seed % 3 else TypedHistory
    history = kind(engine, f"typed.s{seed}", seed)
    history.create()
    history.put()
    for _ in range(8):
        history.step()
    history.put()
    return history


def test_histories(engine: Engine, spark: "SparkSession") -> None:
    """Both ways to read are used, and some tables need a merge, which is refused."""
    _compare(engine, spark, range(6))


@pytest.mark.long
def test_many_histories(engine: Engine, spark: "SparkSession") -> None:
    """The same for more tables."""
    _compare(engine, spark, range(100, 160))


def _compare(engine: Engine, spark: "SparkSession", seeds: range) -> None:
    rows, files = 0, Counter[str]()
    for seed in seeds:
        history = played(engine, seed)
        try:
            seen = compared(spark, history)
        except MaintenanceError as error:
            assert error.code in REFUSALS, f"seed {seed}: {error}"
            continue
        rows += seen.rows
        files += seen.files
    assert rows and files["spark"] and files["arrow"]
