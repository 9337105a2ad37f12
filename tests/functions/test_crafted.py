"""Events that nobody should send: rejected, counted, and nothing else happens."""

import json

import pytest

from tests.functions.deployment import ACCOUNT, PREFIX, Answer, Deployment, batch

HINT = {"format_version": 1, "kind": "hint", "branch": "main", "snapshot_id": 6, "hop": 0}
FUNCTIONS = (
    *("on_snapshot_written", "expire", "execute_batch", "committer"),
    *("sweep", "tag_schedule", "orphan_scan", "orphan_worker"),
)
COMMIT = {
    "format_version": 1,
    "kind": "commit",
    "table": "s3://a/b",
    "branch": "main",
    "hop": 0,
    "operation": "truncate",
    "arguments": {},
    "manual": True,
    "run_id": "20260131T120000Z-1f2e3d4c",
}
SCAN = {"table": "s3://a/b", "scan_id": "x"}


@pytest.fixture(scope="module")
def deployed() -> Deployment:
    made = Deployment()
    made.table()
    return made


def untouched(deployed: Deployment, answer: Answer) -> None:
    """Nothing was sent or deleted, and no trace of an exception of ours was printed."""
    assert deployed.snapshots() == [1, 2, 3, 4, 5, 6]
    for queue in deployed.queues:
        assert not deployed.waiting(queue), queue
    assert "Traceback" not in answer.text
    assert "exception" not in answer.text


@pytest.mark.parametrize("event", [None, [], "x", 7, {}, {"Records": None}, {"Records": 5}, {"Records": ["a", None]}])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_batch(deployed: Deployment, function: str, event: object) -> None:
    answer = deployed.invoke(function, event)
    assert answer.value == {"batchItemFailures": []}
    assert answer.metrics["EventsRejected"] >= 1
    untouched(deployed, answer)


BODIES = {
    "no JSON": "{",
    "no object": "[1]",
    "empty": "",
    "deep": "[" * 100_000,
    "huge": '{"x": "' + "y" * 300_000 + '"}',
    "surrogate": '{"kind": "\\ud800", "format_version": 1}',
    "numbers as text": json.dumps({**HINT, "format_version": "1", "table": "s3://a/b"}),
    "version 0": json.dumps({**HINT, "format_version": 0, "table": "s3://a/b"}),
    "version of infinity": '{"kind": "hint", "format_version": 1e400, "table": "s3://a/b"}',
    "unknown kind": json.dumps({**HINT, "kind": "delete_everything", "table": "s3://a/b"}),
    "negative hop": json.dumps({**HINT, "hop": -1, "table": "s3://a/b"}),
    "hop beyond": json.dumps({**HINT, "hop": 16, "table": "s3://a/b"}),
    "table is a list": json.dumps({**HINT, "table": ["s3://a/b"]}),
    "table on disk": json.dumps({**HINT, "table": "/etc"}),
    "table too long": json.dumps({**HINT, "table": "s3://a/" + "b" * 3000}),
    "branch with a slash": json.dumps({**HINT, "table": "s3://a/b", "branch": "a/b"}),
    "branch of nothing": json.dumps({**HINT, "table": "s3://a/b", "branch": "a\0b"}),
    "snapshot as text": json.dumps({**HINT, "table": "s3://a/b", "snapshot_id": "6"}),
    "scan without an id": json.dumps({**HINT, "kind": "orphan_scan", "table": "s3://a/b"}),
    "scan with a path": json.dumps({**HINT, **SCAN, "kind": "orphan_scan", "scan_id": "../x"}),
    "turn below zero": json.dumps({**HINT, **SCAN, "kind": "orphan_scan", "step": -1}),
    "turn beyond": json.dumps({**HINT, **SCAN, "kind": "orphan_scan", "step": 10**9}),
    "arguments of a scan as text": json.dumps({**HINT, **SCAN, "kind": "orphan_scan", "arguments": "x"}),
    "no task": json.dumps({**HINT, **SCAN, "kind": "orphan_task"}),
    "empty task": json.dumps({**HINT, **SCAN, "kind": "orphan_task", "task": {}}),
    "task of text": json.dumps({**HINT, **SCAN, "kind": "orphan_task", "task": "list-0"}),
    "task too large": json.dumps({**HINT, **SCAN, "kind": "orphan_task", "task": {"id": "x" * 300_000}}),
    "cursor of a number": json.dumps({**HINT, "kind": "orphan_sweep", "cursor": 7}),
    "commit of another operation": json.dumps({**COMMIT, "operation": "rollback"}),
    "commit with one more word": json.dumps({**COMMIT, "branches": "all"}),
    "commit that does not say who asks": json.dumps({name: COMMIT[name] for name in COMMIT if name != "manual"}),
    "commit without arguments": json.dumps({**COMMIT, "arguments": None}),
    "commit of somebody": json.dumps({**COMMIT, "manual": 1}),
    "commit without a branch": json.dumps({**COMMIT, "branch": ""}),
    "records that are no list": json.dumps({"Records": "x"}),
    "records of numbers": json.dumps({"Records": [1, 2]}),
    "event without a bucket": json.dumps(
        {"detail-type": "Object Created", "source": "aws.s3", "account": ACCOUNT, "detail": {"object": {"key": "a"}}}
    ),
    "key of another type": json.dumps(
        {
            "detail-type": "Object Created",
            "source": "aws.s3",
            "account": ACCOUNT,
            "detail": {"bucket": {"name": "lake"}, "object": {"key": 7}},
        }
    ),
}


@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_message(deployed: Deployment, function: str, what: str) -> None:
    """It fails alone, so that it reaches the dead-letter queue."""
    answer = deployed.send(function, BODIES[what])
    assert answer.failed == ["m0"]
    if function == "on_snapshot_written":
        assert answer.metrics["EventsRejected"] == 1
    untouched(deployed, answer)


@pytest.mark.parametrize("attributes", [None, "x", [], {"ApproximateReceiveCount": 7}])
def test_odd_attributes(deployed: Deployment, attributes: object) -> None:
    """Whatever stands beside a body, the body decides."""
    event = batch(BODIES["unknown kind"])
    event["Records"][0]["attributes"] = attributes
    answer = deployed.invoke("expire", event)
    assert answer.failed == ["m0"]
    untouched(deployed, answer)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_later_version_stays_in_the_queue(deployed: Deployment, function: str) -> None:
    answer = deployed.send(function, {"format_version": 2, "kind": "hint", "table": deployed.location(), "news": 1})
    assert answer.failed == ["m0"]
    assert "EventsRejected" not in answer.metrics
    untouched(deployed, answer)


def test_a_plan_of_a_later_version_stays_in_the_queue(deployed: Deployment) -> None:
    control = deployed.control()
    other = Deployment(bucket=deployed.bucket, control_bucket=deployed.control_bucket, mode="observe")
    other.run(other.commit_event(6))
    (header,) = [key for key in deployed.control_keys() if key.endswith("header.json")]
    plan_id = header.split("/")[-2]
    body = control.read(header).data
    control.put(header, body.replace(b'"format_version": 1', b'"format_version": 99'))
    message = {"format_version": 1, "kind": "execute", "table": deployed.location(), "branch": "main", "hop": 0}
    answer = deployed.send("execute_batch", {**message, "plan_id": plan_id})
    assert answer.failed == ["m0"]
    untouched(deployed, answer)
    control.put(header, body)


FOREIGN = {
    "another bucket": {"bucket": {"name": "unknown"}},
    "another prefix": {"object": {"key": "elsewhere/sales.db/orders/snapshot/snapshot-6"}},
    "a neighbour of the prefix": {"object": {"key": f"{PREFIX}2/sales.db/orders/snapshot/snapshot-6"}},
    "the prefix itself": {"object": {"key": "snapshot/snapshot-6"}},
}


@pytest.mark.parametrize("what", FOREIGN)
def test_tables_of_others(deployed: Deployment, what: str) -> None:
    """A message about somebody else's table is taken away, counted, and not acted on."""
    answer = deployed.send("on_snapshot_written", deployed.commit_event(6, **FOREIGN[what]))
    assert answer.failed == []
    assert answer.metrics.get("EventsRejected", 0) + answer.metrics.get("EventsIgnored", 0) == 1
    untouched(deployed, answer)


def test_another_account(deployed: Deployment) -> None:
    answer = deployed.send("on_snapshot_written", {**deployed.commit_event(6), "account": "999999999999"})
    assert (answer.failed, answer.metrics["EventsRejected"]) == (["m0"], 1)
    untouched(deployed, answer)


@pytest.mark.parametrize("path", ["../", "sales.db/../../", "./", "a//b/", "%2e%2e/"])
def test_keys_that_lead_out(deployed: Deployment, path: str) -> None:
    """A key with dots is no table; one that only looks so by its spelling is not listed."""
    key = f"{PREFIX}/{path}orders/snapshot/snapshot-6"
    answer = deployed.send("on_snapshot_written", deployed.commit_event(6, object={"key": key}))
    deployed.waiting("expire")  # `%2e` is a plain name in a key that is not encoded
    untouched(deployed, answer)


@pytest.mark.parametrize("function", ["expire", "execute_batch", "committer", "orphan_scan", "orphan_worker"])
def test_workers_know_their_tables(deployed: Deployment, function: str) -> None:
    kinds = {"expire": "hint", "execute_batch": "maintain", "orphan_scan": "orphan_scan"}
    scan = {"scan_id": "x", "task": {"id": "list-0"}}
    for table in ("s3://unknown/sales.db/orders", f"s3://{deployed.bucket}", f"s3://{deployed.bucket}/{PREFIX}/../x"):
        message = {**HINT, **scan, "kind": kinds.get(function, "orphan_task"), "table": table}
        answer = deployed.send(function, {**COMMIT, "table": table} if function == "committer" else message)
        assert (answer.failed, answer.metrics["EventsRejected"]) == ([], 1)
        untouched(deployed, answer)


def test_ten_thousand_records(deployed: Deployment) -> None:
    """The largest batch: every message of it is answered, and one table is asked about once."""
    other = Deployment(bucket=deployed.bucket)
    event = batch(*[other.commit_event(6)] * 9_990, *["{"] * 10)
    answer = other.invoke("on_snapshot_written", event)
    assert len(answer.failed) == 10
    assert answer.metrics["EventsReceived"] == 10_000
    assert len(other.waiting("expire")) == 1
    assert "Traceback" not in answer.text


def test_a_poison_message_does_not_hold_the_others(deployed: Deployment) -> None:
    other = Deployment(bucket=deployed.bucket)
    answer = other.send("on_snapshot_written", other.commit_event(6), "poison", other.commit_event(5))
    assert answer.failed == ["m1"]
    assert [message["snapshot_id"] for message in other.waiting("expire")] == [6]


def test_keys_are_read_as_each_source_writes_them() -> None:
    """EventBridge gives keys as they are, notifications in form encoding."""
    other = Deployment()
    name = "sales.db/dt=a%3Ab t+a b"
    other.table(name)
    other.send("on_snapshot_written", other.commit_event(6, name))
    record = {
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "s3": {
            "bucket": {"name": other.bucket},
            "object": {"key": f"{PREFIX}/sales.db/dt%3Da%253Ab+t%2Ba+b/snapshot/snapshot-6"},
        },
    }
    (first,) = other.waiting("expire")
    assert first["table"] == other.location(name)
    fresh = Deployment(bucket=other.bucket)
    fresh.send("on_snapshot_written", {"Records": [record]})
    (second,) = fresh.waiting("expire")
    assert second == {**first, "etag": None, "announced": []}  # this notification has none
    fresh.send("expire", second)
    assert other.snapshots(name) == [5, 6]
