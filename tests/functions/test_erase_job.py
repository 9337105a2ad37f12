"""An erasure, from the request to the end, with the job in this process: its rows, its record, its role."""

import json

import pytest

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
    deployed.control().put("conditions/forget.sql", f"v = '{SECRET}'\n".encode())
    return deployed


def test_rows_are_erased_under_the_role_of_the_job(deployed: Stacked, monkeypatch: pytest.MonkeyPatch) -> None:
    where = f"s3://{deployed.control_bucket}/lakesweep/conditions/forget.sql"
    given = {"where_file": where, "catalog_type": "filesystem"}
    event = {"operation": "erase", "table": deployed.location(NAME), "arguments": given, "execute": True}
    answer = deployed.invoke("on_demand", event).value
    bodies = deployed.waiting("spark")
    assert answer["status"] == "queued" and SECRET not in json.dumps([bodies, answer]), answer
    assert deployed.send("spark_jobs", *bodies).failed == []
    assert deployed.job_runs[-1].job_driver["sparkSubmit"]["entryPoint"].endswith("/jobs/erase.py")
    done, calls = run_job(deployed, monkeypatch, "erase")
    assert (done.exit_code, done.document["refusal"]["code"]) == (4, "rows_remain"), done.messages
    assert_allowed(role(deployed.stack, "SparkCommitterRole"), calls)
    assert all(row["v"] != SECRET for row in read_rows(deployed.store(NAME)))
    ended = job(deployed, answer)
    assert (ended["state"], ended["code"]) == ("executed", "rows_remain"), "older versions have them, as they must"
    result = document_at(deployed, answer["result"])
    assert result["commits"]["erasure"] == answer["run_id"] and result["commits"]["there"] > 0
    newest = deployed.snapshots(NAME)[-1]
    with environment(deployed, monkeypatch) as words:
        again = call("erase", *words)
    assert (again.exit_code, deployed.snapshots(NAME)[-1]) == (4, newest), "a job that runs twice commits once"
    proof = call("erase", deployed.location(NAME), "--control", words[2], "--proof", answer["run_id"], "--json")
    assert (proof.exit_code, proof.document["state"]) == (4, "rows_remain")
    for entry in deployed.control().list(""):
        if not entry.key.startswith("conditions/"):
            assert SECRET.encode() not in deployed.control().read(entry.key).data, entry.key


@pytest.mark.long
def test_a_dry_run_has_the_role_that_plans(deployed: Stacked, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {entry.key: entry.etag for entry in deployed.store(NAME).list("")}
    where = f"s3://{deployed.control_bucket}/lakesweep/conditions/forget.sql"
    given = {"where_file": where, "catalog_type": "filesystem"}
    event = {"operation": "erase", "table": deployed.location(NAME), "arguments": given}
    answer = deployed.invoke("on_demand", event).value
    assert deployed.send("spark_jobs", *deployed.waiting("spark")).failed == []
    done, calls = run_job(deployed, monkeypatch, "erase")
    assert (done.exit_code, done.document["status"]) == (0, "planned"), done.messages
    assert_allowed(role(deployed.stack, "SparkPlannerRole"), calls)
    assert {entry.key: entry.etag for entry in deployed.store(NAME).list("")} == before
    assert document_at(deployed, answer["result"])["commits"]["there"] > 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"where": "v = 'x'"}, "condition_in_request"),
        ({"where_file": "s3://b/c", "finish": "20260101T000000Z-00000000"}, "bad_argument"),
        ({}, "bad_argument"),
    ],
)
def test_an_erasure_that_is_refused_at_once(deployed: Stacked, arguments: dict[str, str], code: str) -> None:
    event = {"operation": "erase", "table": deployed.location(NAME), "arguments": arguments, "execute": True}
    answer = deployed.invoke("on_demand", event).value
    assert (answer["status"], answer["refusal"]["code"]) == ("refused", code)
    assert deployed.waiting("spark") == []
