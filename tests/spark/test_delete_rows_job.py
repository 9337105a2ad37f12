"""`jobs/delete_rows.py`: workers, executors and drivers that die, and values of the condition that nobody may learn."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakesweep.storage.local.store import LocalStore
from tests.support.rows_read import planned, read_rows
from tests.support.spark import REPOSITORY, Finished, check_struck, faults_in, submit, two_hosts
from tests.support.table_builder import TableBuilder

JOB, ERASE = REPOSITORY / "jobs" / "delete_rows.py", REPOSITORY / "jobs" / "erase.py"
FILES = 6
SECRET, NUMBER = "v00003-secret", 887_766_554
WHERE = f"v IN ('v00002', 'v00007', '{SECRET}') OR n = {NUMBER}"
LEFT = sorted([0, 1, 3, 4, 5, 6, 8, 9] * FILES)
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    """Data files of ten rows, each in a partition of its own, one with a vector. Tasks write so many index files."""
    built = TableBuilder(
        LocalStore(str(tmp_path / "t")),
        real_rows=True,
        types={"n": "INT"},
        partition_keys=("dt",),
        options={"deletion-vectors.enabled": "true"},
    )
    symbols = [f"F{number}" for number in range(FILES)]
    days = {symbol: (f"d{number}",) for number, symbol in enumerate(symbols)}
    built.commit(*(f"+{symbol}" for symbol in symbols), partition=days)
    built.commit(index={"I": {"F0": [2]}}, partition=("d0",))
    (tmp_path / "condition").write_text(WHERE, encoding="utf-8")
    return built


def run(folder: Path, *faults: str, master: str = "local[2,4]", job: Path = JOB, **changed: str) -> Finished:
    """Delete with `spark-submit`, while workers meet each of the faults once. Spark writes its event log."""
    (folder / "events").mkdir(exist_ok=True)
    events = {"enabled": "true", "compress": "false", "dir": str(folder / "events")}
    finished = submit(
        job,
        str(folder / "t"),
        *("--where-file", str(folder / "condition"), "--control", str(folder / "control")),
        *("--catalog-type", "filesystem", "--catalog-lock", "--execute", "--json"),
        scratch=folder / "spark",
        master=master,
        changed=faults_in(folder, faults)
        | {f"spark.eventLog.{name}": value for name, value in events.items()}
        | changed,
    )
    check_struck(folder, faults, finished.log)
    return finished


def numbers(table: TableBuilder) -> list[int]:
    return sorted(row["n"] for row in read_rows(table.store))


def done(finished: Finished) -> dict[str, Any]:
    """Return the report of a deletion that was committed."""
    assert finished.exit_code == 0, finished.log
    document: dict[str, Any] = json.loads(finished.output.splitlines()[-1])  # warnings come before
    assert (document["status"], document["commits"]["rows"]) == ("done", 2 * FILES - 1)
    return document


def check_secret(folder: Path, finished: Finished, job: Path = JOB) -> None:
    """Make sure that no value of the condition is in a log, in the event log, or in any file that somebody wrote."""
    events = "".join(path.read_text(encoding="utf-8") for path in (folder / "events").iterdir())
    assert "SparkListenerTaskEnd" in events
    assert job.name in events, "the arguments of the job"
    written = [path for path in folder.rglob("*") if path.is_file() and path != folder / "condition"]
    texts = {str(path): path.read_bytes().decode("latin-1") for path in written}
    for name, text in {**texts, "log": finished.log, "output": finished.output}.items():
        assert SECRET not in text, name
        assert str(NUMBER) not in text, name


def index_files(table: TableBuilder) -> tuple[set[str], set[str]]:
    """Return the index files of the newest snapshot, and all that exist."""
    plan = planned(table.store)
    named = {file.vector.index_file for split in plan.splits for file in split.files if file.vector is not None}
    return named, {entry.key for entry in table.store.list("index/")}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["done", "damaged", "failed"])
def test_nobody_learns_the_values_of_the_condition(tmp_path: Path, table: TableBuilder, how: str) -> None:
    """Neither from Spark's event log, which has the arguments of a job, nor from logs, documents or reports."""
    if how == "done":
        finished = run(tmp_path)
        assert done(finished)["commits"]["condition"] == "a condition on v, n"
        assert numbers(table) == LEFT
        assert len(list((tmp_path / "control").rglob("reports/*.json"))) == 1
    elif how == "damaged":
        path = tmp_path / "t" / table.path("F1")
        path.write_bytes(path.read_bytes()[:100].ljust(path.stat().st_size, b"\0"))
        finished = run(tmp_path)
        assert finished.exit_code == 3
        assert "expected a whole Parquet file" in finished.output
    else:
        finished = run(tmp_path, "worker match", master="local[2]")  # a task is tried once
        assert finished.exit_code == 1
        assert "spark_failed" in finished.output
    check_secret(tmp_path, finished)


@pytest.mark.long
@pytest.mark.slow
def test_an_erasure_on_spark(tmp_path: Path, table: TableBuilder) -> None:
    """Tasks search, mark and rewrite; the job ends as partial, since the snapshots before have the rows."""
    finished = run(tmp_path, job=ERASE)
    document = json.loads(finished.output.splitlines()[-1])
    assert (finished.exit_code, document["refusal"]["code"]) == (4, "rows_remain"), finished.log
    assert [step["status"] for step in document["steps"]] == ["done"] * 3
    assert numbers(table) == LEFT and index_files(table)[0] == set()
    check_secret(tmp_path, finished, ERASE)


@pytest.mark.long
@pytest.mark.slow
def test_workers_that_are_killed(tmp_path: Path, table: TableBuilder) -> None:
    """One while it looks for rows, one after it wrote index files: these are orphans."""
    done(run(tmp_path, "worker match", "worker index"))
    assert numbers(table) == LEFT
    named, found = index_files(table)
    assert named < found


@pytest.mark.long
@pytest.mark.slow
def test_executors_that_are_lost(tmp_path: Path, table: TableBuilder) -> None:
    """With what they had answered or written."""
    finished = run(tmp_path, "executor match", "executor index", master="local-cluster[2,1,1024]")
    done(finished)
    assert "Command exited with code 137" in finished.log, "SIGKILL"
    assert numbers(table) == LEFT
    check_secret(tmp_path, finished)


@pytest.mark.long
@pytest.mark.slow
def test_tasks_that_run_twice_at_once(tmp_path: Path, table: TableBuilder) -> None:
    """Speculation: a second copy of a slow task answers first. Index files of both exist, and one of them counts."""
    with two_hosts(tmp_path / "cluster") as master:
        done(run(tmp_path, "slow match", "slow index", master=master, **SPECULATION))
    again = {path.name for path in (tmp_path / "faults").glob("again *")}
    assert again >= {"again match", "again index"}
    assert numbers(table) == LEFT
    named, found = index_files(table)
    assert named < found


@pytest.mark.long
@pytest.mark.slow
def test_a_driver_that_is_killed(tmp_path: Path, table: TableBuilder) -> None:
    """On `local[2]` the executor is the driver's JVM. Nothing is committed, and the same call deletes the rows."""
    before = numbers(table)
    for fault in ("executor match", "executor index"):
        assert run(tmp_path, fault, master="local[2]").exit_code != 0
        assert numbers(table) == before
    finished = run(tmp_path)
    done(finished)
    assert numbers(table) == LEFT
    check_secret(tmp_path, finished)


def test_a_condition_on_the_command_line_of_a_job(tmp_path: Path, table: TableBuilder) -> None:
    """Spark's event log has it, so it is refused before a Spark starts; not if its values may be seen."""
    control = ("--control", str(tmp_path / "control"))
    job = [sys.executable, str(JOB), str(tmp_path / "t"), "--where", "dt = 'd0'", *control]
    refused = subprocess.run(job, capture_output=True, text=True, env=os.environ, timeout=120, check=False)
    assert refused.returncode == 2
    assert "--where: Spark's event log has the command line of a job; expected --where-file" in refused.stderr
    taken = [*job, "--keep-condition"]  # metadata tell the rows, so this call starts no Spark either
    planned = subprocess.run(taken, capture_output=True, text=True, env=os.environ, timeout=120, check=False)
    assert planned.returncode == 0, planned.stderr
    assert "9 rows" in planned.stdout
