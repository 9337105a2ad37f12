"""The next sweep notices snapshots that a writer without a lock replaced, and nothing else sets off the alarm."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from lakesweep.control.state import read_states
from lakesweep.errors import StorageError
from lakesweep.model.commits.seen import MOST_SEEN
from lakesweep.storage.store import DeleteRequest
from tests.support.faulty_store import Switch
from tests.support.replacing import ReplacingWorld
from tests.support.sampling import is_sampled

CLEAN_COMMITS = 150 if is_sampled() else 1000
RACES = 8 if is_sampled() else 60
CLOCKS_S = (-3600, -30, -3, 3, 30, 3600)
"""How far the clocks of some writers are ahead."""


ACTS = (
    *("commit", "roll_back", "roll_back_by_ours", "branch", "fast_forward", "fast_forward_by_ours", "delete_branch"),
    *("tag", "expire", "undo", "restore", "lose_state"),
)


class History:
    """Steps that are drawn from what the table allows."""

    def __init__(self, seed: int, **world: Any) -> None:
        self.world = ReplacingWorld(seed, **world)
        self.random = Random(seed)
        self.commits = 0
        self.steps: dict[str, int] = {}
        self._branches = 0

    def step(self) -> None:
        """Let some time pass, and one thing happen."""
        self.world.later(self.random.choice([2, 3, 7, 20, 90, 600]))
        acts: dict[Callable[[], object], int] = {
            self.commit: 60,
            self.roll_back: 8,
            self.roll_back_by_ours: 5,
            self.branch: 5,
            self.fast_forward: 5,
            self.fast_forward_by_ours: 3,
            self.delete_branch: 2,
            self.tag: 3,
            self.expire: 4,
            self.undo: 4,
            self.restore: 2,
            self.lose_state: 2,
        }
        (act,) = self.random.choices(list(acts), list(acts.values()))
        if len(self.world.ids()) < 3:
            act = self.commit
        if act() is not False:
            name = act.__name__
            self.steps[name] = self.steps.get(name, 0) + 1

    def commit(self) -> None:
        """Commit once or some times, to main or a branch, with or without a look in between."""
        world = self.world
        branches = [name for name in self.names() if self.random.random() < 0.3]
        for _ in range(self.random.choice([1, 1, 1, 2, 4])):
            skew_s = self.random.choice([0, 0, 0, *CLOCKS_S])
            world.commit(world.table.on_branch(branches[0]) if branches else world.table, skew_s=skew_s)
            self.commits += 1
            world.later(self.random.choice([0.3, 1.5, 40]))

    def roll_back(self) -> None:
        """Java or pypaimon rolls back, and somebody commits again at once or later."""
        self.world.roll_back(self.random.randint(1, min(3, len(self.world.ids()) - 1)))
        self.world.later(self.random.choice([1.2, 5, 60]))
        if self.random.random() < 0.8:
            self.commit()

    def roll_back_by_ours(self) -> None:
        ids = self.world.ids()
        self.world.run("rollback", version=str(ids[-self.random.randint(2, min(4, len(ids)))]))
        self.world.forget_what_is_gone()
        if self.random.random() < 0.8:
            self.commit()

    def names(self) -> list[str]:
        return sorted(name.removeprefix("branch-") for name in self.world.store.folders("branch/"))

    def branch(self) -> None:
        self._branches += 1
        name = f"b{self._branches}"
        self.world.table.tag(f"of-{name}", self.random.choice(self.world.ids()))
        self.world.table.branch(name, from_tag=f"of-{name}")
        self.commit()

    def fast_forward(self) -> bool:
        """Java or pypaimon fast-forwards, and somebody may delete the branch right after."""
        if not (names := self.names()):
            return False
        self.world.fast_forward(names[-1], rewrites_schemas=self.random.random() < 0.7)
        return True

    def fast_forward_by_ours(self) -> bool:
        if not (names := self.names()):
            return False
        return self.world.fast_forward_by_ours(names[-1])

    def delete_branch(self) -> bool:
        if not (names := self.names()):
            return False
        self.world.run("delete-branch", branch=names[0])
        return True

    def tag(self) -> None:
        self.world.table.tag(f"t{self.world.now_ms}")

    def expire(self) -> None:
        self.world.run("expire-snapshots", retain_max=3, retain_min=1)
        self.world.forget_what_is_gone()

    def undo(self) -> bool:
        """Roll back by Lakesweep, and take that back."""
        ids = self.world.ids()
        model = self.world.table._branches["main"].roots
        known = {kind: dict(roots) for kind, roots in model.items()}
        report = self.world.run("rollback", version=str(ids[-self.random.randint(2, min(4, len(ids)))]))
        if report.status != "done" or report.run_id is None:
            return False  # a branch was made from one of the snapshots
        if self.random.random() < 0.5:
            self.world.sweep()
        self.world.later(self.random.choice([1.2, 5, 60]))
        before = set(self.world.ids())
        assert self.world.undo(report.run_id).status == "done"
        for kind, roots in known.items():  # the builder knows them again
            model[kind] |= roots
        for snapshot_id in sorted(set(self.world.ids()) - before):
            self.world.announce("main", snapshot_id)
        return True

    def restore(self) -> bool:
        """Somebody puts the document of an expired snapshot back, and deletes it again."""
        oldest = self.world.ids()[0]
        path = f"snapshot/snapshot-{oldest}"
        body = self.world.store.read(path).data
        self.expire()
        if oldest in self.world.ids():
            return False
        self.world.later(self.random.choice([5, 90]))
        self.world.store.put(path, body)
        self.world.announce("main", oldest)
        self.world.deliver()
        self.world.sweep()
        self.world.store.delete([DeleteRequest(path)])
        return True

    def lose_state(self) -> None:
        """The state is lost, damaged, or of an earlier version."""
        name = f"{self.world.area.prefix}state.json"
        if (left := self.random.choice([b"", b"{", b'{"format_version": 6, "branches": {}}'])) == b"":
            self.world.control.delete([DeleteRequest(name)])
        else:
            self.world.control.put(name, left)


def test_a_clean_history_sets_off_nothing() -> None:
    """Of Lakesweep and of engines, with clocks that are wrong and a state that is lost; events in any order.

    `tests/servers/test_clean_histories.py` has a thousand commits of real writers.
    """
    history = History(seed=1)
    world = history.world
    while history.commits < CLEAN_COMMITS:
        history.step()
        if world.random.random() < 0.7:
            world.deliver(keep=0.3)
        if world.random.random() < 0.3:
            world.sweep()
    assert world.told.lost == []
    assert set(history.steps) <= set(ACTS)
    assert len(history.steps) == len(ACTS) or is_sampled()
    assert CLEAN_COMMITS <= history.commits < CLEAN_COMMITS + 8
    print(history.steps, world.told.passes, "passes", len(world.told.doubts), "doubts")


def by_sweep(history: History) -> int:
    """A pass has seen the snapshot, and events are lost: the writer stood still for some seconds."""
    world = history.world
    world.commit()
    world.look()
    world.events.clear()
    replaced = world.newest
    if history.random.random() < 0.5:  # others commit meanwhile
        world.later(1)
        world.commit()
    world.replace_snapshot(replaced, after_s=history.random.choice([0.1, 2, 20]))
    world.events.clear()
    return replaced


def by_events(history: History) -> int:
    """The usual race: two events for one snapshot, in any order."""
    world = history.world
    world.commit()
    replaced = world.newest
    world.replace_snapshot(replaced, made_before_s=history.random.choice([0, 0.03, 0.4]))
    if history.random.random() < 0.5:
        world.later(1)
        world.commit()
    world.deliver()
    return replaced


def by_the_event_of_the_old_one(history: History) -> int:
    """The event of the new one is lost, or comes much later."""
    world = history.world
    world.commit()
    replaced = world.newest
    world.replace_snapshot(replaced)
    late = [event for event in world.events if event[1].etag == world.store.read(f"snapshot/snapshot-{replaced}").etag]
    world.events = [event for event in world.events if event not in late]
    world.deliver()
    if history.random.random() < 0.5:
        world.later(1)
        world.commit()
    world.events += late
    return replaced


@pytest.mark.parametrize("race", [by_sweep, by_events, by_the_event_of_the_old_one])
def test_each_replaced_snapshot_is_noticed_once_within_one_sweep(race: Callable[[History], int]) -> None:
    history = History(seed=2)
    world = history.world
    for number in range(RACES):
        for _ in range(3):
            history.step()
        world.deliver(keep=0.3)
        world.sweep()
        before = len(world.told.lost)
        world.later(2)
        replaced = race(history)
        world.later(history.random.choice([5, 3600]))
        world.sweep()
        world.deliver()
        world.sweep()
        found = world.told.lost[before:]
        assert [each.now.id for each in found] == [replaced], (number, found)
        assert found[0].now.commit_user.startswith("racer-")
        assert not found[0].is_ours


def test_what_a_report_says_of_a_lost_commit() -> None:
    world = ReplacingWorld()
    for _ in range(3):
        world.commit()
        world.later(10)
    world.look()
    assert [each.id for each in read_states(world.area)["main"].newest] == [1, 2, 3]
    written_ms = world.now_ms // 1000 * 1000
    racer = world.replace_snapshot(3)
    report = world.maintain(is_due=True)
    assert (report.status, report.told_status) == ("nothing_to_do", "commit_lost")
    document: Any = report.to_json()
    (lost,) = document["lost_commits"]
    assert document["status"] == "commit_lost"
    assert (lost["snapshot_id"], lost["is_ours"], lost["now"]["commit_user"]) == (3, False, racer)
    assert lost["now"]["written_ms"] == written_ms
    assert lost["lost"]["uuid"] is None, "no pass has read its document"
    (sentence,) = report.all_warnings()
    assert racer in sentence and "its rows are not in the table" in sentence
    again = world.maintain(is_due=True)
    assert (again.told_status, again.all_warnings()) == ("nothing_to_do", ())


def test_an_event_of_an_old_snapshot_that_was_written_last() -> None:
    """A writer stood still while more others committed than a state remembers."""
    world = ReplacingWorld()
    for _ in range(MOST_SEEN + 4):
        world.commit()
        world.later(2)
    world.deliver()
    world.look()
    world.replace_snapshot(3, after_s=30)
    assert [each.now.id for each in world.deliver()] == [3]
    world.announce("main", 3)
    assert world.deliver() == [], "once"


def test_repeated_events_cost_one_read() -> None:
    """Also that of the snapshot that was replaced, when this was told."""
    world = ReplacingWorld()
    world.commit()
    world.look()
    world.later(60)
    world.commit()
    old = world.events[-1]
    world.replace_snapshot(2)
    assert [each.now.id for each in world.deliver()] == [2]
    passes = world.told.passes
    for _ in range(3):
        world.events = [old]
        _, requests = world.spent(world.deliver)
        assert sum(requests.values()) <= 2 * 2, "twice the state, and whether the newest snapshot is still there"
    assert world.told.passes == passes


def test_a_versioned_bucket_tells_what_times_do_not() -> None:
    """A rollback and a commit within a second, and a writer that stood still for long."""
    world = ReplacingWorld(versioned=True)
    for _ in range(3):
        world.commit()
        world.later(0.1)
    world.roll_back()
    world.later(0.1)
    world.commit()
    world.deliver()
    world.sweep()
    assert (world.told.lost, world.told.doubts) == ([], [])
    world.look()
    world.replace_snapshot(3, after_s=50)
    assert [each.now.id for each in world.sweep()] == [3]


def test_a_doubt_is_told_and_is_no_loss() -> None:
    world = ReplacingWorld()
    for _ in range(3):
        world.commit()
        world.later(10)
    world.look()
    world.replace_snapshot(3, after_s=3600)
    report = world.maintain(is_due=True)
    assert (report.told_status, report.lost) == ("nothing_to_do", ())
    assert any("either somebody rolled the branch back" in each for each in report.all_warnings())
    assert world.maintain(is_due=True).all_warnings() == ()


@pytest.mark.parametrize("damage", [b"\0damaged", b"{}"])
@pytest.mark.parametrize("looks_between", [True, False])
def test_a_document_that_is_damaged_and_restored_is_no_lost_commit(damage: bytes, looks_between: bool) -> None:
    """Others commit meanwhile. The events of both objects come in any order."""
    world = ReplacingWorld()
    for _ in range(3):
        world.commit()
        world.later(100)
    world.look()
    whole = world.store.read("snapshot/snapshot-3").data
    world.store.put("snapshot/snapshot-3", damage)
    world.announce("main", 3)
    world.later(5)
    world.commit()
    if looks_between:
        world.deliver(keep=1)
        world.look()
    world.later(600)
    world.store.put("snapshot/snapshot-3", whole)
    world.announce("main", 3)
    world.deliver()
    world.sweep()
    world.look()
    assert (world.told.lost, world.told.doubts) == ([], [])


def test_a_request_that_fails_leaves_it_to_the_next_pass() -> None:
    world = ReplacingWorld()
    for _ in range(3):
        world.commit()
        world.later(10)
    world.look()
    world.replace_snapshot(3)
    report = world.maintain(Refusing(), is_due=True)
    assert report.lost == ()
    assert any("were not compared" in each for each in report.all_warnings())
    assert [each.now.id for each in world.look()] == [3]


class Refusing(Switch):
    """No document of a snapshot can be read."""

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if name.startswith("table read snapshot/"):
            raise StorageError(f"{name}: no answer")
        return super()._run(name, call)
