"""`delete_rows` on Spark: the rows, vectors and report of one process, whatever happens to tasks."""

import shutil
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.commits.rows import RowsReport
from lakesweep.model.report import RunReport
from lakesweep.operations.reading.arrow import file_vectors, stores_of
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.delete_rows import delete_rows as in_one_process
from lakesweep.operations.writing.bins import Bin
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.spark import delete_rows
from lakesweep.spark.opening import open_table
from lakesweep.spark.rows import engine as engines
from lakesweep.spark.rows import rewriting, tasks
from lakesweep.spark.rows.engine import SparkEngine
from lakesweep.spark.tasks import Access, Task
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
    return {"status": report.status, **replace(report.commits, made=(), shown_by=None, base_uuid=None).to_json()}


def deleted(location: Path) -> Mapping[str, list[int]]:
    """Return data file -> the positions that its vector deletes."""
    found = {}
    plan = planned(LocalStore(str(location)))
    for split in plan.splits:
        vectors = file_vectors(stores_of(plan, LocalStore(str(location)), None), plan, split)
        found |= {path: list(vector.positions()) for path, vector in vectors.items()}
    return found


def jobs(spark: "SparkSession") -> int:
    """Return how many jobs a session has run."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))  # type: ignore[arg-type]


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
def test_the_same_as_in_one_process(
    spark: "SparkSession", copies: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Formats, schemas, partitions; each condition meets the vectors of those before. Tasks write index files."""
    monkeypatch.setattr(engines, "FEW_GROUPS", 0)
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


def test_data_files_are_rewritten_as_in_one_process(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a table without deletion vectors. Each file of each format becomes one in Parquet; several jobs do it."""
    one, two = (mixed_table(tmp_path / name, deletion__vectors_enabled="false") for name in ("one", "two"))
    monkeypatch.setattr(engines, "MOST_BYTES", 100)
    for where in CONDITIONS[:2]:
        mine, theirs = locally(one, where), in_spark(spark, two, where)
        assert document(theirs) == document(mine)
        assert document(theirs)["status"] == "done"
        rows = [sorted(map(str, read_rows(LocalStore(str(each))))) for each in (one, two)]
        assert rows[0] == rows[1]
    assert isinstance(theirs.commits, RowsReport) and theirs.commits.rewritten is not None
    assert theirs.commits.rewritten.files == theirs.commits.rewritten.written_files == 9


def test_large_tables_take_several_jobs(
    spark: "SparkSession", copies: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes to the driver at once has a bound, however many rows there are."""
    one, two = copies
    for name in ("MOST_ROWS", "MOST_BYTES", "FEW_GROUPS"):
        monkeypatch.setattr(engines, name, 1)
    before = jobs(spark)
    in_spark(spark, one, CONDITIONS[1])
    assert jobs(spark) - before == 2 + 3, "of two tasks, and three partitions"
    locally(two, CONDITIONS[1])
    assert deleted(one) == deleted(two)


@pytest.mark.parametrize(
    ("most", "expected"),
    [(1, [[3], [1], [1], [5]]), (3, [[3], [1, 1], [5]]), (5, [[3, 1, 1], [5]]), (99, [[3, 1, 1, 5]])],
)
def test_parts(most: int, expected: list[list[int]]) -> None:
    """In their order; one that is larger than the most is alone."""
    assert [*engines._parts([3, 1, 1, 5], int, most)] == expected
    assert [*engines._parts([], int, most)] == []


@pytest.mark.parametrize(("at_once", "expected"), [(1, [18]), (2, [9, 9]), (5, [3] * 6), (99, [1] * 18)])
def test_tasks(made: Path, at_once: int, expected: list[int]) -> None:
    """A core takes as many files as another."""
    plan = planned(LocalStore(str(made)))
    tasks = engines.tasks_of(plan, at_once)
    assert [len(split.files) for split in tasks] == expected
    assert [file for split in tasks for file in split.files] == [file for split in plan.splits for file in split.files]


def test_tasks_of_many_rows(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task ends soon, also on one core. Many small files are much work, too."""
    monkeypatch.setattr(engines, "TASK_ROWS", 4 * (engines.OPEN_ROWS + 10))
    tasks = engines.tasks_of(planned(LocalStore(str(made))), 1)
    assert [len(split.files) for split in tasks] == [4, 4, 4, 4, 2]


def test_the_zone_of_the_session_changes_nothing(spark: "SparkSession", copies: tuple[Path, Path]) -> None:
    """The call or the policy says the zone, or a condition that depends on it is refused."""
    one, two = copies
    where = "seen BETWEEN TIMESTAMP '1970-01-02 00:00:00' AND TIMESTAMP '1970-01-02 12:00:00'"
    locally(one, where, zone="Asia/Tokyo")
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        refused = in_spark(spark, two, where)
        in_spark(spark, two, where, zone="Asia/Tokyo")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert refused.refusal is not None
    assert refused.refusal.code == "no_time_zone"
    assert deleted(two) == deleted(one)


def test_a_damaged_file_ends_the_call(spark: "SparkSession", copies: tuple[Path, Path]) -> None:
    """With the words of one process; nothing is written into the table."""
    refusals = []
    for place in copies:
        damaged = sorted(place.rglob("*.parquet"))[0]
        damaged.write_bytes(damaged.read_bytes()[:100].ljust(damaged.stat().st_size, b"\0"))
        before = sorted(place.rglob("*"))
        report = in_spark(spark, place, CONDITIONS[0]) if place == copies[1] else locally(place, CONDITIONS[0])
        assert sorted(place.rglob("*")) == before
        assert report.refusal is not None
        refusals.append((report.refusal.code, report.refusal.message.replace(str(place), "")))
    (code, mine), (other, theirs) = refusals
    assert (code, theirs) == (other, f"{mine} (in an executor)")


def test_requests_of_tasks_count(spark: "SparkSession", copies: tuple[Path, Path]) -> None:
    """Each of the 18 data files takes some."""
    table = opened(copies[0])
    engine = SparkEngine(lambda: spark, table)
    arguments = DeleteRowsArguments(CONDITIONS[0], catalog=LOCKED)
    in_one_process(table, arguments, execute=False, engine=engine)
    assert table.counter.snapshot()["get"] > 18


def test_spark_is_opened_only_for_work(copies: tuple[Path, Path]) -> None:
    """A condition on partitions alone needs no data file, and a refusal none either."""

    def no_session() -> "SparkSession":
        raise AssertionError("a session was opened")

    def report(where: str) -> RunReport:
        table = opened(copies[0])
        engine = SparkEngine(no_session, table)
        return in_one_process(table, DeleteRowsArguments(where, catalog=LOCKED), execute=True, engine=engine)

    assert document(report("day = 'd1'"))["whole_files"] == 6
    assert report("day = 'd9' AND id > 3").status == "nothing_to_do", "no partition may have such rows"
    assert report("seen > TIMESTAMP '1970-01-03'").refusal is not None


def test_an_error_that_may_quote_a_value_keeps_its_text(
    copies: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says where it happened. An error of Lakesweep has no values."""

    def broken(*args: Any) -> None:
        raise ValueError("cannot compare 'secret'")

    plan = planned(LocalStore(str(copies[0])), where=CONDITIONS[0])
    task = Task(Access(plan.table, ""))
    monkeypatch.setattr(tasks, "match_split", broken)
    with pytest.raises(MaintenanceError, match="ValueError at broken in line") as error:
        list(tasks.MatchSplit(plan.shared)(task, {"split": tasks.packed(plan.splits[0])}))
    assert "secret" not in "".join(traceback.format_exception(error.value))
    monkeypatch.setattr(rewriting, "rewrite_bin", broken)
    files = Bin(plan.splits[0].files[:1])
    with pytest.raises(MaintenanceError, match="ValueError at broken in line") as error:
        list(rewriting.RewriteBin(SimpleNamespace(plan=plan))(task, {"bin": tasks.packed(files)}))  # type: ignore[arg-type]
    assert "secret" not in "".join(traceback.format_exception(error.value))
