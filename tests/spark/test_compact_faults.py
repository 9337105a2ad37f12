"""`jobs/compact.py`: workers and executors that die once they have rewritten a bin, and bins rewritten twice."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.deleting import DeletingTable
from tests.support.spark import REPOSITORY, check_struck, faults_in, submit, two_hosts

pytestmark = [pytest.mark.slow, pytest.mark.long]

JOB = REPOSITORY / "jobs" / "compact.py"
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture
def table(tmp_path: Path) -> DeletingTable:
    """Three partitions of three data files, with deleted rows."""
    made = DeletingTable(tmp_path)
    for number in range(9):
        made.add("abc"[number % 3], range(number * 10, number * 10 + 10))
    made.delete("id IN (3, 55) OR (id >= 20 AND id < 26)")
    return made


def check(table: DeletingTable, *faults: str, master: str, **changed: str) -> None:
    """Compact while workers meet each of the faults once, and see that each bin has one accepted copy."""
    before, folder = sorted(map(str, table.rows())), table.folder
    existing = set(folder.rglob("*.parquet"))
    finished = submit(
        JOB,
        table.store.location,
        *("--full", "--control", str(folder / "control"), "--catalog-type", "filesystem", "--execute", "--json"),
        scratch=folder / "spark",
        master=master,
        changed=faults_in(folder, faults) | changed,
    )
    check_struck(folder, faults, finished.log)
    assert finished.exit_code == 0, finished.log
    document: dict[str, Any] = json.loads(finished.output)
    assert (document["status"], document["commits"]["written"]["files"]) == ("done", 3), document
    assert sorted(map(str, table.rows())) == before == sorted(map(str, table.rows_of_pypaimon()))
    assert (len(table.data_files()), table.index_files()) == (3, ())
    written = {path.name for path in set(folder.rglob("*.parquet")) - existing}
    assert set(table.data_files()) < written, "a file of the lost copy lies beside those that count"


def test_a_worker_that_is_killed(table: DeletingTable) -> None:
    check(table, "worker rewrite", master="local[2,4]")


def test_an_executor_that_is_lost(table: DeletingTable) -> None:
    """In the only stage: no later one would notice what is missing."""
    check(table, "executor rewrite", master="local-cluster[2,1,1024]")


def test_bins_that_are_rewritten_twice_at_once(table: DeletingTable) -> None:
    with two_hosts(table.folder / "cluster") as master:
        check(table, "slow rewrite", master=master, **SPECULATION)
    assert (table.folder / "faults" / "again rewrite").exists()
