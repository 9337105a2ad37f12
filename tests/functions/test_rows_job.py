"""A deletion of rows, from the request to the end, with the job in this process: its rows, its result, its role."""

import json
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.intent import Intent
from lakesweep.control.lease import acquire
from tests.functions.rows_job import NAME, SECRET, VECTORS, document_at, environment, job, run_job
from tests.functions.stacked import Stacked, stacked
from tests.support.iam import assert_allowed, role
from tests.support.rows_read import read_rows
from tests.unit.cli.command_line import call


@pytest.fixture
def deployed() -> Stacked:
    """A deployment with a table of three files of ten rows each, and a condition beside its control documents."""
    deployed = stacked()
    table = deployed.table(NAME, 0, real_rows=True, options=VECTORS, partition_keys=["dt"])
    for number in range(3):
        table.hint("LATEST", table.commit(f"+F{number}", partition=(f"d{number}",)))
    deployed.control().put("conditions/forget.sql", f"v = '{SECRET}' OR dt = 'd2'\n".encode())
    return deployed


def ask(deployed: Stacked, **words: Any) -> dict[str, Any]:
    """Ask for a deletion, and let the function start the job."""
    where = f"s3://{deployed.control_bucket}/lakesweep/conditions/forget.sql"
    event = {"operation": "delete-rows", "table": deployed.location(NAME), "arguments": {"where_file": where}, **words}
    answer: dict[str, Any] = deployed.invoke("on_demand", event).value
    assert answer["status"] == "queued", answer
    bodies = deployed.waiting("spark")
    assert SECRET not in json.dumps([bodies, answer])
    assert deployed.send("spark_jobs", *bodies).failed == []
    return answer


def test_rows_are_deleted_under_the_role_of_the_job(deployed: Stacked, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ask(deployed, execute=True)
    done, calls = run_job(deployed, monkeypatch)
    assert done.exit_code == 0, done.messages
    assert_allowed(role(deployed.stack, "SparkCommitterRole"), calls)
    assert len(read_rows(deployed.store(NAME))) == 30 - 2 - 10
    assert job(deployed, answer)["state"] == "executed"
    result = document_at(deployed, answer["result"])
    assert (result["status"], result["run_id"], result["refusal"]) == ("done", answer["run_id"], None)
    assert (result["commits"]["rows"], result["commits"]["whole_files"]) == (12, 1)
    assert document_at(deployed, answer["report"])["report"]["run_id"] == answer["run_id"]
    for entry in deployed.control().list(""):
        if not entry.key.startswith("conditions/"):
            assert SECRET.encode() not in deployed.control().read(entry.key).data, entry.key


def test_data_files_are_rewritten_under_the_role_of_the_job(deployed: Stacked, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a table without deletion vectors."""
    store = deployed.store(NAME)
    document = json.loads(store.read("schema/schema-0").data)
    document["options"] |= {"deletion-vectors.enabled": "false", "bucket": "-1"}
    store.put("schema/schema-0", json.dumps(document).encode())
    answer = ask(deployed, execute=True)
    done, calls = run_job(deployed, monkeypatch)
    assert done.exit_code == 0, done.messages
    assert_allowed(role(deployed.stack, "SparkCommitterRole"), calls)
    assert sum("/bucket-0/data-" in each.resource for each in calls if each.action == "s3:PutObject") == 2
    assert len(read_rows(store)) == 30 - 2 - 10
    commits = document_at(deployed, answer["result"])["commits"]
    assert (commits["rows"], commits["whole_files"], commits["rewritten"]["kept_rows"]) == (12, 1, 18)


def test_a_job_that_runs_twice_commits_once(deployed: Stacked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that came since are not what the person asked about."""
    answer = ask(deployed, execute=True)
    run_job(deployed, monkeypatch)
    newest = deployed.snapshots(NAME)[-1]
    with environment(deployed, monkeypatch) as words:
        again = call("delete-rows", *words)
    assert (again.exit_code, again.document["status"]) == (0, "nothing_to_do")
    assert any("commits nothing more" in warning for warning in again.document["warnings"])
    assert deployed.snapshots(NAME)[-1] == newest
    assert document_at(deployed, answer["result"])["status"] == "done", "the first result counts"


def test_a_dry_run_has_the_role_that_plans(deployed: Stacked, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {entry.key: entry.etag for entry in deployed.store(NAME).list("")}
    answer = ask(deployed)
    done, calls = run_job(deployed, monkeypatch)
    assert done.exit_code == 0, done.messages
    assert_allowed(role(deployed.stack, "SparkPlannerRole"), calls)
    assert {entry.key: entry.etag for entry in deployed.store(NAME).list("")} == before
    assert job(deployed, answer)["state"] == "planned"
    result = document_at(deployed, answer["result"])
    assert (result["status"], result["run_id"], result["commits"]["rows"]) == ("planned", None, 12)
    assert [each["roots"] for each in result["commits"]["shown_by"]] == ["snapshots 1 to 3"]


def test_a_refusal_is_in_the_document(deployed: Stacked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file, and a condition that does not parse, are what the request says wrong."""
    deployed.control().put("conditions/forget.sql", f"nobody = '{SECRET}'".encode())
    answer = ask(deployed, execute=True)
    done, _ = run_job(deployed, monkeypatch)
    assert done.exit_code == 2
    document = job(deployed, answer)
    assert (document["state"], document["code"], len(document["ended"])) == ("refused", "bad_where", 1)
    assert "there is no column nobody" in document["why"]
    missing = f"s3://{deployed.control_bucket}/lakesweep/conditions/other.sql"
    answer = ask(deployed, arguments={"where_file": missing}, execute=True)
    run_job(deployed, monkeypatch)
    document = job(deployed, answer)
    assert (document["state"], document["code"]) == ("refused", "bad_argument")
    assert f"{missing} does not exist" in document["why"]


def test_a_plan_that_another_run_began_is_not_finished_by_this_role(
    deployed: Stacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The role cannot delete. The job ends with the code of a held lease, as if that run lived, and starts again."""
    area = ControlArea(deployed.control(), deployed.location(NAME))
    acquire(area, "r1", Intent("p1", "main", None, ("r1",), area.store.now_ms()))
    over = {**json.loads(area.read("lease.json").data), "expires_at_ms": area.store.now_ms() - 3_600_000}
    area.store.put(area.path("lease.json").removeprefix(f"{area.store.location}/"), json.dumps(over).encode())
    answer = ask(deployed, execute=True)
    with environment(deployed, monkeypatch) as words:
        held = call("delete-rows", *words, "--option", "commit.timeout=1 s")
    assert held.exit_code == 5, held.messages
    assert job(deployed, answer)["state"] == "running"
    assert len(read_rows(deployed.store(NAME))) == 30
