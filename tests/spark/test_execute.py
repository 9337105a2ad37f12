"""Plans of orphan files that executors carry out."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakesweep.cli.main import main
from lakesweep.control import plans
from lakesweep.control.area import ControlArea
from lakesweep.control.lease import read_lease
from lakesweep.control.ledger_rows import fates
from lakesweep.errors import UsageError
from lakesweep.runs.run import execute_stored
from lakesweep.spark.execute import refuse_speculation, spark_executor
from lakesweep.storage.local.store import LocalStore
from tests.support.orphan_scene import FOLDER, S3Scene, unique
from tests.support.reader import assert_all_readable
from tests.support.s3_server import moto_settings, moto_store, seed_moto, versioned_bucket
from tests.support.spark import REPOSITORY, run_script, submit
from tests.support.table_builder import TableBuilder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_WRITERS = "a test that nobody else writes to"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of a few thousand actions have several parts."""
    monkeypatch.setattr(plans, "PART_ROWS", 600)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    """Run the command line, and return the exit code and the document."""
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


def table_in(folder: Path, orphans: int) -> tuple[TableBuilder, set[str]]:
    """Write a table into a folder, and orphans beside its files."""
    store = LocalStore(str(folder))
    table = TableBuilder(store, partition_keys=("dt",))
    table.commit("+A")
    keys = {f"{FOLDER}data-{unique(str(number))}-0.parquet" for number in range(orphans)}
    for key in keys:
        (folder / key).write_bytes(b"orphan")
    time.sleep(0.02)  # so that they are older than what a test calls now
    return table, keys


@pytest.mark.spark4
def test_a_local_table(spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same command with another engine: the same document, and nothing is left to do."""
    table, keys = table_in(tmp_path / "orders", 1100)
    place = (tmp_path / "orders", "--control", tmp_path / "control")
    now_ms = table.store.now_ms()
    code, planned = run(capsys, "remove-orphan-files", *place, "--older-than", now_ms, "--no-writers", NO_WRITERS)
    plan_id = planned["plan_id"]
    assert planned["delete"]["count"] == 1100
    code, refused = run(capsys, "execute", place[0], plan_id, *place[1:], "--engine", "spark")
    assert (code, refused["refusal"]["code"]) == (3, "confirmation_needed")
    code, done = run(
        capsys, "execute", place[0], plan_id, *place[1:], "--engine", "spark", "--rate", 20_000, "--confirm", plan_id
    )
    assert (code, done["status"]) == (0, "done")
    assert done["outcome"] == {
        "deleted": 1100, "already_gone": 0, "failed": [], "kept_by_recheck": 0, "bytes": 1100 * len(b"orphan")
    }  # fmt: skip
    assert (done["delete"], set(done)) == (planned["delete"], set(planned) - {"warnings"})
    assert done["requests"]["delete"] == 1100  # of the executors; a local store counts each condition
    assert {entry.key for entry in table.store.list("")}.isdisjoint(keys)
    assert_all_readable(table)
    code, again = run(capsys, "execute", place[0], plan_id, *place[1:], "--engine", "spark")
    assert (code, again["status"]) == (0, "nothing_to_do")
    code, stored = run(capsys, "report", place[0], done["run_id"], *place[1:])
    assert (code, stored["report"]["outcome"]) == (0, done["outcome"])
    code, explained = run(capsys, "explain", place[0], min(keys), *place[1:])
    assert code == 0
    assert done["run_id"] in json.dumps(explained)


def test_a_bucket_with_versions(spark: "SparkSession") -> None:
    """Executors open the bucket themselves, and the ledger names the markers with which all of it comes back."""
    bucket = versioned_bucket()
    scene = S3Scene(bucket=bucket)
    scene.table.commit("+A")
    keys = {f"{FOLDER}data-{unique(str(number))}-0.parquet" for number in range(1700)}
    seed_moto(bucket, [f"db.db/t/{key}" for key in keys])
    scene.age()
    maintainer = scene.maintainer(control=moto_store("control"))
    table = maintainer.table
    planned = maintainer.run("remove-orphan-files", execute=False).plan
    assert planned is not None
    plan_id = planned.header.plan_id
    engine = spark_executor(lambda: spark, moto_settings(), maintainer.counter, keys_per_s=20_000)
    report = execute_stored(table, plan_id, confirm=plan_id, engine=engine)
    assert report.status == "done", report.refusal
    assert report.outcome is not None
    found = fates(table.area, plan_id, [str(report.run_id)])  # type: ignore[arg-type]
    assert {path for path, fate in found.items() if fate.result == "deleted" and fate.version_id} == keys
    assert scene.listed().isdisjoint(keys)
    assert read_lease(table.area).expires_ms == 0  # type: ignore[arg-type]
    assert_all_readable(scene.table)


def test_what_executors_cannot_delete_ends_with_a_sentence(
    spark: "SparkSession", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part of the plan that is gone: nothing is deleted, and the exit code says so."""
    table, keys = table_in(tmp_path / "orders", 900)
    place = (tmp_path / "orders", "--control", tmp_path / "control")
    now_ms = table.store.now_ms()
    _, planned = run(capsys, "remove-orphan-files", *place, "--older-than", now_ms, "--no-writers", NO_WRITERS)
    part = min((tmp_path / "control").rglob("actions-*.ndjson.gz"))
    part.write_bytes(part.read_bytes()[:-20])
    code, refused = run(capsys, "execute", place[0], planned["plan_id"], *place[1:], "--engine", "spark")
    assert (code, refused["refusal"]["code"]) == (1, "damaged")
    assert keys <= {entry.key for entry in table.store.list("")}


@pytest.mark.slow
def test_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`spark-submit jobs/execute_plan.py` takes what the command takes, and answers alike."""
    table, keys = table_in(tmp_path / "orders", 700)
    place = (str(tmp_path / "orders"), "--control", str(tmp_path / "control"))
    now_ms = table.store.now_ms()
    _, planned = run(capsys, "remove-orphan-files", *place, "--older-than", now_ms, "--no-writers", NO_WRITERS)
    job = REPOSITORY / "jobs" / "execute_plan.py"
    done = submit(job, place[0], planned["plan_id"], *place[1:], "--json", scratch=tmp_path / "scratch")
    assert done.exit_code == 0, done.log
    document = json.loads(done.output)
    assert (document["status"], document["outcome"]["deleted"]) == ("done", 700)
    assert {entry.key for entry in table.store.list("")}.isdisjoint(keys)


LOSING = """
import os
import signal
import sys

import lakesweep.spark.execute as execute
from lakesweep.cli.main import main
from tests.support.spark import executor_pid

run_tasks = execute.run_tasks


class Losing:
    def __init__(self, work):
        self.work = work

    def __call__(self, task, piece):
        import lakesweep.execute.waves.slices as slices

        send = slices.send

        def lose(stores, deletes, before_request, *more):
            found = send(stores, deletes, before_request, *more)
            try:
                os.close(os.open({marker!r}, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return found
            os.kill(executor_pid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

        slices.send = lose
        yield from self.work(task, piece)


execute.run_tasks = lambda session, access, work, pieces: run_tasks(session, access, Losing(work), pieces)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long
@pytest.mark.slow
def test_an_executor_that_is_lost_after_its_deletion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark repeats its task elsewhere, and the plan is done. The lost one might live: the lease stays its."""
    table, keys = table_in(tmp_path / "orders", 900)
    place = (str(tmp_path / "orders"), "--control", str(tmp_path / "control"))
    now_ms = table.store.now_ms()
    _, planned = run(capsys, "remove-orphan-files", *place, "--older-than", now_ms, "--no-writers", NO_WRITERS)
    marker = tmp_path / "lost"
    done = run_script(
        LOSING.format(marker=str(marker)),
        "execute", place[0], planned["plan_id"], *place[1:], "--json", "--engine", "spark",
        scratch=tmp_path / "scratch",
        master="local-cluster[2,1,1024]",
    )  # fmt: skip
    assert marker.exists(), done.log[-3000:]
    assert done.exit_code == 0, done.log
    document = json.loads(done.output)
    outcome = document["outcome"]
    assert (document["status"], outcome["deleted"] + outcome["already_gone"]) == ("done", 900)
    assert outcome["already_gone"] in (300, 600)  # the slice of which nobody heard
    assert {entry.key for entry in table.store.list("")}.isdisjoint(keys)
    lease = read_lease(ControlArea(LocalStore(str(tmp_path / "control")), str(tmp_path / "orders")))
    assert lease.intent is None
    assert lease.expires_ms > table.store.now_ms()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--engine", "flink"), "--engine: expected local or spark"),
        (("--rate", "5"), "--rate: expected only with --engine spark"),
        (("--engine", "spark", "--rate", "99"), "--rate: expected a number from 100"),
        (("--engine", "spark", "--rate", "fast"), "--rate: expected a number from 100"),
    ],
)
def test_words_that_are_off(
    words: tuple[str, ...], what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["execute", str(tmp_path), "20260131T120000Z-1f2e3d4c", *words])
    assert code == 2
    assert what in capsys.readouterr().err


def test_a_plan_with_documents_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the sentence names the command that takes it."""
    table = TableBuilder(LocalStore(str(tmp_path / "orders")))
    for number in range(4):
        table.commit(f"+A{number}")
    place = (tmp_path / "orders", "--control", tmp_path / "control")
    _, planned = run(capsys, "expire-snapshots", *place, "--retain-max", 1, "--retain-min", 1)
    code, refused = run(capsys, "execute", place[0], planned["plan_id"], *place[1:], "--engine", "spark")
    assert (code, refused["refusal"]["code"]) == (3, "not_files_alone")
    assert f"lakesweep execute TABLE {planned['plan_id']} --engine local" in refused["refusal"]["message"]


def test_speculation_has_to_be_off() -> None:
    """It would send keys twice."""

    class Speculating:
        @property
        def sparkContext(self) -> "Speculating":
            return self

        def getConf(self) -> dict[str, str]:
            return {"spark.speculation": "true"}

    with pytest.raises(UsageError, match=r"spark-submit --conf spark\.speculation=false"):
        refuse_speculation(Speculating())  # type: ignore[arg-type]
