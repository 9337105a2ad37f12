"""`compact` on Spark: the rows and the report of one process."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakesweep.errors import RefusedError
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.spark.rows.rewriting import SparkRewriting
from tests.support.deleting import DECLARED, DeletingTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table(tmp_path: Path) -> DeletingTable:
    made = DeletingTable(tmp_path)
    for number in range(12):
        made.add("ab"[number % 2], range(number * 10, number * 10 + 10))
    made.delete("id IN (3, 55) OR (id >= 20 AND id < 26)")
    return made


def engine_of(spark: "SparkSession", table: DeletingTable) -> SparkRewriting:
    return SparkRewriting(lambda: spark, table.table())


def test_each_task_rewrites_a_bin(spark: "SparkSession", table: DeletingTable) -> None:
    before = sorted(map(str, table.rows()))
    report = compact(table.table(), CompactArguments(DECLARED), execute=True, engine=engine_of(spark, table))
    assert report.status == "done", report.refusal
    assert isinstance(report.commits, CompactionReport)
    assert (report.commits.files, report.commits.written_files, report.commits.written_rows) == (12, 2, 112)
    assert sorted(map(str, table.rows())) == before
    assert len(table.rows_of_pypaimon()) == 112
    assert table.index_files() == ()


def test_a_data_file_that_is_gone(spark: "SparkSession", table: DeletingTable) -> None:
    """It is a sentence, and nothing is committed."""
    name = table.data_files()[0]
    (gone,) = (table.folder / "db.db" / "t").rglob(name)
    gone.unlink()
    newest = table.newest().snapshot.id
    try:
        report = compact(table.table(), CompactArguments(DECLARED), execute=True, engine=engine_of(spark, table))
    except RefusedError as error:
        assert error.code == "missing_data_file"
    else:
        assert report.refusal is not None
        assert (report.refusal.code, name in report.refusal.message) == ("missing_data_file", True)
    assert table.newest().snapshot.id == newest
