"""Any operation by hand: planned at once, carried out by somebody else, and never by the planner."""

from typing import Any

import pytest

from tests.functions.deployment import Deployment, keys_of


def ask(deployed: Deployment, operation: str = "expire-snapshots", **words: Any) -> dict[str, Any]:
    event = {"operation": operation, "table": deployed.location(), **words}
    return deployed.invoke("on_demand", event).value


def test_a_plan_and_nothing_else() -> None:
    deployed = Deployment()
    deployed.table()
    before = keys_of(deployed.store())
    answer = ask(deployed, arguments={"retain_max": 1, "retain_min": 1})
    assert (answer["status"], answer["queued"], answer["run_id"]) == ("planned", False, None)
    assert answer["snapshots"]["expired"] == [1, 2, 3, 4, 5]
    assert answer["delete"]["by_kind"]["snapshot"] == 5
    assert "actions" not in answer
    assert keys_of(deployed.store()) == before
    assert not deployed.waiting("execute")
    control = answer["plan"].removeprefix(deployed.control().location + "/")
    assert control in deployed.control_keys()


def test_planned_here_and_carried_out_there() -> None:
    deployed = Deployment()
    deployed.table()
    answer = ask(deployed, arguments={"retain_max": 3, "retain_min": 1}, execute=True)
    assert (answer["status"], answer["queued"]) == ("planned", True)
    assert deployed.snapshots() == [1, 2, 3, 4, 5, 6]
    deployed.run()
    assert deployed.snapshots() == [6]
    key = answer["report"].removeprefix(deployed.control().location + "/")
    assert key in deployed.control_keys(), "the report lies where the answer said"
    assert answer["run_id"] == answer["plan_id"]


def test_a_plan_that_needs_a_confirmation() -> None:
    """More than half of the data files, by rules that are not the table's: the plan's id again, or nothing."""
    deployed = Deployment()
    table = deployed.table(commits=3)
    table.commit(*(f"+G{number}" for number in range(1100)))
    table.commit(*(f"-G{number}" for number in range(1100)), "+H")
    table.hint("LATEST", 5)
    arguments = {"retain_max": 1, "retain_min": 1}
    refused = ask(deployed, arguments=arguments, execute=True)
    assert refused["refusal"]["code"] == "confirmation_needed"
    plan_id = ask(deployed, arguments=arguments)["plan_id"]
    assert ask(deployed, "execute", plan_id=plan_id, execute=True)["refusal"]["code"] == "confirmation_needed"
    assert not deployed.waiting("execute")
    assert ask(deployed, "execute", plan_id=plan_id, execute=True, confirm=plan_id)["queued"] is True
    deployed.run()
    assert deployed.snapshots() == [5]


def test_a_whole_pass() -> None:
    deployed = Deployment()
    deployed.table()
    answer = ask(deployed, "maintain", execute=True)
    assert (answer["status"], answer["queued"], answer["plan_id"]) == ("planned", True, None)
    deployed.run()
    assert deployed.snapshots() == [5, 6]


def test_consumers() -> None:
    deployed = Deployment()
    table = deployed.table()
    table.consumer("reader", 3)
    answer = ask(deployed, "reset-consumer", arguments={"consumer_id": "reader", "next_snapshot_id": 5}, execute=True)
    assert answer["queued"] is True, answer
    deployed.run()
    assert b"5" in deployed.store().read("consumer/consumer-reader").data
    assert ask(deployed, "clear-consumers", execute=True)["queued"] is True
    deployed.run()
    assert not any(key.startswith("consumer/") for key in keys_of(deployed.store()))


def test_observing_plans_and_queues_nothing() -> None:
    deployed = Deployment(mode="observe")
    deployed.table()
    assert ask(deployed, arguments={"retain_max": 1, "retain_min": 1})["status"] == "planned"
    assert ask(deployed, arguments={"retain_max": 1, "retain_min": 1}, execute=True)["refusal"]["code"] == "observed"
    assert not deployed.waiting("execute")
    plan_id = ask(deployed, arguments={"retain_max": 1, "retain_min": 1})["plan_id"]
    work = {"format_version": 1, "kind": "execute", "table": deployed.location(), "branch": "main", "plan_id": plan_id}
    answer = deployed.send("execute_batch", work)
    assert answer.failed == ["m0"], "whoever sent it finds it in the dead-letter queue"
    assert deployed.snapshots() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (None, "damaged"),
        ([], "damaged"),
        ({}, "damaged"),
        ({"operation": "expire-snapshots"}, "damaged"),
        ({"operation": 1, "table": "s3://a/b"}, "damaged"),
        ({"operation": "expire-snapshots", "table": "TABLE", "execute": "yes"}, "damaged"),
        ({"operation": "expire-snapshots", "table": "TABLE", "arguments": []}, "damaged"),
        ({"operation": "expire-snapshots", "table": "TABLE", "branch": "../x"}, "damaged"),
        ({"operation": "expire-snapshots", "table": "TABLE", "force": True}, "damaged"),
        ({"operation": "drop_table", "table": "TABLE"}, "unknown_operation"),
        ({"operation": "expire-snapshots", "table": "TABLE", "arguments": {"x": 1}}, "unknown_argument"),
        ({"operation": "expire-snapshots", "table": "TABLE", "arguments": {"grace": "1 d"}}, "bad_argument"),
        ({"operation": "expire-snapshots", "table": "s3://other/t"}, "foreign_table"),
        ({"operation": "expire-snapshots", "table": "/etc"}, "foreign_table"),
        ({"operation": "expire-snapshots", "table": "TABLE/branch/branch-b/", "execute": True}, "usage"),
        ({"operation": "undo", "table": "TABLE", "arguments": {"run_id": "x"}}, "needs_operator"),
        ({"operation": "execute", "table": "TABLE", "execute": True}, "usage"),
        ({"operation": "execute", "table": "TABLE", "execute": True, "plan_id": "nothing"}, "no_such_plan"),
        ({"operation": "execute", "table": "TABLE", "execute": True, "plan_id": "../../x"}, None),
        ({"operation": "maintain", "table": "TABLE", "execute": True, "arguments": {"all_branches": True}}, "usage"),
    ],
)
def test_what_is_refused(event: Any, code: str | None) -> None:
    """Whoever invokes by hand gets a sentence, and never a trace."""
    deployed = Deployment()
    deployed.table(commits=1)
    if isinstance(event, dict) and event.get("table", "").startswith("TABLE"):
        event = {**event, "table": event["table"].replace("TABLE", deployed.location())}
    answer = deployed.invoke("on_demand", event)
    assert answer.value["status"] == "refused"
    assert answer.value["refusal"]["message"]
    assert code is None or answer.value["refusal"]["code"] == code
    assert "Traceback" not in answer.text
    assert not deployed.waiting("execute")
