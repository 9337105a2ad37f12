"""`drop-partition` and `truncate` on tables in memory, read back by an independent reader."""

import json

import pytest

from lakesweep.errors import UsageError
from lakesweep.model.commits.partitions import PartitionsReport
from lakesweep.operations.partitions.arguments import Catalog
from lakesweep.storage.store import delete_all
from tests.unit.operations.partitions.partition_world import PartitionWorld


def test_a_dry_run_says_what_goes_and_who_still_shows_it() -> None:
    world = PartitionWorld()
    world.fill("20240101", "20240102", "20240103")
    world.table.tag("jan", snapshot=2)
    before = world.bodies()
    report = world.drop("dt=20240101", execute=False)
    assert report.status == "planned" and not report.executed
    commits = report.commits
    assert commits is not None
    assert [(each.partition, each.rows, each.files) for each in commits.partitions] == [("dt=20240101", 10, 1)]
    assert commits.live_files == 3
    assert commits.shown_by == ("snapshots 1 to 3", "tag jan")
    assert world.bodies() == before


def test_the_files_of_a_partition_are_live_no_longer_and_none_is_deleted() -> None:
    world = PartitionWorld()
    world.fill("20240101", "20240102", "20240103")
    before = world.keys()
    report = world.drop("dt=20240101")
    assert report.status == "done" and report.executed and report.run_id
    assert world.live() == {"dt=20240102", "dt=20240103"}
    assert world.keys() >= before
    assert report.commits is not None
    (made,) = report.commits.made
    document = json.loads(world.store.read("snapshot/snapshot-4").data)
    assert made.snapshot_id == document["id"] == 4
    assert made.uuid == document["uuid"]
    assert (made.partitions, made.files, made.rows) == (1, 1, 10)
    assert document["commitKind"] == "OVERWRITE"
    assert (document["totalRecordCount"], document["deltaRecordCount"]) == (20, -10)
    assert "operation" not in document
    assert document["commitUser"].startswith("lakesweep-")
    assert world.store.read("snapshot/LATEST").data == b"4"
    assert len(world.newest().live) == 2


def test_the_next_drop_builds_on_the_one_before() -> None:
    world = PartitionWorld()
    world.fill("20240101", "20240102", "20240103")
    assert world.drop("dt=20240101").status == "done"
    assert world.drop("dt=20240103").status == "done"
    assert world.live() == {"dt=20240102"}
    assert world.drop("dt=20240103").status == "nothing_to_do"
    assert world.ids() == [1, 2, 3, 4, 5]


def test_a_partition_that_is_not_there_makes_no_snapshot() -> None:
    world = PartitionWorld()
    world.fill("20240101")
    assert world.drop("dt=20990101").status == "nothing_to_do"
    assert world.ids() == [1]


def test_truncate_takes_out_all() -> None:
    world = PartitionWorld()
    world.fill("20240101", "20240102")
    report = world.truncate()
    assert report.status == "done"
    newest = world.newest()
    assert not newest.live and newest.document["totalRecordCount"] == 0
    assert world.truncate().status == "nothing_to_do"


def test_truncate_of_a_table_without_partitions() -> None:
    world = PartitionWorld(partition_keys=[])
    world.table.commit("+A", "+B")
    assert world.truncate().status == "done"
    assert not world.newest().live
    assert world.drop("dt=1").refusal is not None


def test_a_partition_that_comes_back_lives_again() -> None:
    world = PartitionWorld()
    world.fill("20240101", "20240102")
    world.drop("dt=20240101")
    expired = world.expire_partitions(expiration_time="1 d", timestamp_formatter="yyyyMMdd")
    assert expired.status == "done"
    assert world.live() == set()


def test_a_catalog_that_is_not_declared_is_planned_and_not_committed() -> None:
    world = PartitionWorld()
    world.fill("20240101")
    nobody = Catalog()
    assert world.drop("dt=20240101", execute=False, catalog=nobody).status == "planned"
    report = world.drop("dt=20240101", catalog=nobody)
    assert report.status == "refused" and report.refusal is not None
    assert report.refusal.code == "catalog_not_declared"
    assert world.ids() == [1]


def test_a_table_without_a_snapshot() -> None:
    world = PartitionWorld()
    assert world.drop("dt=20240101").status == "nothing_to_do"
    assert world.truncate().status == "nothing_to_do"


@pytest.mark.parametrize("spec", ["", "day=1", "dt", {}, {"dt": ["x"]}, {"other": "x"}])
def test_a_partition_given_wrongly(spec: object) -> None:
    world = PartitionWorld()
    world.fill("20240101")
    with pytest.raises(UsageError):
        world.drop(spec)
    with pytest.raises(UsageError):
        world.drop()
    assert world.ids() == [1]


def test_a_missing_manifest_stops_the_commit() -> None:
    world = PartitionWorld()
    world.fill("20240101", "20240102")
    manifest = min(key for key in world.keys("manifest/") if key.startswith("manifest/manifest-") and "list" not in key)
    world.store.delete(delete_all([manifest]))
    report = world.truncate()
    assert report.refusal is not None and report.refusal.code == "corrupt_manifests"
    assert world.ids() == [1, 2]


def test_branches_are_apart() -> None:
    world = PartitionWorld()
    world.fill("20240101", "20240102")
    world.table.tag("t")
    world.table.branch("b", from_tag="t")
    dry = world.drop("dt=20240101", execute=False).commits
    assert isinstance(dry, PartitionsReport)
    assert dry.shown_by == ("snapshots 1 to 2", "tag t", "snapshot 2 of branch b", "tag t of branch b")
    world.branch = "b"
    report = world.drop("dt=20240101")
    assert report.status == "done"
    assert world.ids("branch/branch-b/snapshot") == [2, 3]
    assert world.ids() == [1, 2]


def test_expiry_deletes_the_files_once_no_root_needs_them() -> None:
    world = PartitionWorld()
    world.fill("20240101", "20240102")
    world.drop("dt=20240101")
    assert world.expire().status == "done"
    assert {key.split("/")[0] for key in sorted(world.keys()) if key.startswith("dt=")} == {"dt=20240102"}


def test_files_that_wait_for_their_bucket_stay_and_are_not_counted() -> None:
    world = PartitionWorld(options={"bucket": "2"})
    world.table.commit("+A", "+B", partition=("20240101",), bucket={"A": 0, "B": -2})
    commits = world.drop("dt=20240101", execute=False).commits
    assert commits is not None
    assert [(each.rows, each.files) for each in commits.partitions] == [(10, 1)]
    assert (commits.rows, commits.files) == (10, 1)
