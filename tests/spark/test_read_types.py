"""Rows of tables that the engine wrote, read by Spark: every type, schema, format, vector, and many row groups.

`tests/differential/test_typed_reads.py` compares the Arrow reader with the engine. Spark has to find the same rows.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pypaimon import CatalogFactory

from lakesweep.errors import MaintenanceError
from lakesweep.format.values.data_type import DataType
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.spark.reading.read import frame_of, read_table
from lakesweep.spark.reading.routes import choose
from lakesweep.storage.local.store import LocalStore
from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.differential.typed_history import REFUSALS, TypedHistory, lines
from tests.differential.typed_values import PARTITIONS, PLAIN
from tests.support.rows_read import arrow_rows, planned
from tests.support.spark import scanned_rows
from tests.support.typed_rows import shown, shown_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.differential


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


FILE_ROWS, SPLIT_BYTES = 12_000, 40_000
MANY_ROW_GROUPS = {
    "parquet.block.size": "1024",
    "parquet.page.size": "256",
    "parquet.page.row.count.limit": "40",
    "parquet.enable.dictionary": "false",
}
"""The engine hands them to its Parquet writer, which looks at the size of a row group after some hundred rows."""
FIRST_MS = 1_700_000_000_000
COLUMNS = [
    ["n", "INT"], ["s", "STRING"], ["x", "BIGINT"], ["at", "TIMESTAMP(6)"], ["m", "DECIMAL(12, 2)"], ["d", "STRING"],
]  # fmt: skip
CONDITIONS: list[tuple[str, Callable[[list[Any]], bool]]] = [
    ("n IN (3, 470, 6999, 17000, 23999)", lambda row: row[0] in (3, 470, 6999, 17000, 23999)),
    ("n < 130 OR s > 's023800'", lambda row: row[0] < 130 or row[1] > "s023800"),
    ("x IS NULL AND n >= 7450 AND n < 16100", lambda row: row[2] is None and 7450 <= row[0] < 16100),
    (
        "at >= TIMESTAMP '2023-11-15 04:00:00' AND n < 22000",
        lambda row: row[3][0] >= FIRST_MS + 20_800_000 and row[0] < 22000,
    ),
    ("m < 30.05 AND d = 'b'", lambda row: float(row[4]) < 30.05 and row[5] == "b"),
]
"""Each leaves out row groups; then the same for a row of the engine."""


def typed_row(number: int) -> list[Any]:
    """Return a row: all values grow with the number, and thousands of rows on end have no `x`."""
    x = None if number // 1000 % 3 == 1 else number // 1000
    at = [FIRST_MS + number * 1000, number % 1000 * 1000]
    return [number, f"s{number:06}", x, at, f"{number / 100:.2f}", "ab"[number % 2]]


def test_many_row_groups(engine: Engine, spark: "SparkSession") -> None:
    """Files of many row groups and pages, larger than a split, with vectors: the rows of the engine and of pypaimon."""
    table, location = "typed.groups", engine.location("typed.groups")
    options = {**RETAIN_EVERYTHING, **MANY_ROW_GROUPS, "bucket": "-1", "deletion-vectors.enabled": "true"}
    engine("typed_create", table=table, columns=COLUMNS, partition_keys=["d"], options=options)
    for first in (0, FILE_ROWS):
        engine("typed_put", table=table, rows=[typed_row(first + number) for number in range(FILE_ROWS)])
    paths = sorted(location.glob("d=*/bucket-0/*"), key=lambda path: (path.parts[-3], path.stat().st_mtime_ns))
    for path, deleted in zip(paths, (1500, 0, 700, 5990), strict=True):
        assert parquet.read_metadata(path).num_row_groups >= 50 and path.stat().st_size > 2 * SPLIT_BYTES
        if deleted:
            engine("dv_delete", table=table, n=deleted, only=[path.name])

    plan = planned(LocalStore(str(location)))
    fields = [column.field for column in plan.columns]
    types = [each.type for each in fields]
    theirs = engine("typed_rows", table=table)["rows"]
    assert len(theirs) == 2 * FILE_ROWS - 1500 - 700 - 5990
    builder = CatalogFactory.create({"warehouse": str(engine.warehouse)}).get_table(table).new_read_builder()
    python = shown_rows(builder.new_read().to_arrow(builder.new_scan().plan().splits()), fields)
    assert sorted(lines(python, types)) == sorted(lines(theirs, types))

    spark.conf.set("spark.sql.files.maxPartitionBytes", str(SPLIT_BYTES))
    spark.conf.set("spark.sql.files.openCostInBytes", str(SPLIT_BYTES))
    try:
        whole = read_table(spark, str(location), protect_ms=None)
        assert not choose(plan, spark_sees_table=True).arrow and whole.rdd.getNumPartitions() > 2 * len(paths)
        for text, matches in [("true", lambda _: True), *CONDITIONS]:
            expected = sorted(lines([row for row in theirs if matches(row)], types))
            frames = [whole.where(text)]
            if text != "true":
                frames.append(read_table(spark, str(location), where=text, zone="UTC", protect_ms=None))
            for frame in frames:
                assert sorted(lines(spark_rows(frame, plan), types)) == expected, text
                assert 0 < len(expected) <= scanned_rows(frame)
                assert scanned_rows(frame) < 2 * FILE_ROWS or text == "true"
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")
