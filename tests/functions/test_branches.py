"""Rollback and branches by functions: what they carry out, and what they leave to people."""

import json
from typing import Any

import pytest

from lakesweep.control.plans import load_plan
from tests.functions.deployment import Deployment, keys_of
from tests.functions.stacked import Stacked, role, stacked
from tests.support.iam import assert_allowed, recorded
from tests.support.maintenance import Maintainer
from tests.support.reader import read_all

BY_HAND = (
    ("create-branch", {"branch": "trial", "tag": "cut"}),
    ("delete-branch", {"branch": "rt"}),
    ("fast-forward", {"branch": "rt"}),
)


def deployment() -> Deployment:
    """Return a deployment with a table of six snapshots, a tag at the fourth, and a branch with a schema of its own."""
    deployed = Deployment()
    table = deployed.table()
    table.tag("cut", snapshot=4)
    other = table.branch("rt", "cut")
    other.alter(types={"more": "INT"})
    other.commit("+B5")
    return deployed


def ask(deployed: Deployment, operation: str, **words: Any) -> dict[str, Any]:
    event = {"operation": operation, "table": deployed.location(), **words}
    return deployed.invoke("on_demand", event).value


def test_a_rollback_is_planned_here_and_carried_out_there() -> None:
    deployed = deployment()
    planned = ask(deployed, "rollback", arguments={"snapshot": 5})
    assert (planned["status"], planned["queued"]) == ("planned", False)
    assert deployed.snapshots() == [1, 2, 3, 4, 5, 6]
    answer = ask(deployed, "rollback", arguments={"snapshot": 5}, execute=True)
    assert (answer["status"], answer["queued"]) == ("planned", True)
    deployed.run()
    assert deployed.snapshots() == [1, 2, 3, 4, 5]
    assert deployed.store().read("snapshot/LATEST").data == b"5"
    read_all(deployed.store())
    assert ask(deployed, "rollback", arguments={"snapshot": 5}, execute=True)["status"] == "nothing_to_do"


def test_a_rollback_twice_and_a_late_message() -> None:
    """A message that comes again finds its plan done; one of another day finds that the table moved."""
    deployed = deployment()
    first = ask(deployed, "rollback", arguments={"snapshot": 5}, execute=True)
    second = ask(deployed, "rollback", arguments={"snapshot": 4}, execute=True)
    assert first["plan_id"] != second["plan_id"]
    messages = deployed.waiting("execute")
    for message in (messages[0], messages[0], messages[1]):
        deployed.send("execute_batch", message)
    assert deployed.snapshots() == [1, 2, 3, 4, 5]
    read_all(deployed.store())


def test_a_rollback_that_is_refused_says_why() -> None:
    deployed = deployment()
    answer = ask(deployed, "rollback", arguments={"snapshot": 77}, execute=True)
    assert (answer["status"], answer["queued"]) == ("refused", False)
    assert answer["refusal"]["code"] == "no_such_version"
    assert not deployed.waiting("execute")


@pytest.mark.parametrize(("operation", "arguments"), BY_HAND)
def test_what_people_do(operation: str, arguments: dict[str, str]) -> None:
    """Planned, and not carried out: not at once, not as a stored plan, and not by a message that somebody sends."""
    deployed = deployment()
    before = keys_of(deployed.store())
    planned = ask(deployed, operation, arguments=arguments)
    assert (planned["status"], planned["queued"]) == ("planned", False)
    plan_id = planned["plan_id"]
    for answer in (
        ask(deployed, operation, arguments=arguments, execute=True),
        ask(deployed, "execute", plan_id=plan_id, execute=True),
    ):
        assert answer["status"] == "refused"
        assert answer["refusal"]["code"] == "manual_only"
        assert "lakesweep" in answer["refusal"]["message"]
    assert not deployed.waiting("execute")
    work = {"format_version": 1, "kind": "execute", "table": deployed.location(), "branch": "main", "plan_id": plan_id}
    deployed.send("execute_batch", work)
    assert keys_of(deployed.store()) == before
    maintainer = Maintainer(deployed.store(), control=deployed.control())
    assert maintainer.execute(plan_id).status == "done", "people may"


def test_what_a_person_began_a_person_finishes() -> None:
    """A pass is refused meanwhile, says which plan it is, and leaves the table as it is."""
    deployed = deployment()
    maintainer = Maintainer(deployed.store(), control=deployed.control())
    report = maintainer.run("delete-branch", execute=False, branch="rt")
    assert report.plan is not None
    plan_id = report.plan.header.plan_id
    area = maintainer.table.area
    assert area is not None
    assert load_plan(area, plan_id).actions
    intent = {
        "plan_id": plan_id,
        "branch": "main",
        "end_id": None,
        "runs": ["dead"],
        "created_ms": 1,
        "grace_ms": 0,
        "snapshot_ids": [],
    }
    area.put("lease.json", json.dumps({"run_id": "dead", "token": 3, "expires_at_ms": 1, "intent": intent}).encode())
    before = keys_of(deployed.store())
    answer = ask(deployed, "maintain", execute=True)
    assert answer["queued"]
    deployed.run()
    assert keys_of(deployed.store()) == before
    assert maintainer.execute(plan_id).status == "done"
    deployed.run(deployed.commit_event(6))
    assert deployed.snapshots() == [5, 6]


@pytest.fixture(scope="module")
def by_roles() -> Stacked:
    return stacked()


def test_a_rollback_is_within_its_roles(by_roles: Stacked) -> None:
    """To a tag whose snapshot is gone: a snapshot is written where none is, and tags and changelogs go."""
    table = by_roles.table("sales.db/rolled", options={"tag.create-success-file": "true"})
    table.tag("first", snapshot=1)
    table.remove(table.root(1))
    table.tag("late", snapshot=5)
    by_roles.store("sales.db/rolled").put("tag/tag-success-file/late_SUCCESS", b"{}")
    table.changelog_document(3)
    event = {"operation": "rollback", "table": by_roles.location("sales.db/rolled"), "arguments": {"tag": "first"}}
    with recorded() as planned:
        answer = by_roles.invoke("on_demand", {**event, "execute": True}).value
    assert answer["queued"], answer
    assert_allowed(role(by_roles, "on_demand"), planned)
    with recorded() as done:
        for message in by_roles.waiting("execute"):
            by_roles.send("execute_batch", message)
    assert by_roles.snapshots("sales.db/rolled") == [1]
    assert_allowed(role(by_roles, "execute_batch"), done)
    written = {call.resource.rpartition("/")[2] for call in done if call.action == "s3:PutObject"}
    assert "snapshot-1" in written
