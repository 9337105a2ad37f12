"""Somebody else acts on the table right before any request of a run. Whatever it is and whenever it comes, every root
that exists afterwards reads completely, and the newest snapshot is what that somebody left.
"""

from collections.abc import Callable, Iterator

import pytest

from lakesweep.errors import MaintenanceError
from tests.support.faulty_store import Interleaved
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.world import HOUR_MS, World

TABLE_LOCATION = "memory://bucket/t"


class RacedWorld(World):
    """A table whose expiry to the newest two snapshots is about to run, and a clock that sleeping turns."""

    def __init__(self) -> None:
        super().__init__(location=TABLE_LOCATION)
        self.table.commit("+A", "+B", statistics="s1")
        self.table.commit("-A", "+C", index={"i2": {"B": (1,)}}, changelog=["+L2"])
        self.table.commit("-C", "+D", index={"i3": {"B": (1, 2)}}, changelog=["+L3"])
        self.table.commit("-B", "+E", index={"i4": {}})
        self.table.merge_manifests()
        self.table.commit("-E", "+F")
        self.now_ms += HOUR_MS

    def snapshot_exists(self, snapshot_id: int) -> bool:
        return self.table.exists(f"snapshot/snapshot-{snapshot_id}")


def tag(stage: RacedWorld) -> Iterator[None]:
    """Another engine tags the oldest snapshot that it can still see."""
    for snapshot_id in (1, 2, 3):
        if stage.snapshot_exists(snapshot_id):
            stage.table.tag("late", snapshot=snapshot_id)
            return
    yield from ()


def branch(stage: RacedWorld) -> Iterator[None]:
    """Another engine makes a branch from a snapshot that is going, and commits to it."""
    for snapshot_id in (1, 2, 3):
        if stage.snapshot_exists(snapshot_id):
            stage.table.tag("late", snapshot=snapshot_id)
            stage.table.branch("late", from_tag="late")
            stage.table.remove("tag/tag-late")
            stage.table.on_branch("late").commit("+X")
            return
    yield from ()


def commit(stage: RacedWorld) -> Iterator[None]:
    """A writer commits."""
    stage.table.commit("-D", "+Y", index={"i9": {"Y": (3,)}})
    yield from ()


def rollback_as_latest(stage: RacedWorld) -> Iterator[None]:
    """Another engine commits an old state again: files that left the table come back."""
    for snapshot_id in (1, 2, 3):
        if stage.snapshot_exists(snapshot_id):
            stage.table.rollback_as_latest(snapshot_id)
            return
    yield from ()


def second_expirer(stage: RacedWorld) -> Iterator[None]:
    """Another run of ours expires the same table."""
    try:
        Maintainer(stage.store, control=stage.control, sleep=stage.sleep).expire(retain_max=1, retain_min=1)
    except MaintenanceError:
        pass
    yield from ()


def rollback(stage: RacedWorld) -> Iterator[None]:
    """Another engine rolls back: LATEST first, then the newer documents, newest first."""
    for target in (2, 3, 4):
        if stage.snapshot_exists(target):
            stage.table.hint("LATEST", target)
            yield
            for snapshot_id in range(6, target, -1):
                if stage.snapshot_exists(snapshot_id):
                    stage.table.remove(f"snapshot/snapshot-{snapshot_id}")
                    yield
            return


def rollback_and_commit(stage: RacedWorld) -> Iterator[None]:
    """A rollback whose ids are used again at once."""
    for _ in rollback(stage):
        pass
    stage.table.commit("+Z1")
    stage.table.commit("+Z2")
    yield from ()


ACTIONS = [tag, branch, commit, rollback_as_latest, second_expirer, rollback, rollback_and_commit]


def _calls() -> int:
    stage = RacedWorld()
    last = [0]
    assert (
        stage.maintainer(Interleaved(lambda n: last.__setitem__(0, n))).expire(retain_max=2, retain_min=2).status
        == "done"
    )
    return last[0]


CALLS = _calls()


@pytest.mark.parametrize("spread", [0, 1, 4], ids=lambda spread: f"every_{spread}_calls" if spread else "at_once")
@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
def test_no_interleaving_loses_a_live_file(action: Callable[[RacedWorld], Iterator[None]], spread: int) -> None:
    """`spread`: how many requests of the run lie between two steps of the other side."""
    for at in range(1, CALLS + 1):
        stage = RacedWorld()

        def before(call: int, stage: RacedWorld = stage, at: int = at) -> None:
            if call == at:
                stage.steps = action(stage)
                if spread == 0:
                    for _ in stage.steps:
                        pass
                else:
                    next(stage.steps, None)
            elif call > at and spread and (call - at) % spread == 0:
                next(stage.steps, None)

        try:
            stage.maintainer(Interleaved(before)).expire(retain_max=2, retain_min=2)
        except MaintenanceError:
            pass
        for _ in stage.steps:
            pass
        where = f"{action.__name__} before call {at} of {CALLS}"
        try:
            assert_roots_readable(stage.table)
            assert any(stage.snapshot_exists(snapshot_id) for snapshot_id in range(1, 12)), "no snapshot is left"
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
