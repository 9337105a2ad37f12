"""Events and messages that lie: to every function, in batches with honest ones, about tables of others.

A message moves no deletion to a table that was not meant, and holds up no other message.
"""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.attack.metadata import THOROUGH
from tests.functions.deployment import PREFIX, Deployment, batch
from tests.support.s3_server import moto_store, seed_moto

HINT = {"format_version": 1, "kind": "hint", "branch": "main", "snapshot_id": 6, "hop": 0}
COMMIT = {
    "format_version": 1,
    "kind": "commit",
    "branch": "main",
    "hop": 0,
    "operation": "truncate",
    "arguments": {"catalog_type": "filesystem"},
    "manual": True,
}
MESSAGES: dict[str, dict[str, Any]] = {
    "expire": HINT,
    "execute_batch": {"format_version": 1, "kind": "maintain", "branch": "main", "hop": 0},
    "committer": COMMIT,
    "sweep": {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0},
    "tag_schedule": {"format_version": 1, "kind": "tag_sweep", "cursor": None, "hop": 0},
    "orphan_scan": {**HINT, "kind": "orphan_scan", "scan_id": "x", "arguments": {}, "step": 0, "execute": True},
    "orphan_worker": {**HINT, "kind": "orphan_task", "scan_id": "x", "task": {"id": "list-0", "kind": "list"}},
    "spark_jobs": {**HINT, "kind": "spark", "scan_id": "x", "arguments": {}, "execute": True},
}
"""What each function takes, but for its table."""
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, 1.5, "", " ", "..", "../../other", "a/b", "\x1b[31m", "\ud800", "a\0b", "main",
    "x" * 5000, "{}", "%2e%2e", [], [[]], {}, {"a": {"b": []}}, "s3://", "é" * 1000, "null", 6, "6",
)  # fmt: skip
SECRET = "secret.db/orders"


class Estate:
    """A deployment, a table of its own, and tables that are not."""

    def __init__(self, **words: Any) -> None:
        self.own = Deployment(**words)
        self.own.table()
        self.neighbour = Deployment()
        self.neighbour.table()
        self.beside = f"s3://{self.own.bucket}/{PREFIX}2/{SECRET}"
        store = self.neighbour.store()
        for entry in store.list(""):
            for prefix in (f"{PREFIX}2/{SECRET}", SECRET):
                seed_moto(self.own.bucket, [f"{prefix}/{entry.key}"], store.read(entry.key).data)
        self._stores = [store, *(moto_store(p, bucket=self.own.bucket) for p in (f"{PREFIX}2/{SECRET}", SECRET))]
        self.before = self.foreign()

    def foreign(self) -> list[dict[str, str]]:
        """Return what tables of others hold."""
        return [{entry.key: entry.etag for entry in store.list("")} for store in self._stores]

    def tables(self) -> list[object]:
        """Return how a message may name a table that it may not have."""
        bucket, foreign = self.own.bucket, self.neighbour.bucket
        own = f"s3://{bucket}/{PREFIX}"
        return [
            f"s3://{foreign}/{PREFIX}/sales.db/orders", self.beside, f"s3://{bucket}/{SECRET}", f"s3://{bucket}",
            f"{own}/../{SECRET}", f"{own}/../{PREFIX}2/{SECRET}", f"{own}/%2e%2e/{SECRET}", f"{own}//../{SECRET}",
            f"{own}2/{SECRET}", f"{own}/./../{SECRET}", f"s3://{bucket}/{PREFIX}\\..\\{SECRET}",
            f"s3://x@{bucket}/{SECRET}", f"s3://{bucket}:80/{SECRET}", f"s3://{bucket.upper()}/{SECRET}",
            f"s3://{bucket}/{PREFIX.upper()}/{SECRET}", f"s3://{bucket}/{PREFIX}\x00/../{SECRET}",
            f"s3://{bucket}/ware\u200bhouse/{SECRET}", f"s3://{bucket}/\uff57arehouse/{SECRET}", f"file:///{PREFIX}",
            "/etc", "..", "", f"{own}/sales.db/orders/branch/branch-x", f"{own}/sales.db/orders/snapshot",
            f"s3://{self.own.control_bucket}/lakesweep", f"s3://{bucket}/{PREFIX}/" + "a/" * 600,
        ]  # fmt: skip

    def check(self, text: str) -> None:
        """Fail where something of others changed or is about to."""
        assert self.foreign() == self.before
        assert "Traceback" not in text, text[-3000:]
        for queue in self.own.queues:
            for message in self.own.waiting(queue):
                table = message.get("table")
                assert table is None or table == self.own.location(), (queue, message)


@pytest.fixture(scope="module")
def estate() -> Estate:
    return Estate(mode="observe")


@pytest.fixture(scope="module")
def deleting() -> Estate:
    return Estate()


def some(values: Sequence[Any], case: str, count: int) -> Sequence[Any]:
    """Return all values, or some that differ from test to test and not from run to run."""
    return values if THOROUGH else random.Random(case).sample(values, count)


@pytest.mark.parametrize("function", MESSAGES)
def test_tables_that_a_deployment_may_not_have(deleting: Estate, function: str) -> None:
    """Whatever way a table of others is written: nothing is deleted there, nothing is asked of it."""
    for table in some(deleting.tables(), function, 8):
        answer = deleting.own.send(function, {**MESSAGES[function], "table": table})
        deleting.check(answer.text)
    assert not [key for key in deleting.own.control_keys() if "secret" in key]


def test_tables_that_nobody_may_ask_for(deleting: Estate) -> None:
    for number, table in enumerate(deleting.tables()):
        operation = ("expire-snapshots", "remove-orphan-files", "maintain")[number % 3]
        answer = deleting.own.invoke("on_demand", {"operation": operation, "table": table, "execute": True})
        assert answer.value["status"] == "refused", (table, answer.value)
        assert "Traceback" not in answer.text
    deleting.check("")


def test_events_of_tables_of_others(deleting: Estate) -> None:
    """Keys that lead elsewhere, encoded once or twice, as either source writes them."""
    estate = deleting
    own = estate.own.bucket
    keys = (
        f"{PREFIX}/../{SECRET}/snapshot/snapshot-6", f"{PREFIX}/%2e%2e/{SECRET}/snapshot/snapshot-6",
        f"{PREFIX}%2F..%2F{SECRET}/snapshot/snapshot-6", f"{PREFIX}2/{SECRET}/snapshot/snapshot-6",
        f"{SECRET}/snapshot/snapshot-6", f"{PREFIX}//{SECRET}/snapshot/snapshot-6", "snapshot/snapshot-6",
        f"{PREFIX}/sales.db/orders/snapshot/snapshot-99999999999999999999", f"/{PREFIX}/x/snapshot/snapshot-6",
        f"{PREFIX}/sales.db/orders/branch/branch-../snapshot/snapshot-6", f"{PREFIX}/\x1b[31m/snapshot/snapshot-6",
        f"{PREFIX}/sales.db/orders/branch/branch-a/branch/branch-b/snapshot/snapshot-6", "x" * 100_000,
        f"{PREFIX}/snapshot/snapshot/snapshot-6", f"{PREFIX}/sales.db/orders/snapshot/snapshot-+6",
    )  # fmt: skip
    for key in some(keys, "keys", 6):
        for bucket in (own, estate.neighbour.bucket, f"{own}/{PREFIX}", "", f"arn:aws:s3:::{own}"):
            event = estate.own.commit_event(6, bucket={"name": bucket}, object={"key": key})
            record = {"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": event["detail"]}
            for body in (event, {"Records": [record]}):
                answer = estate.own.send("on_snapshot_written", body)
                assert "Traceback" not in answer.text
    for body in estate.own.waiting("expire"):
        # A table below the prefix that is not there is for the next function to find out.
        assert body["table"].startswith(f"s3://{own}/{PREFIX}/") and ".." not in body["table"], body
        assert "Traceback" not in estate.own.send("expire", body).text
    assert estate.foreign() == estate.before


@pytest.mark.parametrize("function", MESSAGES)
def test_fields_of_other_types(estate: Estate, function: str) -> None:
    """Each field of an honest message is something else."""
    whole = {**MESSAGES[function], "table": estate.own.location()}
    for name in whole:
        for value in some(VALUES, function + name, 2):
            answer = estate.own.send(function, {**whole, name: value})
            assert "Traceback" not in answer.text, (name, value, answer.text[-2000:])
            assert "internal" not in answer.text
    assert estate.foreign() == estate.before
    assert estate.own.snapshots() == [1, 2, 3, 4, 5, 6]


ARGUMENTS: tuple[tuple[str, str], ...] = (
    ("expire-snapshots", "retain_max"), ("expire-snapshots", "older_than"), ("expire-snapshots", "grace"),
    ("expire-snapshots", "options"), ("remove-orphan-files", "engine"), ("remove-orphan-files", "inventory"),
    ("remove-orphan-files", "owned_external"), ("remove-orphan-files", "older_than"), ("create-tag", "tag"),
    ("delete-tag", "tag"), ("rollback", "version"), ("delete-branch", "branch"), ("fast-forward", "branch"),
    ("undo", "run_id"), ("execute", "plan_id"), ("maintain", "all_branches"),
    ("clear-consumers", "including_consumers"),
)  # fmt: skip


@pytest.mark.parametrize(("operation", "argument"), ARGUMENTS)
def test_arguments_of_other_types(estate: Estate, operation: str, argument: str) -> None:
    for value in some(VALUES, operation + argument, 3):
        event = {"operation": operation, "table": estate.own.location(), "arguments": {argument: value}}
        answer = estate.own.invoke("on_demand", event)
        assert "Traceback" not in answer.text, (value, answer.text[-2000:])
        assert answer.value["status"] in ("refused", "planned", "nothing_to_do", "queued"), answer.value
        json.dumps(answer.value)
    assert estate.own.snapshots() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("at", [0, 1, 2] if THOROUGH else [1])
def test_a_poisoned_batch(at: int) -> None:
    """The hostile message fails alone and comes again; what stands before and behind it is done."""
    estate = Estate()
    honest = {**HINT, "table": estate.own.location()}
    bodies = [honest, {**honest, "branch": "nothing"}]
    bodies.insert(at, {**HINT, "table": estate.beside, "branch": "\x1b[31m", "snapshot_id": [6]})
    answer = estate.own.invoke("expire", batch(*bodies))
    assert answer.failed == [f"m{at}"]
    assert estate.own.snapshots() == [5, 6]
    estate.check(answer.text)
