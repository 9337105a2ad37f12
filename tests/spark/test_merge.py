"""`compact` of a table with a primary key on Spark: the rows and the marks of one process."""

from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING

import pytest

from lakesweep.spark.rows.rewriting import SparkRewriting
from tests.support.keyed_table import KeyedTable, merged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table(tmp_path: Path) -> KeyedTable:
    """Large files on the last level, and small ones with new rows of some keys above them."""
    made = KeyedTable(tmp_path / "lake")
    made.put({(dt, number): float(number) for dt in "ab" for number in range(3000)})
    made.compact(full=True)
    made.upsert(30)
    return made


@pytest.mark.parametrize("full", [False, True])
def test_tasks_merge_as_one_process_does(spark: "SparkSession", table: KeyedTable, tmp_path: Path, full: bool) -> None:
    copytree(tmp_path / "lake" / "db.db" / "t", tmp_path / "copy")
    engine = SparkRewriting(lambda: spark, table.table())
    report = table.compact(full=full, engine=engine)
    assert report.status == "done", report.refusal
    table.check()
    here = merged(table.compact_copy(tmp_path / "copy", full=full))
    there = merged(report)
    assert (there.files, there.written_files, there.written_rows, there.marked_rows, there.index_files) == (
        *(here.files, here.written_files, here.written_rows, here.marked_rows, here.index_files),
    )
    assert (there.marked_rows > 0) is not full
