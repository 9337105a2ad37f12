"""What is asked for is done in the end: whatever is lost, doubled or cut off on the way, and whoever else works."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from botocore.client import BaseClient

from lakesweep.aws import commits
from lakesweep.aws.fifo import dedup_id_of
from lakesweep.aws.messages import Hint
from lakesweep.aws.queues import Queues
from lakesweep.errors import LeaseHeldError, StorageError
from lakesweep.execute import batches
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.runs import execution, run
from lakesweep.runs.run import execute_stored
from tests.functions.deployment import STATED, Answer, Context, Deployment, batch, keys_of
from tests.support.maintenance import assert_roots_readable
from tests.support.s3_server import moto_client

HINT = {"format_version": 1, "kind": "hint", "branch": "main", "snapshot_id": 6, "hop": 0}
SWEEP = {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0}
AT_ONCE = {"LAKESWEEP_MIN_INTERVAL": "0 ms"}
OVERRIDE = {"operation": "expire-snapshots", "arguments": {"retain_max": 1, "retain_min": 1}, "execute": True}


def hint(deployed: Deployment, **words: object) -> dict[str, object]:
    return {**HINT, "table": deployed.location(), **words}


def again(deployed: Deployment, function: str, body: object) -> Answer:
    """Deliver a message a second time."""
    event = batch(body)
    event["Records"][0]["attributes"]["ApproximateReceiveCount"] = "2"
    return deployed.invoke(function, event)


def lease_of(deployed: Deployment) -> dict[str, Any]:
    (key,) = [key for key in deployed.control_keys() if key.endswith("lease.json")]
    found: dict[str, Any] = json.loads(deployed.control().read(key).data)
    return found


def interrupted(deployed: Deployment) -> dict[str, Any]:
    """Have a plan by other rules than the table's begun, and return the message that should go on with it."""
    deployed.invoke("on_demand", {**OVERRIDE, "table": deployed.location()})
    (message,) = deployed.waiting("execute")
    for reads in range(2, 40):
        deployed.send("execute_batch", message, reads=reads)
        left = deployed.waiting("execute")
        if deployed.snapshots() == [6]:
            (message,) = left
            return message
    raise AssertionError("it was not interrupted")


def test_a_message_that_could_not_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass has kept its time by then; the hint asks for one all the same when it comes again."""
    monkeypatch.setattr("lakesweep.aws.execution.MAX_ACTIONS_IN_PLACE", 3)
    deployed = Deployment()
    deployed.table()

    def refuse(queues: Queues, sent: object) -> None:
        raise StorageError("no", code="not_sent")

    with monkeypatch.context() as broken:
        broken.setattr(Queues, "hand_over", refuse)
        assert deployed.send("expire", hint(deployed)).failed == ["m0"]
    assert again(deployed, "expire", hint(deployed)).failed == []
    deployed.run()
    assert deployed.snapshots() == [5, 6]


def test_an_error_that_nobody_foresaw_fails_every_message_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    deployed = Deployment()
    deployed.table()

    def fail(*words: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(commits, "triage", fail)
    answer = deployed.send("on_snapshot_written", deployed.commit_event(5), deployed.commit_event(6))
    assert answer.failed == ["m0", "m1"]


def test_a_plan_that_ended_stale_is_followed_by_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another maintainer expired a part of it. That is no refusal, and what is left is due still."""
    monkeypatch.setattr("lakesweep.aws.execution.MAX_ACTIONS_IN_PLACE", 3)
    deployed = Deployment(extra=AT_ONCE)
    table = deployed.table()
    deployed.send("expire", hint(deployed))
    table.remove("snapshot/snapshot-1")
    answers = deployed.run()
    assert deployed.snapshots() == [5, 6]
    assert not any("RunsRefused" in answer.metrics for answer in answers)


def test_a_plan_that_was_begun_and_forgotten_is_finished_by_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message that should have gone on is lost, and by the table's own rules nothing is due."""
    monkeypatch.setattr(batches, "BATCH_KEYS", 4)
    deployed = Deployment(extra=AT_ONCE)
    deployed.table()
    deployed.run(deployed.commit_event(6))
    interrupted(deployed)
    assert lease_of(deployed)["intent"] is not None
    deployed.run(SWEEP)
    deployed.send("sweep", SWEEP)
    deployed.run()
    assert lease_of(deployed)["intent"] is None


def test_a_branch_of_which_every_event_was_lost_is_found_by_the_sweep() -> None:
    """No pass has seen it, and main needs nothing."""
    deployed = Deployment(extra=AT_ONCE)
    table = deployed.table()
    table.tag("cut")
    deployed.run(deployed.commit_event(6))
    branch = table.branch("rt", from_tag="cut")
    for number in range(5):
        branch.hint("LATEST", branch.commit(f"+R{number}"))
    deployed.send("sweep", SWEEP)
    deployed.run()
    left = [entry.key for entry in deployed.store().list("branch/branch-rt/snapshot/") if "snapshot-" in entry.key]
    assert len(left) == 2


def test_a_plan_that_was_begun_and_forgotten_is_finished_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/operations.md says."""
    monkeypatch.setattr(batches, "BATCH_KEYS", 4)
    deployed = Deployment(extra=AT_ONCE)
    deployed.table()
    deployed.run(deployed.commit_event(6))
    interrupted(deployed)
    table = deployed.load("expire").runtime.open_table(deployed.location(), "main", Context())
    assert maintain(table, MaintainArguments(), execute=True).status in ("done", "nothing_to_do")
    assert lease_of(deployed)["intent"] is None


def test_objects_that_could_not_be_deleted_are_tried_again() -> None:
    """Their documents are gone, so no other plan asks for them. Somebody hears of it, and they go when they may."""
    deployed = Deployment(extra=AT_ONCE)
    deployed.table()
    expected = Deployment()
    expected.table()
    expected.run(expected.commit_event(6))
    with denied("bucket-0/"):
        answer = deployed.send("expire", hint(deployed))
    assert (answer.metrics["RunsPartial"], answer.metrics["RunsFailed"]) == (1, 1)
    deployed.run()
    assert set(keys_of(deployed.store())) == set(keys_of(expected.store()))


def test_a_queued_plan_meets_a_policy_that_observes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pass planned is not carried out any more; what somebody asked for is."""
    monkeypatch.setattr("lakesweep.aws.execution.MAX_ACTIONS_IN_PLACE", 3)
    deployed = Deployment()
    deployed.extra = {"LAKESWEEP_POLICY": f"s3://{deployed.control_bucket}/policies/policy.json"}

    def say(mode: str) -> None:
        rule = {"tables": f"s3://{deployed.bucket}/", "mode": mode}
        body = json.dumps({"version": 1, "rules": [rule]}).encode()
        moto_client().put_object(Bucket=deployed.control_bucket, Key="policies/policy.json", Body=body)

    say("delete")
    deployed.table()
    deployed.send("expire", hint(deployed))
    say("observe")
    (answer,) = deployed.run()
    assert deployed.snapshots() == [1, 2, 3, 4, 5, 6]
    assert answer.metrics["RunsSkipped"] == 1
    deployed.invoke("on_demand", {**OVERRIDE, "table": deployed.location()})
    deployed.run()
    assert deployed.snapshots() == [6]


def test_a_pass_in_the_larger_function_that_ends_at_its_limit() -> None:
    deployed = Deployment(extra=AT_ONCE)
    deployed.table(commits=12, options={**STATED, "snapshot.expire.limit": "4"})
    deployed.send("execute_batch", {**HINT, "kind": "maintain", "table": deployed.location()})
    deployed.run()
    assert deployed.snapshots() == [11, 12]


def test_a_long_backlog_is_no_circle() -> None:
    """Each pass leaves fewer snapshots: such a chain ends by itself, and is neither cut off nor an alarm."""
    deployed = Deployment(extra=AT_ONCE)
    deployed.table(commits=20, options={**STATED, "snapshot.expire.limit": "1"})
    answers = deployed.run(deployed.commit_event(20))
    assert deployed.snapshots() == [19, 20]
    assert not any("HopLimitReached" in answer.metrics for answer in answers)


def test_a_pass_that_is_asked_for_again_is_no_duplicate() -> None:
    """The FIFO queue would swallow the second of two within five minutes, whether or not the first was handled."""
    assert dedup_id_of(Hint("s3://a/b", hop=1)) != dedup_id_of(Hint("s3://a/b", hop=1))
    assert dedup_id_of(Hint("s3://a/b", snapshot_id=7)) == dedup_id_of(Hint("s3://a/b", snapshot_id=7))
    assert dedup_id_of(Hint("s3://a/b")) == dedup_id_of(Hint("s3://a/b")), "two sweeps at once"


@pytest.mark.parametrize("stored", [True, False], ids=["execute", "finish"])
def test_two_workers_with_one_plan(monkeypatch: pytest.MonkeyPatch, stored: bool) -> None:
    """The second read that the plan had not ended; the first ends it before the second takes the lease.

    Then no object gets a second delete marker, and no report is replaced.
    """
    monkeypatch.setattr(batches, "BATCH_KEYS", 4)
    deployed = Deployment(extra=AT_ONCE)
    moto_client().put_bucket_versioning(Bucket=deployed.bucket, VersioningConfiguration={"Status": "Enabled"})
    deployed.table()
    deployed.run(deployed.commit_event(6))
    if stored:
        deployed.invoke("on_demand", {**OVERRIDE, "table": deployed.location()})
        (message,) = deployed.waiting("execute")
    else:
        message = interrupted(deployed)
    runtime = deployed.load("execute_batch").runtime
    markers: list[set[tuple[str, str]]] = []

    module, name = (run, "plan_end") if stored else (execution, "_loaded")
    read = getattr(module, name)

    def read_and_be_slow(*asked: Any) -> Any:
        found = read(*asked)
        monkeypatch.setattr(module, name, read)
        deployed.send("execute_batch", message)
        markers.append(delete_markers(deployed))
        return found

    monkeypatch.setattr(module, name, read_and_be_slow)
    table = runtime.open_table(deployed.location(), "main", Context())
    with pytest.raises(LeaseHeldError):
        if stored:
            execute_stored(table, message["plan_id"], run_id=message["plan_id"])
        else:
            maintain(table, MaintainArguments(is_due=True), execute=True)
    assert deployed.snapshots() == [6]
    assert delete_markers(deployed) == markers[0]
    assert lease_of(deployed)["intent"] is None


def test_readers_are_waited_for_no_longer_than_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is killed while it waits would hold the lease for twelve minutes, and the next one as well."""
    deployed = Deployment(extra=AT_ONCE)
    deployed.table()
    arguments = {"retain_max": 1, "retain_min": 1, "grace": "10 min"}
    deployed.invoke("on_demand", {**OVERRIDE, "table": deployed.location(), "arguments": arguments})
    (message,) = deployed.waiting("execute")
    left_ms = 120_000

    def sleep(seconds: float) -> None:
        nonlocal left_ms
        left_ms -= int(seconds * 1000)

    kind = type(deployed.load("execute_batch").runtime)
    opened = kind.open_table
    monkeypatch.setattr(Context, "get_remaining_time_in_millis", lambda context: left_ms)
    monkeypatch.setattr(kind, "open_table", lambda *words, **more: replace(opened(*words, **more), sleep=sleep))
    deployed.send("execute_batch", message)
    assert 0 < left_ms < 20_000
    assert lease_of(deployed)["expires_at_ms"] == 0, "given back"
    assert [each["hop"] for each in deployed.waiting("execute")] == [1]


def delete_markers(deployed: Deployment) -> set[tuple[str, str]]:
    found = moto_client().list_object_versions(Bucket=deployed.bucket).get("DeleteMarkers", ())
    return {(marker["Key"], marker["VersionId"]) for marker in found}


@contextmanager
def denied(part: str) -> Iterator[None]:
    """Let no object go whose key has `part` in it, as a bucket policy may."""
    call = BaseClient._make_api_call  # type: ignore[attr-defined]

    def asked(client: Any, operation: str, words: dict[str, Any]) -> Any:
        if operation != "DeleteObjects":
            return call(client, operation, words)
        objects = words["Delete"]["Objects"]
        kept = [entry for entry in objects if part in entry["Key"]]
        words = {**words, "Delete": {**words["Delete"], "Objects": [e for e in objects if part not in e["Key"]]}}
        answer = call(client, operation, words) if words["Delete"]["Objects"] else {}
        errors = [{"Key": entry["Key"], "Code": "AccessDenied", "Message": "no"} for entry in kept]
        return {**answer, "Errors": [*answer.get("Errors", ()), *errors]}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", asked)
        yield


class Killed(BaseException):
    """The worker is gone."""


@contextmanager
def killed_at(number: int, *, after: bool) -> Iterator[list[str]]:
    """Let the worker die at its request of this number, before or after the server carried it out."""
    call = BaseClient._make_api_call  # type: ignore[attr-defined]
    made: list[str] = []

    def asked(client: Any, operation: str, words: dict[str, Any]) -> Any:
        made.append(operation)
        if len(made) > number or (len(made) == number and not after):
            raise Killed
        answer = call(client, operation, words)
        if len(made) == number:
            raise Killed
        return answer

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BaseClient, "_make_api_call", asked)
        yield made


OPTIONS = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "1 h",
    "changelog.num-retained.min": "2",
    "changelog.num-retained.max": "2",
    "changelog.time-retained": "2 h",
    "consumer.expiration-time": "1 d",
}


def rich(bucket: Deployment) -> Any:
    """Write a table with a tag, a branch, a consumer and changelogs that outlive their snapshots."""
    table = bucket.table(commits=6, options=OPTIONS, primary_keys=("id",))
    table.tag("cut", snapshot=2)
    branch = table.branch("rt", from_tag="cut")
    branch.commit("+R1")
    table.consumer("slow", 4)
    return table


def settled(deployed: Deployment) -> set[str]:
    """Let all that waits be done, and the sweep ask once more."""
    deployed.run()
    deployed.send("sweep", SWEEP)
    deployed.run()
    return set(keys_of(deployed.store()))


def expire_the_lease(deployed: Deployment) -> None:
    """Let twelve minutes pass."""
    for key in deployed.control_keys():
        if key.endswith("lease.json"):
            document = json.loads(deployed.control().read(key).data)
            if document["expires_at_ms"]:
                deployed.control().put(key, json.dumps({**document, "expires_at_ms": 1}).encode())


@pytest.fixture(scope="module")
def expected() -> set[str]:
    with pytest.MonkeyPatch.context() as small:
        small.setattr(batches, "BATCH_KEYS", 4)
        deployed = Deployment(extra=AT_ONCE)
        rich(deployed)
        deployed.run(deployed.commit_event(6))
        return settled(deployed)


@pytest.mark.parametrize(("number", "after"), [(12, True), (47, False), (70, True), (93, True)])
@pytest.mark.parametrize("function", ["expire", "execute_batch"])
def test_a_worker_that_is_killed(
    monkeypatch: pytest.MonkeyPatch, expected: set[str], function: str, number: int, after: bool
) -> None:
    """At any request: every root reads, and the same message, twelve minutes later, brings the same end."""
    monkeypatch.setattr(batches, "BATCH_KEYS", 4)
    deployed = Deployment(extra=AT_ONCE)
    table = rich(deployed)
    body = hint(deployed) if function == "expire" else {**HINT, "kind": "maintain", "table": deployed.location()}
    deployed.load(function)
    with killed_at(number, after=after) as made:
        try:
            deployed.send(function, body)
        except Killed:
            pass
    assert_roots_readable(table)
    if len(made) < number:
        pytest.skip(f"it makes {len(made)} requests")
    expire_the_lease(deployed)
    assert again(deployed, function, body).failed == []
    assert settled(deployed) == expected


@pytest.mark.parametrize("reads", (5, 18, 44, 96))
def test_time_runs_out_in_every_hand(monkeypatch: pytest.MonkeyPatch, expected: set[str], reads: int) -> None:
    """`expire` is cut off, and so is `execute_batch`, each time a little later."""
    monkeypatch.setattr(batches, "BATCH_KEYS", 4)
    deployed = Deployment(extra=AT_ONCE)
    table = rich(deployed)
    deployed.send("expire", hint(deployed), reads=reads)
    for number in range(12):
        waiting = deployed.waiting("execute")
        for message in waiting:
            deployed.send("execute_batch", message, reads=reads + 7 * number)
        assert_roots_readable(table)
        if not waiting:
            break
    assert settled(deployed) == expected
