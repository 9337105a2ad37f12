"""`remove-unexisting-manifests` on tables in memory: what is left is counted exactly, and what may follow is said."""

from collections.abc import Callable

import pytest

from lakesweep.errors import AccessDeniedError, MaintenanceError, StorageError
from tests.support.commit_scene import Acting
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.unit.operations.repair.repair_world import RepairWorld, manifest_of, refusal_of, repair_of, same_but, vanish


def filled() -> RepairWorld:
    world = RepairWorld()
    world.fill("A", "B", "C")
    return world


def test_a_dry_run_says_what_the_list_tells_and_what_follows() -> None:
    world = filled()
    world.table.tag("t", snapshot=2)
    path = manifest_of(world, "snapshot/snapshot-2")
    vanish(world, path)
    before = world.bodies()
    report = world.manifests(execute=False)
    assert report.status == "planned"
    (lost,) = repair_of(report).manifests
    assert (lost.path, lost.added, lost.deleted) == (path, 1, 0)
    assert (lost.partition_min, lost.partition_max) == ({"dt": "dB"}, {"dt": "dB"})
    assert lost.named_by == ("snapshots 2 to 3", "tag t")
    assert repair_of(report).rows_left == 20
    assert any("restore a missing manifest" in each and "remove-orphan-files" in each for each in report.warnings)
    assert world.bodies() == before


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_manifest_of_the_base_or_the_delta_list(number: int) -> None:
    world = filled()
    former = world.table.document("snapshot/snapshot-3")
    theirs = [*world.records(former["baseManifestList"]), *world.records(former["deltaManifestList"])]
    vanish(world, manifest_of(world, f"snapshot/snapshot-{number}"))
    before = world.everywhere()
    report = world.manifests()
    assert report.status == "done"
    assert world.live() == {"A", "B", "C"} - {"ABC"[number - 1]}
    document = world.newest().document
    assert world.records(document["baseManifestList"]) == [each for n, each in enumerate(theirs, 1) if n != number]
    assert world.records(document["deltaManifestList"]) == []
    assert (document["totalRecordCount"], document["deltaRecordCount"]) == (20, 0)
    assert len(same_but(before, world.everywhere())) == 3, "two lists and a snapshot"
    assert world.manifests().status == "nothing_to_do"


def test_rows_that_return_have_to_be_accepted() -> None:
    """The lost manifest deleted a file that another one adds."""
    world = filled()
    world.table.commit("-A", "+D", partition=("dD",), kind="OVERWRITE")
    vanish(world, manifest_of(world, "snapshot/snapshot-4"))
    planned = world.manifests(execute=False)
    assert any("return" in each for each in planned.warnings)
    assert refusal_of(world.manifests(accept_loss=None)) == "loss_not_accepted"
    assert world.ids() == [1, 2, 3, 4]
    assert world.manifests().status == "done"
    assert world.live() == {"A", "B", "C"}
    assert world.newest().document["totalRecordCount"] == 30


def test_a_file_that_lives_again_may_be_gone() -> None:
    """Then the other repair comes next."""
    world = filled()
    world.table.commit("-A", "+D", partition=("dD",), kind="OVERWRITE")
    vanish(world, manifest_of(world, "snapshot/snapshot-4"), world.table.path("A"))
    assert world.manifests().status == "done"
    assert world.files().status == "done"
    assert world.live() == {"B", "C"}
    assert world.newest().document["totalRecordCount"] == 20


def test_an_entry_that_deletes_what_only_the_lost_manifest_added_is_left_out() -> None:
    """Paimon could never commit in that partition again. The rows do not count: the file was dead before."""
    world = filled()
    world.table.commit("-A", "-B", "+D", partition=("dD",), kind="OVERWRITE")
    vanish(world, manifest_of(world, "snapshot/snapshot-1"))
    assert world.manifests().status == "done"
    assert world.live() == {"C", "D"}
    document = world.newest().document
    assert document["totalRecordCount"] == 20
    entries = [
        entry for each in world.records(document["baseManifestList"]) for entry in world.records(each["_FILE_NAME"])
    ]
    deleted = {entry["_FILE"]["_FILE_NAME"] for entry in entries if entry["_KIND"] == 1}
    assert deleted == {world.table.path("B").rpartition("/")[2]}


def test_vectors_of_files_that_no_manifest_adds_any_more() -> None:
    world = RepairWorld(options={"bucket": "-1", "deletion-vectors.enabled": "true"})
    world.table.commit("+A", partition=("d",))
    world.table.commit("+B", partition=("d",), index={"I": {"A": [1], "B": [2]}})
    vanish(world, manifest_of(world, "snapshot/snapshot-1"))
    report = world.manifests()
    assert repair_of(report).dangling_vectors == 1
    (row,) = world.records(world.newest().document["indexManifest"])
    assert [each["f0"] for each in row["_DELETIONS_VECTORS_RANGES"]] == [world.table.path("B").rpartition("/")[2]]


def test_orphan_scans_find_what_the_lost_manifest_named() -> None:
    """The report says so, since a scan with --execute deletes it."""
    world = filled()
    vanish(world, manifest_of(world, "snapshot/snapshot-3"))
    world.manifests()
    vanish(world, "snapshot/snapshot-3")
    world.now_ms += 10 * 86_400_000
    scan = world.maintainer().run("remove-orphan-files", execute=False)
    assert scan.plan is not None
    assert world.table.path("C") in {action.path for action in scan.plan.actions}
    assert world.table.path("B") not in {action.path for action in scan.plan.actions}


def test_the_loss_of_most_files_has_to_be_accepted() -> None:
    """Where so much is gone, the place is rather wrong than the table damaged."""
    world = filled()
    for snapshot in (1, 2):
        vanish(world, manifest_of(world, f"snapshot/snapshot-{snapshot}"))
    assert refusal_of(world.manifests(accept_loss=None)) == "loss_not_accepted"
    assert world.ids() == [1, 2, 3]
    assert world.manifests().status == "done"
    assert world.live() == {"C"}


def test_a_manifest_that_the_bucket_still_has_is_restored_instead() -> None:
    world = RepairWorld(versioned=True)
    world.fill("A", "B")
    vanish(world, manifest_of(world, "snapshot/snapshot-1"))
    assert [each.is_restorable for each in repair_of(world.manifests(execute=False)).manifests] == [True]
    assert refusal_of(world.manifests(accept_loss=None)) == "loss_not_accepted"
    recorded = Switch()
    world.manifests(recorded, execute=False)
    asks = next(number for number, call in enumerate(recorded.calls, 1) if " hidden " in call)
    broken = world.manifests(Switch(asks, "before"), execute=False)
    assert refusal_of(broken) == "existence_unknown", "a failed question is no answer"
    assert world.manifests().status == "done"


@pytest.mark.parametrize(
    "error",
    [
        AccessDeniedError("read: denied"),
        StorageError("read: slow down", code="SlowDown"),
        StorageError("read: no answer", code="ReadTimeoutError"),
    ],
    ids=["403", "503", "time-out"],
)
def test_a_manifest_that_is_merely_unreadable_is_not_given_up(error: StorageError) -> None:
    world = filled()
    path = manifest_of(world, "snapshot/snapshot-2")
    vanish(world, path)
    before = world.bodies()

    class Answering(Switch):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            if name == f"table read {path}":
                raise error
            return super()._run(name, call)

    for execute in (False, True):
        report = world.manifests(Answering(), execute=execute)
        assert (report.status, refusal_of(report)) == ("refused", "existence_unknown")
    assert world.bodies() == before


def test_a_manifest_that_a_listing_shows_is_there() -> None:
    """Only a read of it fails; so nothing is known."""
    world = filled()
    path = manifest_of(world, "snapshot/snapshot-2")

    class Answering(Switch):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            if name == f"table read {path}":
                raise AccessDeniedError("read: denied")
            return super()._run(name, call)

    assert refusal_of(world.manifests(Answering())) == "existence_unknown"
    assert world.ids() == [1, 2, 3]


def test_a_manifest_that_comes_back_before_the_commit_stays() -> None:
    world = filled()
    path = manifest_of(world, "snapshot/snapshot-2")
    body = world.store.read(path).data
    vanish(world, path)
    report = world.manifests(Acting("table list snapshot/", lambda: world.store.put(path, body), number=3))
    assert (report.status, refusal_of(report)) == ("stale", "stale")
    assert world.ids() == [1, 2, 3]
    assert world.live() == {"A", "B", "C"}


def test_a_commit_in_between_is_built_upon() -> None:
    world = filled()
    vanish(world, manifest_of(world, "snapshot/snapshot-2"))
    commit = Acting("table list snapshot/", lambda: world.table.commit("+D", partition=("d",)), number=3)
    (made,) = repair_of(world.manifests(commit)).made
    assert (made.snapshot_id, made.attempts) == (5, 2)
    assert world.live() == {"A", "C", "D"}


def calls_of_a_repair() -> list[str]:
    world = deleting()
    switch = Switch()
    world.manifests(switch)
    return switch.calls


def deleting() -> RepairWorld:
    world = filled()
    world.table.commit("-A", "+D", partition=("dD",), kind="OVERWRITE")
    vanish(world, manifest_of(world, "snapshot/snapshot-1"))
    return world


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", range(1, len(calls_of_a_repair()) + 1))
def test_any_request_may_be_the_last(at: int, mode: str) -> None:
    world = deleting()
    before = world.everywhere()
    try:
        world.manifests(Switch(at, mode))
    except (MaintenanceError, ProcessDeathError):
        pass
    ids = world.ids()
    assert ids in ([1, 2, 3, 4], [1, 2, 3, 4, 5])
    world.wait()
    report = world.manifests()
    assert report.status == ("done" if len(ids) == 4 else "nothing_to_do")
    assert world.live() == {"B", "C", "D"}
    assert world.newest().document["totalRecordCount"] == 30
    same_but(before, world.everywhere())
