"""`delete_rows` on Spark: the rows, vectors and report of one process, whatever happens to tasks."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakesweep.model.commits.rows import RowsReport
from lakesweep.model.report import RunReport
from lakesweep.operations.reading.arrow import file_vectors, stores_of
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.delete_rows import delete_rows as in_one_process
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.spark import delete_rows
from lakesweep.spark.opening import open_table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.open import DEFAULT_SETTINGS
from tests.support.mixed_table import mixed_table
from tests.support.rows_read import planned, read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCKED = Catalog("filesystem", True)
"""Without a lock, each commit waits until the one before is some seconds old."""
CONDITIONS = (
    "id >= 40 AND x > 30",
    "name IN ('name 3', 'name 7') OR more = 2",
    "day = 'd1' AND id < 100 OR day = 'd2' AND x IS NULL",
    "seen >= TIMESTAMP '1970-01-03' AND at < TIMESTAMP_NTZ '1970-01-05'",
)


def opened(location: Path) -> Table:
    return open_table(str(location), "main", f"{location.parent}-control", DEFAULT_SETTINGS)


def in_spark(spark: "SparkSession", location: Path, where: str, **words: Any) -> RunReport:
    catalog = {"catalog_type": LOCKED.type, "catalog_lock": LOCKED.has_lock}
    given = {**catalog, "execute": True, "control": f"{location.parent}-control", **words}
    return delete_rows(spark, str(location), where, **given)


def locally(location: Path, where: str, **words: Any) -> RunReport:
    execute = words.pop("execute", True)
    return in_one_process(opened(location), DeleteRowsArguments(where, catalog=LOCKED, **words), execute=execute)


def document(report: RunReport) -> dict[str, Any]:
    """Return what a report says, but for what differs from run to run."""
    assert report.refusal is None, report.refusal
    assert isinstance(report.commits, RowsReport)
    return {"status": report.status, **replace(report.commits, made=()).to_json()}


def deleted(location: Path) -> Mapping[str, list[int]]:
    """Return data file -> the positions that its vector deletes."""
    found = {}
    plan = planned(LocalStore(str(location)))
    for split in plan.splits:
        vectors = file_vectors(stores_of(plan, LocalStore(str(location)), None), plan, split)
        found |= {path: list(vector.positions()) for path, vector in vectors.items()}
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed_table(tmp_path_factory.mktemp("mixed"))


@pytest.fixture
def copies(made: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two copies of one table."""
    places = tmp_path / "one" / "t", tmp_path / "two" / "t"
    for place in places:
        shutil.copytree(made, place)
    return places


@pytest.mark.spark4
def test_the_same_as_in_one_process(spark: "SparkSession", copies: tuple[Path, Path]) -> None:
    """Formats, schemas, partitions; each condition meets the vectors of those before."""
    one, two = copies
    before = len(read_rows(LocalStore(str(one))))
    for where in CONDITIONS:
        zone = "Europe/Berlin" if "seen" in where else None
        mine, theirs = locally(one, where, zone=zone), in_spark(spark, two, where, zone=zone)
        assert document(theirs) == document(mine)
        assert document(theirs)["status"] == "done"
        assert deleted(two) == deleted(one)
        assert read_rows(LocalStore(str(two))) == read_rows(LocalStore(str(one)))
    assert 0 < len(read_rows(LocalStore(str(two)))) < before
    again = in_spark(spark, two, CONDITIONS[0], execute=False)
    assert again.status == "nothing_to_do"
    assert document(again) == document(locally(one, CONDITIONS[0], execute=False))
