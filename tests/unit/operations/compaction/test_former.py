"""Rows that Lakesweep has hidden, and that are visible again: hidden again, unless they may be visible rightly."""

from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.storage.store import DeleteRequest
from tests.support.acting import Acting
from tests.support.keyed_world import CATALOG, KeyedWorld
from tests.support.row_world import UNLOCKED

SENT: Callable[[str], bool] = lambda call: call == "table read snapshot/LATEST"  # noqa: E731


class MarkedWorld(KeyedWorld):
    """Snapshot 3 has old rows, snapshot 4 adds what replaces three of them, and snapshot 5 of Lakesweep hides these."""

    def __init__(self) -> None:
        super().__init__()
        self.put({(dt, number): "old" for dt in "ab" for number in range(12)})
        assert self.merge(full=True).status == "done"
        self.former = self.index_manifest()
        self.put({("a", 1): "new", ("a", 2): None, ("b", 1): "new"})
        assert self.merge().status == "done"
        self.models |= {3: self.models[2], 5: self.models[4]}

    def forget_marks(self) -> None:
        """Commit as a writer does that has the bucket's former vectors in mind."""
        self.document(indexManifest=self.former)
        assert len(self.rows_seen()) == len(self.models[5]) + 3

    def lost(self, **arguments: Any) -> str:
        """Compact, see that all rows are hidden again, and return the warning."""
        report = self.merge(**arguments)
        assert report.refusal is not None, report
        assert (report.status, report.refusal.code) == ("partial", "marks_lost")
        self.merge()
        assert self.seen() == self.model
        (sentence,) = report.warnings
        return sentence


@pytest.fixture
def world() -> MarkedWorld:
    return MarkedWorld()


@pytest.mark.parametrize("operation", ["compact-manifest", "drop-partition"])
def test_another_operation_has_committed_since(world: MarkedWorld, operation: str) -> None:
    """It did not look at deletion vectors, so its snapshot is not the one to compare with."""
    world.put({("c", 1): "other"})
    world.forget_marks()
    dropped = {"partition": ["dt=c"]} if operation == "drop-partition" else {}
    assert world.run(operation, **dropped, **CATALOG).status == "done"
    world.model = world.models[5] if dropped else world.model
    assert world.lost().startswith("3 rows in 3 buckets were visible again that snapshot 5 ")


def test_a_call_for_one_partition_looks_at_all(world: MarkedWorld) -> None:
    """Otherwise the next call would compare with its snapshot, in which the other partitions lack marks."""
    world.forget_marks()
    world.put({("b", 5): "later"})
    assert world.lost(partitions=("dt=b",)).startswith("3 rows in 3 buckets ")


def test_the_snapshot_of_the_run_is_replaced(world: MarkedWorld) -> None:
    """The next attempt finds the rows again, though its own last snapshot is gone."""
    world.forget_marks()

    def act() -> None:
        world.store.delete([DeleteRequest(f"snapshot/snapshot-{world.ids()[-1]}")])
        world.put({("a", 77): "racer"})

    acting = Acting(SENT, act)
    report = world.merge(acting, catalog=UNLOCKED)
    assert report.refusal is not None and acting.has_acted
    assert (report.status, report.refusal.code) == ("partial", "marks_lost")
    world.merge()
    assert world.seen() == world.model


@pytest.mark.parametrize("to", [3, 4])
def test_an_older_version_that_came_back_stays_visible(world: MarkedWorld, to: int) -> None:
    """Somebody else committed it on top. What replaces the rows is not there, or waits on level 0."""
    control, world.control = world.control, world.new_control()
    assert world.run("rollback", snapshot=to, as_latest=True, **CATALOG).status == "done"
    world.control, world.model = control, world.models[to]
    assert any("stay visible" in each for each in world.merge(execute=False).warnings)
    report = world.merge()
    assert report.status == ("nothing_to_do" if to == 3 else "done"), report.refusal
    (sentence,) = report.warnings
    assert sentence.startswith("3 rows in 3 buckets are visible that snapshot 5 of Lakesweep had hidden, and stay ")
    assert world.seen() == world.model


def test_an_overwrite_of_another_bucket_leaves_no_doubt(world: MarkedWorld) -> None:
    world.overwrite("b", {1: "other", 2: "other"})
    world.document(indexManifest=world.former)
    assert world.lost().startswith("2 rows in 2 buckets were visible again that snapshot 5 ")


def test_snapshots_since_are_gone(world: MarkedWorld) -> None:
    """So nobody knows what they did."""
    world.put({("a", 50): "later"})
    world.forget_marks()
    world.store.delete([DeleteRequest("snapshot/snapshot-6")])
    report = world.merge()
    assert report.status == "done" and any("lacks snapshots since" in each for each in report.warnings)


@pytest.mark.parametrize("place", ["manifest/index-manifest", "index/index"])
def test_the_snapshot_to_compare_with_expires_meanwhile(world: MarkedWorld, place: str) -> None:
    """So there is nothing to compare with. The table is as whole as before."""
    own = world.index_manifest()
    files = {each.key for each in world.store.list("index/")}
    world.forget_marks()
    world.put({("b", 7): "later"})
    names = [f"manifest/{own}"] if place.startswith("manifest") else files
    acting = Acting(
        lambda call: call == f"table read manifest/{own}",
        lambda: world.store.delete([DeleteRequest(name) for name in names]),
    )
    report = world.merge(acting, full=True)
    assert acting.has_acted and report.status == "done", report


def test_a_rollback_before_the_snapshot(world: MarkedWorld) -> None:
    """Another snapshot has its number. What was hidden in the former one is visible rightly."""
    world.store.delete([DeleteRequest("snapshot/snapshot-5"), DeleteRequest("snapshot/snapshot-4")])
    world.model = world.models[3]
    for number in range(3):
        world.put({("b", 20 + number): "later"})
    assert world.merge().status == "done"
    assert world.seen() == world.model


def test_a_fast_forward_to_a_branch_from_before(world: MarkedWorld) -> None:
    """The branch begins after the snapshot, which stays. But the newest one descends from snapshot 3."""
    branch = world.copy()
    branch.store.delete([DeleteRequest("snapshot/snapshot-5"), DeleteRequest("snapshot/snapshot-4")])
    branch.model = branch.models[3]
    for number in range(4):
        branch.put({("b", 20 + number): "of the branch"})
    world.put({("a", 30): "of main"})
    world.now_ms += 60_000
    for key in (branch.keys() - world.keys() - {"snapshot/snapshot-4", "snapshot/snapshot-5"}) | {"schema/schema-0"}:
        world.store.put(key, branch.store.read(key).data)
    world.model = branch.model
    report = world.merge()
    assert report.status == "done" and any("fast-forwarded" in each for each in report.warnings), report
    assert world.seen() == world.model
