"""A compaction, from the request to the end, with the job in this process: its rows, its result, its role."""

from pathlib import Path

import pytest

from tests.functions.rows_job import NAME, VECTORS, document_at, environment, job, run_job
from tests.functions.stacked import Stacked, stacked
from tests.support.iam import assert_allowed, recorded, role
from tests.support.keyed_table import KeyedTable
from tests.support.rows_read import read_rows


@pytest.fixture
def deployed() -> Stacked:
    """A deployment with a table of six files of ten rows each, in two partitions."""
    deployed = stacked()
    table = deployed.table(NAME, 0, real_rows=True, options=VECTORS, partition_keys=["dt"])
    for number in range(6):
        table.hint("LATEST", table.commit(f"+F{number}", partition=(f"d{number % 2}",)))
    return deployed


def ask(deployed: Stacked, **words: object) -> dict[str, str]:
    """Ask for a compaction, and let the function start the job."""
    given = {"partition": ["dt=d0", "dt=d1"], "full": True, "catalog_type": "filesystem"}
    event = {"operation": "compact", "table": deployed.location(NAME), "arguments": given, **words}
    answer: dict[str, str] = deployed.invoke("on_demand", event).value
    assert answer["status"] == "queued", answer
    assert deployed.send("spark_jobs", *deployed.waiting("spark")).failed == []
    entry = deployed.job_runs[-1].job_driver["sparkSubmit"]["entryPoint"]
    assert entry.endswith("/jobs/compact.py")
    return answer


def test_data_files_are_written_under_the_role_of_the_job(deployed: Stacked, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(map(str, read_rows(deployed.store(NAME))))
    answer = ask(deployed, execute=True)
    done, calls = run_job(deployed, monkeypatch, "compact")
    assert done.exit_code == 0, done.messages
    assert_allowed(role(deployed.stack, "SparkCommitterRole"), calls)
    assert any("/bucket-0/data-" in each.resource for each in calls if each.action == "s3:PutObject")
    assert sorted(map(str, read_rows(deployed.store(NAME)))) == before
    assert job(deployed, answer)["state"] == "executed"
    result = document_at(deployed, answer["result"])
    assert (result["status"], result["run_id"], result["refusal"]) == ("done", answer["run_id"], None)
    assert (result["commits"]["files"], result["commits"]["written"]["files"]) == (6, 2)
    assert document_at(deployed, answer["report"])["report"]["run_id"] == answer["run_id"]
    newest = deployed.snapshots(NAME)[-1]
    with environment(deployed, monkeypatch):
        again, _ = run_job(deployed, monkeypatch, "compact")
    assert (again.exit_code, again.document["status"]) == (0, "nothing_to_do")
    assert deployed.snapshots(NAME)[-1] == newest, "a job that runs twice commits once"


def test_a_dry_run_has_the_role_that_plans(deployed: Stacked, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {entry.key: entry.etag for entry in deployed.store(NAME).list("")}
    answer = ask(deployed)
    done, calls = run_job(deployed, monkeypatch, "compact")
    assert done.exit_code == 0, done.messages
    assert_allowed(role(deployed.stack, "SparkPlannerRole"), calls)
    assert {entry.key: entry.etag for entry in deployed.store(NAME).list("")} == before
    assert job(deployed, answer)["state"] == "planned"
    assert document_at(deployed, answer["result"])["commits"]["files"] == 6


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"engine": "local"}, "bad_argument"),
        ({"where": "true"}, "unknown_argument"),
        ({"max_size": "x"}, "bad_argument"),
    ],
)
def test_a_compaction_that_is_refused_at_once(deployed: Stacked, arguments: dict[str, str], code: str) -> None:
    event = {"operation": "compact", "table": deployed.location(NAME), "arguments": arguments, "execute": True}
    answer = deployed.invoke("on_demand", event).value
    assert (answer["status"], answer["refusal"]["code"]) == ("refused", code)
    assert deployed.waiting("spark") == []


def by_policy(deployed: Stacked, **compaction: str) -> None:
    """Let the fleet policy say which data files passes compact."""
    deployed.rule(compaction=compaction)


def test_a_pass_asks_for_a_job_by_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job at a time. It goes by the policy of its time, and its commit makes no further work."""
    deployed = stacked()
    by_policy(deployed, partition_idle_time="1 ms", max_size="1 gb")
    options = {**VECTORS, "snapshot.num-retained.min": "3"}
    table = deployed.table(NAME, 0, real_rows=True, options=options, partition_keys=["dt"])
    for number in range(1, 7):
        table.hint("LATEST", table.commit(f"+F{number}", partition=("d0",), time_ms=1_700_000_000_000 + number))
    before = sorted(map(str, read_rows(deployed.store(NAME))))
    deployed.send("on_snapshot_written", deployed.commit_event(6, NAME))
    with recorded() as calls:
        answer = deployed.send("expire", *deployed.waiting("expire"))
    assert answer.failed == [] and answer.metrics.get("RunsRefused", 0) == 0, answer.text
    assert_allowed(role(deployed.stack, "ExpireRole"), calls)
    (request,) = deployed.waiting("spark")
    asked = {name: request[name] for name in ("kind", "operation", "arguments", "execute")}
    assert asked == {"kind": "spark_run", "operation": "compact", "arguments": {"by_policy": True}, "execute": True}
    again = {**request, "scan_id": "another-one"}
    assert deployed.send("spark_jobs", request, again).failed == []
    assert (
        len(deployed.job_runs) == 1
        and "--by-policy" in deployed.job_runs[-1].job_driver["sparkSubmit"]["entryPointArguments"]
    )
    done, calls = run_job(deployed, monkeypatch, "compact")
    assert done.exit_code == 0, done.messages
    assert_allowed(role(deployed.stack, "SparkCommitterRole"), calls)
    assert (done.document["status"], done.document["commits"]["files"]) == ("done", 6)
    assert sorted(map(str, read_rows(deployed.store(NAME)))) == before
    made = deployed.snapshots(NAME)
    deployed.run(deployed.commit_event(made[-1], NAME))
    assert deployed.waiting("spark") == [] and deployed.snapshots(NAME)[-1] == made[-1]
    deployed.send("spark_jobs", again)
    by_policy(deployed)
    left, _ = run_job(deployed, monkeypatch, "compact")
    assert (left.exit_code, left.document["status"]) == (0, "nothing_to_do"), "the policy says nothing any more"


def test_rows_of_level_0_become_visible_by_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a commit of pypaimon to a table with a primary key, through the pass, to its readers."""
    deployed = stacked()
    deployed.rule(compaction={"level_0_age": "1 ms"}, time_zone="+14:00")
    written = KeyedTable(tmp_path, {"snapshot.num-retained.min": "3"})
    store = deployed.store(NAME)
    for _ in range(2):
        written.upsert()
    for entry in written.store.list(""):
        store.put(entry.key, written.store.read(entry.key).data)
    assert read_rows(store) == []
    deployed.send("on_snapshot_written", deployed.commit_event(2, NAME))
    with recorded() as calls:
        answer = deployed.send("expire", *deployed.waiting("expire"))
    assert answer.failed == [] and answer.metrics.get("RunsRefused", 0) == 0, answer.text
    assert_allowed(role(deployed.stack, "ExpireRole"), calls)
    (request,) = deployed.waiting("spark")
    assert (request["operation"], request["arguments"]) == ("compact", {"by_policy": True})
    deployed.send("spark_jobs", request)
    done, calls = run_job(deployed, monkeypatch, "compact")
    assert (done.exit_code, done.document["status"]) == (0, "done"), done.messages
    assert_allowed(role(deployed.stack, "SparkCommitterRole"), calls)
    visible = {(row["dt"], row["id"]): row["price"] for row in read_rows(store)}
    assert visible == written.model
    deployed.run(deployed.commit_event(3, NAME))
    assert deployed.waiting("spark") == [] and deployed.snapshots(NAME)[-1] == 3
