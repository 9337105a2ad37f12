"""Every file in events/ goes to the function that it is for: once, doubled, and all of them in any order."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.functions.deployment import Answer, Deployment, batch, keys_of
from tests.support.reader import TableReader
from tests.support.reader import assert_readable as assert_roots_readable
from tests.support.s3_server import moto_client
from tests.support.table_builder import TableBuilder

EVENTS = Path(__file__).resolve().parents[2] / "events"
NAMES = sorted(path.stem for path in EVENTS.glob("*.json"))
FAILING = {"sqs_commits_poison": 3, "sqs_expire_later_version": 1}
"""Messages that come again, and in the end lie in the dead-letter queue."""
REFUSED = {
    *("on_demand_execute_plan", "on_demand_execute_plan_spark"),
    *("on_demand_reset_consumer", "on_demand_reset_consumer_execute"),
    *("on_demand_create_branch_execute", "on_demand_delete_branch_execute", "on_demand_fast_forward_execute"),
}
"""Demands for what is not there: a plan of another day, a snapshot that is gone. And for what no function may."""
ONCE = {"on_demand_rename_tag", "on_demand_rename_tag_execute"}
"""Demands that are refused when they were carried out before."""


class Lake(Deployment):
    """The bucket that the files speak of."""

    def __init__(self) -> None:
        for bucket in ("lake", "archive"):
            try:
                moto_client().create_bucket(Bucket=bucket)
            except ClientError:
                self._empty(bucket)
        self._read: frozenset[str] = frozenset()
        super().__init__(bucket="lake", extra={"LAKESWEEP_TABLES": "lake/warehouse", "LAKESWEEP_ACCOUNTS": ""})
        self.tables = [self._write("sales.db/orders", 50), self._write("sales.db/customers", 20)]
        self.tables.append(self._write("sales.db/returns", 5))
        self.run(self.commit_event(50), self.commit_event(20, "sales.db/customers"))
        for table, newest in zip(self.tables, (50, 20, 5), strict=True):
            table.commit("+late", time_ms=1)
            table.hint("LATEST", newest + 1)
        self.tables.append(self.table("sales.db/visits", 0, partition_keys=["dt"]))
        for day in ("20240101", "20240102", "20240103"):
            self.tables[-1].hint("LATEST", self.tables[-1].commit(f"+F{day}", partition=(day,)))

    def _write(self, name: str, commits: int) -> TableBuilder:
        table = self.table(name, commits)
        for tag, snapshot in (("cut", commits - 1), ("spare", commits - 2), ("old", commits - 3)):
            table.tag(tag, snapshot)
        for branch in ("rt", "audit"):
            table.branch(branch, from_tag="cut")
        table.consumer("nightly", commits - 2)
        return table

    @staticmethod
    def _empty(bucket: str) -> None:
        client = moto_client()
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for entry in page.get("Contents", ()):
                client.delete_object(Bucket=bucket, Key=entry["Key"])

    def replay(self, name: str, times: int = 1) -> Iterator[Answer]:
        """Deliver a file, every message of it as often as asked for."""
        event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
        if name.startswith("on_demand"):
            for _ in range(times):
                yield self.invoke("on_demand", event)
            return
        if not name.startswith("sqs_"):
            event = batch(event)
        records = [
            {**record, "messageId": f"{record['messageId']}-{number}"}
            for record in event["Records"]
            for number in range(times)
        ]
        kinds = {"sqs_expire": "expire", "sqs_execute": "execute_batch", "sqs_sweep": "sweep"}
        kinds |= {"sqs_tag": "tag_schedule", "schedule_tag": "tag_schedule"}
        kinds |= {"sqs_orphan_task": "orphan_worker", "sqs_orphan": "orphan_scan", "schedule_orphan": "orphan_scan"}
        kinds |= {"sqs_spark": "spark_jobs", "eventbridge_job": "spark_jobs", "schedule_spark": "spark_jobs"}
        kinds |= {"schedule": "sweep", "sqs_committer": "committer"}
        function = next((it for start, it in kinds.items() if name.startswith(start)), "on_snapshot_written")
        yield self.invoke(function, {"Records": records})

    def settle(self) -> None:
        """Let everything that was sent be done, and hold every root against its files."""
        for answer in self.run():
            assert answer.failed == [], answer.text
        found = frozenset(key for table in self.tables for key in keys_of(table.store))
        if found != self._read:  # reading every root takes a while
            for table in self.tables:
                assert_readable(table)
            self._read = found


def assert_readable(table: TableBuilder) -> None:
    """Fail unless every root reads whole, and what the writer wrote as it was written."""
    reader = TableReader(table.store)
    tags = {root for root in reader.roots() if "/tag-" in f"/{root}"}  # made, renamed and replaced by demands
    for root in tags:
        reader.read(root)
    assert_roots_readable(reader, table, sorted({*reader.roots()} - tags))


@pytest.fixture(scope="module")
def lake() -> Lake:
    return Lake()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("times", [1, 2], ids=["once", "doubled"])
def test_a_file_is_answered(lake: Lake, name: str, times: int) -> None:
    if name == "sqs_orphan_task":  # of a scan that has to have begun
        assert [answer.failed for answer in lake.replay("sqs_orphan_scan")] == [[]]
    for answer in lake.replay(name, times):
        assert "Traceback" not in answer.text
        if name.startswith("on_demand"):
            is_refused = answer.value["status"] == "refused"
            assert is_refused == (name in REFUSED) or (is_refused and name in ONCE), answer.value
        else:
            assert len(answer.failed) == FAILING.get(name, 0) * times, answer.text
    lake.settle()


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.long
def test_any_order(seed: int) -> None:
    """Most of them, some doubled, shuffled, with the functions' own messages in between: the same tables in the end."""
    lake = Lake()
    dice = random.Random(seed)
    order = [*dice.sample(sorted(NAMES), len(NAMES) * 2 // 3), *dice.sample(sorted(NAMES), len(NAMES) // 6)]
    dice.shuffle(order)
    for number, name in enumerate(order):
        for answer in lake.replay(name):
            assert "Traceback" not in answer.text
        if number % 20 == 0:
            lake.settle()
    lake.settle()
    lake.send("sweep", {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0})
    lake.settle()
    for name, newest in (("sales.db/orders", 51), ("sales.db/customers", 21)):
        assert lake.snapshots(name)[-1] == newest
        assert len(lake.snapshots(name)) <= 4, "what the consumer needs, at most"
