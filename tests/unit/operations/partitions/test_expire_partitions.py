"""`expire-partitions` in batches, and beside owners who change the rules."""

import json
from dataclasses import replace

from lakesweep.model.report import RunReport
from lakesweep.operations.partitions.arguments import ExpirePartitionsArguments
from lakesweep.operations.partitions.expire_partitions import expire_partitions
from lakesweep.storage.store import delete_all
from tests.unit.operations.partitions.partition_world import FILES, PartitionWorld

DAYS = tuple(f"2024010{day}" for day in range(1, 6))
RULES = {"partition.expiration-time": "1 d", "partition.timestamp-formatter": "yyyyMMdd"}


def test_batches_together_drop_no_more_than_the_most() -> None:
    world = PartitionWorld(options=RULES)
    world.fill(*DAYS)
    report = world.expire_partitions(expiration_max_num="3", expiration_batch_size="2")
    assert report.status == "done" and report.commits is not None
    assert [made.partitions for made in report.commits.made] == [2, 1]
    assert report.commits.due_later == 2
    assert world.live() == {f"dt={day}" for day in DAYS[3:]}


def test_rules_that_change_meanwhile_stop_the_run() -> None:
    """The owner keeps the partitions for longer, right before the snapshot is published."""
    world = PartitionWorld(options=RULES)
    world.fill(*DAYS)
    looks = 0

    def change(what: str) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            world.table.alter(options={"partition.expiration-time": "9999 d"})

    table = replace(world.maintainer().table, check_time=change)
    report: RunReport = expire_partitions(table, ExpirePartitionsArguments(FILES), execute=True)
    assert looks > 2
    assert report.status == "stale" and report.refusal is not None, report
    assert "other options partition.*" in report.refusal.message
    assert world.ids() == [1, 2, 3, 4, 5]


def test_a_new_schema_with_the_same_rules_stops_nothing() -> None:
    world = PartitionWorld(options=RULES)
    world.fill(*DAYS)
    looks = 0

    def change(what: str) -> None:
        nonlocal looks
        looks += 1
        if looks == 2:
            world.table.alter(options={"snapshot.num-retained.max": "7"})

    table = replace(world.maintainer().table, check_time=change)
    report = expire_partitions(table, ExpirePartitionsArguments(FILES), execute=True)
    assert report.status == "done"
    assert not world.newest().live


def test_a_rollback_that_takes_the_lists_is_planned_around() -> None:
    """The newest snapshot and its lists go, as by a rollback and a cleaning of orphans, before they are read."""
    world = PartitionWorld(options=RULES)
    world.fill(*DAYS)
    document = json.loads(world.store.read("snapshot/snapshot-5").data)
    looks = 0

    def roll_back(what: str) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            world.table.rollback(4)
            world.store.delete(
                delete_all(f"manifest/{document[key]}" for key in ("baseManifestList", "deltaManifestList"))
            )

    table = replace(world.maintainer().table, check_time=roll_back)
    report = expire_partitions(table, ExpirePartitionsArguments(FILES), execute=True)
    assert report.status == "done" and report.commits is not None
    assert [(made.snapshot_id, made.partitions, made.attempts) for made in report.commits.made] == [(5, 4, 2)]
    assert not world.newest().live
