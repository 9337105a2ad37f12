"""Partitions that are over leave a table of the running system, by a commit of the one function that may write one. The
same function merges manifests.

pypaimon writes the table and reads what is left. The door holds every request against the role of who makes it.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from werkzeug.wrappers import Response

from lakesweep.storage.store import DeleteRequest
from tests.support.system.build import build_here
from tests.support.system.deployed import PREFIX, System
from tests.support.system.embedded_aws import Request, refusal
from tests.support.system.visits import DAY_S, Visits, put_policy

MINUTE_S = 60.0
CHANGES = ("PutObject", "DeleteObject", "DeleteObjects")


def ours(system: System, *, since: int = 0) -> list[Request]:
    """Return what the function that commits has changed in tables."""
    log = system.aws.log[since:]
    return [it for it in log if it.function == "Committer" and it.operation in CHANGES and it.bucket == system.bucket]


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with System(build_here(), name="visits", parameters={"PolicyLocation": "s3://policies-visits/p.json"}) as deployed:
        put_policy(deployed, "policies-visits/p.json", catalog_lock=True)
        yield deployed
        assert deployed.aws.denied == []
        assert deployed.dead_letters() == {}


def test_from_a_commit_to_a_table_without_what_is_over(system: System) -> None:
    """The writer's event, a pass, a commit, its event, and the pass that frees the files."""
    table = Visits(system, "events")
    old, new = table.day(30), table.day(1)
    table.write(old, new)
    assert table.days() == {old: 2, new: 2}
    system.settle()
    assert table.days() == {new: 2}
    assert [done.function for done in system.invocations].count("Committer") == 1, "its own commit asks for no other"
    assert any(user.startswith("lakesweep-") for user in table.commit_users())
    table.write(new)
    system.settle()
    assert (table.files(old), table.days()) == ([], {new: 4})
    changed = ours(system)
    assert {request.operation for request in changed} == {"PutObject"}
    folders = {request.key.removeprefix(f"{PREFIX}/{table.path}/").split("/")[0] for request in changed}
    assert folders == {"manifest", "snapshot"}


def test_by_the_clock_alone(system: System) -> None:
    """No commit comes. The sweep finds the partition over."""
    table = Visits(system, "silent")
    first, second = table.day(5), table.day(1)
    table.write(first, second)
    system.settle()
    assert table.days() == {first: 2, second: 2}
    system.pass_time(3 * DAY_S, 3600.0)
    system.tick()
    system.settle()
    assert table.days() == {second: 2}


def test_somebody_drops_a_day(system: System) -> None:
    table = Visits(system, "asked")
    today, before = table.day(0), table.day(1)
    table.write(today, before)
    system.settle()
    event = {
        "operation": "drop-partition",
        "table": system.location(table.path),
        "arguments": {"partition": f"dt={before}"},
    }
    assert system.invoke("OnDemand", event).value["commits"]["rows"] == 2
    assert table.days() == {today: 2, before: 2}
    assert system.invoke("OnDemand", {**event, "execute": True}).value["queued"] is True
    system.settle()
    assert table.days() == {today: 2}


def test_a_list_of_manifests_becomes_short_and_nothing_goes_round(system: System) -> None:
    """The commit's own event asks for no pass, and the sweeps of the next hours for one at most."""
    keep = {"snapshot.num-retained.min": "20", "snapshot.num-retained.max": "20"}
    table = Visits(system, "small", **keep, **{"manifest.merge-min-count": "3"})
    today = table.day(0)
    for _ in range(5):
        table.write(today)
    began, done, since = system.clock.now(), len(system.invocations), len(system.aws.log)
    system.settle()
    assert table.days() == {today: 10}
    assert sum(user.startswith("lakesweep-") for user in table.commit_users()) == 1
    assert system.metrics.total("Lakesweep", "ManifestsMerged", since_s=began) == 4
    changed = ours(system, since=since)
    assert {(it.operation, it.key.rpartition("/")[0].rpartition("/")[2]) for it in changed} == {
        *(("PutObject", folder) for folder in ("manifest", "snapshot"))
    }
    assert [each.function for each in system.invocations[done:]].count("Committer") == 1
    done = len(system.invocations)
    for _ in range(4):
        system.pass_time(3600.0, 3600.0)
        system.tick()
        system.settle()
    lines = [line for each in system.invocations[done:] for line in each.lines if "run" in line]
    later = [line["run"]["operation"] for line in lines if line["run"]["table"] == system.location(table.path)]
    assert later in ([], ["maintain"])
    assert sum(user.startswith("lakesweep-") for user in table.commit_users()) == 1


@pytest.mark.parametrize(("folder", "is_answered"), [("manifest", False), ("snapshot", False), ("snapshot", True)])
def test_a_process_that_dies(system: System, folder: str, is_answered: bool) -> None:
    """Its message comes back after an hour and a half. What it had published is not committed twice."""
    table = Visits(system, f"dead-{folder}-{is_answered}")
    old, new = table.day(30), table.day(1)
    killed: list[str] = []
    key = f"/{folder}/{folder}-"

    def kill(request: Request) -> Response | None:
        if killed or request.function != "Committer" or request.operation != "PutObject" or key not in request.key:
            return None
        killed.append(request.caller)
        system.functions["Committer"].kill(request.caller)
        return refusal(request, 500, "InternalError")  # to nobody

    hooks: list[Any] = system.aws.after if is_answered else system.aws.before
    hooks.append(kill)
    try:
        table.write(old, new)
        system.pass_time(10 * MINUTE_S, MINUTE_S)
        assert killed and (old in table.days()) != is_answered
    finally:
        hooks.remove(kill)
    system.settle()
    assert table.days() == {new: 2}
    assert sum(user.startswith("lakesweep-") for user in table.commit_users()) <= 1


def test_a_rollback_at_the_same_moment(system: System) -> None:
    """The commit's own snapshot cannot be taken back by this function. It stays, and somebody is told."""
    table = Visits(system, "rolled-back", **{"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "5"})
    old, new = table.day(30), table.day(1)
    store = system.store(table.path)

    def roll_back(request: Request) -> None:
        if (request.function, request.operation) == ("Committer", "PutObject") and "/snapshot-3" in request.key:
            store.delete([DeleteRequest("snapshot/snapshot-2")])

    table.write(new)
    table.write(old)
    began = system.clock.now()
    system.aws.after.append(roll_back)
    try:
        system.settle()
    finally:
        system.aws.after.remove(roll_back)
    assert {(request.function, request.operation) for request in system.aws.denied} == {("Committer", "DeleteObject")}
    system.aws.denied.clear()
    assert system.metrics.total("Lakesweep", "CommitsFailed", since_s=began) == 1
