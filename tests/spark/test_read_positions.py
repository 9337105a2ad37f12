"""Positions of deleted rows, where Spark leaves out row groups and pages, and where several tasks share a file.

Each row of a file has its position as a value, so a wrong position shows as a wrong row.
"""

import io
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakesweep.spark.reading.read import read_table
from lakesweep.storage.local.store import LocalStore
from tests.support import data_bytes
from tests.support.sampling import is_sampled
from tests.support.spark import scanned_rows
from tests.support.table_builder import TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROUPS, GROUP_ROWS, PAGE_ROWS = 50, 400, 40
ROWS = GROUPS * GROUP_ROWS
SYMBOLS = {"A": 0, "B": 1}


def file_bytes(number: int) -> bytes:
    """Return a file of 50 row groups of 10 pages, with an index of its pages."""
    positions = range(ROWS)
    rows = pa.table(
        {
            "v": [f"{number}-{position}" for position in positions],
            "n": pa.array([number * ROWS + position for position in positions], pa.int32()),
            "g": pa.array([position // GROUP_ROWS for position in positions], pa.int32()),
            "p": pa.array([position // PAGE_ROWS for position in positions], pa.int32()),
        }
    )
    target = io.BytesIO()
    parquet.write_table(
        rows,
        target,
        row_group_size=GROUP_ROWS,
        write_batch_size=PAGE_ROWS,
        data_page_size=1,
        use_dictionary=False,
        write_page_index=True,
    )
    return target.getvalue()


@pytest.fixture(scope="module")
def deleted() -> dict[str, list[int]]:
    """A random tenth of the rows, and whole pages and row groups at the borders."""
    random_ = random.Random(27)
    found = {}
    for symbol in SYMBOLS:
        rows = {row for row in range(ROWS) if random_.random() < 0.1}
        rows |= set(range(PAGE_ROWS)) | set(range(ROWS - PAGE_ROWS, ROWS)) | set(range(3 * GROUP_ROWS, 4 * GROUP_ROWS))
        found[symbol] = sorted(rows)
    return found


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory, deleted: dict[str, list[int]]) -> str:
    folder = tmp_path_factory.mktemp("positions") / "t"
    bodies = iter(file_bytes(number) for number in SYMBOLS.values())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_bytes, "parquet", lambda *_: next(bodies))
        table = TableBuilder(
            LocalStore(str(folder)),
            real_rows=True,
            types={"n": "INT", "g": "INT", "p": "INT"},
            options={"deletion-vectors.enabled": "true"},
        )
        table.commit("+A", "+B", rows=dict.fromkeys(SYMBOLS, ROWS))
        table.commit(index={"I": deleted})
    return str(folder)


@pytest.fixture(params=["many tasks", "one task"])
def spark_of_tasks(request: pytest.FixtureRequest, spark: "SparkSession") -> "Iterator[SparkSession]":
    """A session that divides files, or does not."""
    names = ("spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes")
    if request.param == "one task":
        yield spark
        return
    for name in names:
        spark.conf.set(name, "20000")
    yield spark
    for name in names:
        spark.conf.unset(name)


def predicates(random_: random.Random) -> Iterator[tuple[str, Any]]:
    """Conditions as Spark takes them, and for the values (n of the file, group, page)."""
    for _ in range(1 if is_sampled() else 4):
        groups = set(random_.sample(range(GROUPS), random_.choice((1, 2, 7, 9))))
        yield f"g IN ({', '.join(map(str, groups))})", lambda position, groups=groups: position // GROUP_ROWS in groups
    for _ in range(1 if is_sampled() else 3):
        pages = set(random_.sample(range(ROWS // PAGE_ROWS), 6))
        yield f"p IN ({', '.join(map(str, pages))})", lambda position, pages=pages: position // PAGE_ROWS in pages
    first = random_.randrange(GROUPS)
    yield f"g >= {first}", lambda position: position // GROUP_ROWS >= first
    yield f"g < {first}", lambda position: position // GROUP_ROWS < first
    yield f"p = {first * 10} OR g = {GROUPS - 1}", lambda at: at // PAGE_ROWS == first * 10 or at // GROUP_ROWS == 49
    yield "g = 77", lambda _: False


@pytest.mark.spark4
def test_rows_at_their_positions(spark_of_tasks: "SparkSession", location: str, deleted: dict[str, list[int]]) -> None:
    """Each condition leaves out other row groups and pages; the rows are those that are not deleted, one by one."""
    spark = spark_of_tasks
    assert spark.conf.get("spark.sql.parquet.filterPushdown") == "true"
    gone = {symbol: set(rows) for symbol, rows in deleted.items()}
    frame = read_table(spark, location, protect_ms=None)
    tasks = frame.rdd.getNumPartitions()
    assert tasks > 20 if int(spark.conf.get("spark.sql.files.maxPartitionBytes").rstrip("b")) == 20000 else tasks < 5
    for text, matches in [("true", lambda _: True), *predicates(random.Random(tasks))]:
        expected = {
            (f"{number}-{position}", number * ROWS + position)
            for symbol, number in SYMBOLS.items()
            for position in range(ROWS)
            if position not in gone[symbol] and matches(position)
        }
        found = [tuple(row) for row in frame.where(text).select("v", "n").collect()]
        assert len(found) == len(expected)
        assert set(found) == expected, text


def test_pages_are_left_out(spark: "SparkSession", location: str) -> None:
    """Otherwise the test before would prove less: Spark reads fewer rows than a row group has."""
    frame = read_table(spark, location, protect_ms=None).where("p = 55").select("v")
    frame.collect()
    assert 0 < scanned_rows(frame) < GROUP_ROWS
