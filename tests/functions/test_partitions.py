"""Partitions go by commits: a pass or a person asks for one, and the function that may write one deletes nothing."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.aws import committer
from lakesweep.aws.messages import HOP_LIMIT
from lakesweep.control.intent import Intent
from lakesweep.storage.store import DeleteRequest
from tests.functions.committing import COMMIT, LOCKED, Committing, by_function
from tests.functions.deployment import STATED, Deployment, keys_of
from tests.support.iam import recorded
from tests.support.reader import read_root
from tests.support.table_builder import TableBuilder

OLD, OLDER = "20200101", "20200102"
TODAY = time.strftime("%Y%m%d", time.gmtime())
EXPIRING = {**STATED, "partition.expiration-time": "7 d", "partition.timestamp-formatter": "yyyyMMdd"}
DROP = {
    **COMMIT,
    "operation": "drop-partition",
    "arguments": {"partition": [f"dt={OLD}"], **LOCKED},
    "manual": True,
    "run_id": "20260131T120000Z-1f2e3d4c",
}


class Partitioned(Committing):
    """A deployment with a table whose partitions are over."""

    def partitioned(self, *days: str, name: str = "sales.db/orders", **options: str) -> TableBuilder:
        table = self.table(name, commits=0, options={**EXPIRING, **options}, partition_keys=["dt"])
        for day in days or (OLD, OLDER, TODAY):
            table.hint("LATEST", table.commit(f"+F{day}", partition=(day,)))
        return table

    def live(self, name: str = "sales.db/orders", branch: str = "") -> set[str]:
        """Return the partitions that a reader of the newest snapshot finds."""
        keys = [entry.key for entry in self.store(name).list(f"{branch}snapshot/") if "/snapshot-" in entry.key]
        newest = max(keys, key=lambda key: int(key.rpartition("-")[2]))
        return {path.split("/")[0].removeprefix("dt=") for path in read_root(self.store(name), newest).live}


def test_a_commit_lets_partitions_go() -> None:
    """The pass says that they are over, the other function commits, and the next pass finds nothing to do."""
    deployed = Partitioned()
    deployed.partitioned()
    answers = deployed.run(deployed.commit_event(3))
    assert deployed.live() == {TODAY}
    assert by_function(answers, "CommitsMade") == 1
    assert by_function(answers, "PartitionsDropped") == 2
    assert by_function(answers, "RunsRefused") == by_function(answers, "RunsFailed") == 0
    ours = json.loads(deployed.store().read("snapshot/snapshot-4").data)
    assert ours["commitUser"].startswith("lakesweep-")
    made = deployed.snapshots()
    answers = deployed.run(deployed.commit_event(4))
    assert by_function(answers, "CommitsMade") == 0
    assert deployed.snapshots()[-1] == made[-1]


def test_branches_by_their_own_options() -> None:
    deployed = Partitioned()
    table = deployed.partitioned()
    table.tag("cut", 3)
    branch = table.branch("rt", from_tag="cut")
    branch.hint("LATEST", branch.commit("+B", partition=("20200103",)))
    deployed.send("committer", deployed.commit(branch="rt"))
    assert deployed.live(branch="branch/branch-rt/") == {TODAY}
    assert deployed.live() == {OLD, OLDER, TODAY}


def test_a_pass_asks_once_an_hour() -> None:
    """Though what it asked for was lost."""
    deployed = Partitioned(extra={"LAKESWEEP_MIN_INTERVAL": "0 ms"})
    table = deployed.partitioned()
    for number in range(4, 7):
        deployed.send("on_snapshot_written", deployed.commit_event(number - 1))
        for hint in deployed.waiting("expire"):
            deployed.send("expire", hint)
        assert len(deployed.waiting("committer")) == (number == 4)
        table.hint("LATEST", table.commit(f"+G{number}", partition=(TODAY,)))


def test_an_executor_asks_as_well() -> None:
    deployed = Partitioned()
    deployed.partitioned()
    maintain = {"format_version": 1, "kind": "maintain", "table": deployed.location(), "branch": "main", "hop": 0}
    deployed.send("execute_batch", maintain)
    (message,) = deployed.waiting("committer")
    assert message == deployed.commit()


def test_nothing_is_deleted() -> None:
    """Not a request of that kind is made, and every key is still there."""
    deployed = Partitioned()
    deployed.partitioned()
    before = keys_of(deployed.store())
    with recorded() as calls:
        answer = deployed.send("committer", deployed.commit())
    assert answer.metrics["CommitsMade"] == 1
    assert not [call for call in calls if call.action.startswith("s3:Delete")]
    assert set(keys_of(deployed.store())) >= set(before)


def test_partitions_by_hand() -> None:
    deployed = Partitioned()
    deployed.partitioned()
    arguments = {"expiration_time": "1 d", "timestamp_formatter": "yyyyMMdd"}
    event = {"operation": "expire-partitions", "table": deployed.location(), "arguments": arguments}
    planned = deployed.invoke("on_demand", event).value
    assert (planned["status"], planned["queued"], planned["commits"]["partition_count"]) == ("planned", False, 2)
    assert not deployed.waiting("committer")
    queued = deployed.invoke("on_demand", {**event, "execute": True}).value
    assert (queued["status"], queued["queued"], queued["plan_id"]) == ("planned", True, None)
    assert deployed.live() == {OLD, OLDER, TODAY}
    deployed.run()
    assert deployed.live() == {TODAY}


@pytest.mark.parametrize(
    ("operation", "arguments", "left"),
    [("drop-partition", {"partition": [{"dt": OLD}]}, {OLDER, TODAY}), ("truncate", {}, set())],
)
def test_a_drop_by_hand(operation: str, arguments: dict[str, Any], left: set[str]) -> None:
    deployed = Partitioned()
    deployed.partitioned()
    event = {"operation": operation, "table": deployed.location(), "arguments": arguments, "execute": True}
    assert deployed.invoke("on_demand", event).value["queued"] is True
    assert by_function(deployed.run(), "CommitsMade") == 1
    assert deployed.live() == left


def test_what_could_not_be_executed_is_not_queued() -> None:
    """Nobody has declared the catalog: that is planned, and told to the person who asks."""
    deployed = Partitioned()
    deployed.rule(mode="delete")
    deployed.partitioned()
    event = {"operation": "truncate", "table": deployed.location(), "arguments": {}}
    assert deployed.invoke("on_demand", event).value["status"] == "planned"
    refused = deployed.invoke("on_demand", {**event, "execute": True}).value
    assert refused["status"] == "refused" and "catalog" in refused["refusal"]["message"], refused
    assert not deployed.waiting("committer")


@pytest.mark.parametrize("write_only", ["false", "true"])
def test_a_pass_asks_for_nothing_that_would_be_refused(write_only: str) -> None:
    """Nobody has declared the catalog. The writers of a table let its partitions go, unless they do nothing of it."""
    deployed = Partitioned()
    deployed.rule(mode="delete", time_zone="UTC")
    deployed.partitioned(**{"write-only": write_only})
    deployed.send("on_snapshot_written", deployed.commit_event(3))
    (hint,) = deployed.waiting("expire")
    answer = deployed.send("expire", hint)
    assert not deployed.waiting("committer")
    assert answer.metrics.get("RunsRefused", 0) == (write_only == "true")
    assert deployed.snapshots() == [2, 3]


# --- what stands in the way ---


def _observing(deployed: Partitioned) -> None:
    deployed.mode = "observe"


def _by_policy(deployed: Partitioned) -> None:
    deployed.rule(mode="observe", **LOCKED)


def _paused(deployed: Partitioned) -> None:
    deployed.rule(mode="delete", pause=True, **LOCKED)


def _paused_until(deployed: Partitioned) -> None:
    deployed.rule(mode="delete", pause={"reason": "x", "until": "2999-01-01T00:00:00Z"}, **LOCKED)


def _pause_over(deployed: Partitioned) -> None:
    deployed.rule(mode="delete", pause={"reason": "x", "until": "2001-01-01T00:00:00Z"}, **LOCKED)


@pytest.mark.parametrize(
    ("choose", "message", "commits"),
    [(_observing, COMMIT, 0), (_observing, DROP, 0), (_by_policy, COMMIT, 0), (_by_policy, DROP, 1)]
    + [(_paused, COMMIT, 0), (_paused, DROP, 0), (_paused_until, COMMIT, 0), (_pause_over, COMMIT, 1)],
)
def test_what_an_operator_has_chosen(
    choose: Callable[[Partitioned], None], message: dict[str, Any], commits: int
) -> None:
    """Since it was asked for. A policy that says to observe is about passes, and not about people."""
    deployed = Partitioned()
    deployed.partitioned()
    choose(deployed)
    answer = deployed.send("committer", {**message, "table": deployed.location()})
    assert answer.failed == []
    assert (answer.metrics.get("CommitsMade", 0), answer.metrics.get("RunsSkipped", 0)) == (commits, 1 - commits)
    assert not deployed.waiting("committer")
    assert len(deployed.snapshots()) == 3 + commits


def test_an_observed_table_is_only_planned() -> None:
    deployed = Partitioned({"mode": "observe"})
    deployed.partitioned()
    deployed.run(deployed.commit_event(3))
    assert deployed.live() == {OLD, OLDER, TODAY}


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for a lease."""
    monkeypatch.setattr(committer, "HELD_AGAIN_S", 0)


def hold(deployed: Deployment, **words: object) -> str:
    """Let another run hold the lease of the table, and return its key."""
    deployed.send("committer", {**DROP, "table": deployed.location()})
    (key,) = [key for key in deployed.control_keys() if key.endswith("lease.json")]
    control = deployed.control()
    held = {"run_id": "x", "expires_at_ms": control.now_ms() + 60_000, **words}
    control.put(key, json.dumps({**json.loads(control.read(key).data), **held}).encode())
    return key


@pytest.mark.usefixtures("at_once")
def test_another_run_holds_the_lease() -> None:
    """The message comes again, so often and no more."""
    deployed = Partitioned()
    deployed.partitioned(**{"commit.max-retries": "1"})
    key = hold(deployed)
    answer = deployed.send("committer", deployed.commit())
    assert (answer.failed, answer.metrics["LeaseHeld"]) == ([], 1)
    assert deployed.live() == {OLDER, TODAY}
    (again,) = deployed.waiting("committer")
    assert again == deployed.commit(hop=1)
    answer = deployed.send("committer", deployed.commit(hop=HOP_LIMIT - 1))
    assert answer.metrics["HopLimitReached"] == 1
    assert not deployed.waiting("committer")
    free = {**json.loads(deployed.control().read(key).data), "expires_at_ms": 0}
    deployed.control().put(key, json.dumps(free).encode())
    deployed.send("committer", again)
    assert deployed.live() == {TODAY}


@pytest.mark.usefixtures("at_once")
def test_what_a_dead_run_left_is_for_who_may_delete() -> None:
    """The commit waits until then. It neither deletes, nor gives the plan up."""
    deployed = Partitioned()
    deployed.partitioned(**{"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    event = {"operation": "expire-snapshots", "table": deployed.location(), "arguments": {}}
    plan_id = deployed.invoke("on_demand", event).value["plan_id"]
    begun = Intent(plan_id, "main", 3, ("x",), deployed.control().now_ms())
    hold(deployed, expires_at_ms=0, intent=begun.to_json())
    before = keys_of(deployed.store())
    with recorded() as calls:
        answer = deployed.send("committer", deployed.commit())
    assert answer.metrics["LeaseHeld"] == 1, answer.text
    assert keys_of(deployed.store()) == before
    assert not [call for call in calls if call.action == "s3:DeleteObject"]
    (again,) = deployed.waiting("committer")
    deployed.run(deployed.commit_event(4))
    assert deployed.snapshots()[0] > 2
    deployed.send("committer", again)
    assert deployed.live() == {TODAY}


def test_a_table_that_takes_too_long() -> None:
    deployed = Partitioned()
    deployed.partitioned()
    answer = deployed.send("committer", deployed.commit(), reads=2)
    assert (answer.failed, answer.metrics["RunsFailed"]) == ([], 1)
    assert not deployed.waiting("committer")
    assert deployed.snapshots() == [1, 2, 3]


def _lose_nothing(deployed: Partitioned) -> None:
    pass


def _lose_the_report(deployed: Partitioned) -> None:
    """As if the process had died before it wrote it, or the control location had refused it."""
    (key,) = [key for key in deployed.control_keys() if "/reports/" in key]
    deployed.control().delete([DeleteRequest(key)])


def _lose_the_record(deployed: Partitioned) -> None:
    """As if another commit to the branch had followed."""
    (key,) = [key for key in deployed.control_keys() if key.endswith("lease.json")]
    lease = json.loads(deployed.control().read(key).data)
    lease["commits"]["main"]["run_id"] = "20260131T120000Z-5a6b7c8d"
    deployed.control().put(key, json.dumps(lease).encode())


@pytest.mark.parametrize("lose", [_lose_nothing, _lose_the_report, _lose_the_record])
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("drop-partition", {"partition": [{"dt": OLD}]}),
        ("truncate", {}),
        ("expire-partitions", {"expiration_time": "1 d"}),
    ],
)
def test_a_request_that_is_delivered_twice_is_carried_out_once(
    operation: str, arguments: dict[str, Any], lose: Callable[[Partitioned], None]
) -> None:
    """A queue delivers a message again if its process died. What came since then is not what was meant."""
    deployed = Partitioned()
    table = deployed.partitioned()
    event = {"operation": operation, "table": deployed.location(), "arguments": arguments, "execute": True}
    told = deployed.invoke("on_demand", event).value
    (message,) = deployed.waiting("committer")
    assert (told["run_id"], told["report"].rpartition("/")[2]) == (message["run_id"], f"{message['run_id']}.json")
    assert deployed.send("committer", message).metrics["CommitsMade"] == 1
    assert [key for key in deployed.control_keys() if key.endswith(f"/reports/{message['run_id']}.json")]
    table.hint("LATEST", table.commit("+New", partition=(OLD,), snapshot_id=5))
    lose(deployed)
    answer = deployed.send("committer", message)
    assert (answer.failed, answer.metrics.get("CommitsMade", 0)) == ([], 0)
    assert OLD in deployed.live()
    assert "commits nothing more" in answer.text
    deployed.invoke("on_demand", event)
    deployed.run()
    assert OLD not in deployed.live()
