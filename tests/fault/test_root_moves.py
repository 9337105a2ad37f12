"""A branch moves while anything else happens, and while any request fails.

At each storage call in turn a run breaks, or somebody else acts. At every moment each root reads completely, and an
engine finds a newest snapshot. What a broken run leaves is finished by whichever operation runs next, to the same end.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.model.roots import branch_dir
from lakesweep.operations.undo.undo import undo
from tests.support.acting import Acting, Plays
from tests.support.content_store import ContentStore
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.support.memory_store import MemoryStore
from tests.support.moving import (
    GOING,
    MOVES,
    MovingWorld,
    assert_no_hole,
    assert_reads,
    check_files,
    check_moment,
    undisturbed,
)
from tests.support.reader import read_root


@pytest.mark.parametrize("operation", MOVES)
def test_each_prefix_is_a_table_that_reads(operation: str) -> None:
    calls, _ = undisturbed(operation, ContentStore)
    assert sum(call.startswith(("table put", "table delete")) for call in calls) > 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", MOVES)
def test_any_call_may_break(operation: str, mode: str) -> None:
    """The next operation, whichever it is, finishes what was begun; a plan that was not begun may be executed."""
    kind = ContentStore if mode in ("after", "death") else MemoryStore
    calls, end = undisturbed(operation, kind)
    for number in range(1 + MODES.index(mode) % EVERY, len(calls) + 1, EVERY):
        world, where = MovingWorld(operation, kind), f"{mode} {number} {calls[number - 1]}"
        before = world.documents()
        with suppress(ProcessDeathError, MaintenanceError):
            world.execute(Switch(number, mode))
        check_moment(world, GOING.get(operation))
        world.wait()
        is_begun = world.documents() != before
        world.finish()
        assert world.documents() == end or not is_begun, where
        assert world.execute().status in ("done", "nothing_to_do"), where
        assert world.documents() == end, where


def act_at(
    operation: str, act: Callable[[MovingWorld], object], *, kind: type[MemoryStore] = ContentStore, first: int = 1
) -> Iterator[tuple[MovingWorld, RunReport | None, str]]:
    """Carry a plan out while somebody acts before a call, once for each call; yield what came of it."""
    calls, _ = undisturbed(operation, kind)
    for number in range(first, len(calls) + 1, EVERY):
        world, where = MovingWorld(operation, kind), f"before {number} {calls[number - 1]}"
        report = None
        with suppress(MaintenanceError):
            report = world.execute(Acting(number, lambda world=world: act(world)))
        yield world, report, where


def assert_taken_back(world: MovingWorld, where: str) -> None:
    """What a stale plan leaves is what was there, but for snapshots whose ids somebody took, and those above."""
    now, before = world.documents(), world.before
    taken = min(int(path.rpartition("-")[2]) for path in world.committed)
    for path in before.keys() - now.keys():
        assert "snapshot/snapshot-" in path and int(path.rpartition("-")[2]) > taken, (where, path)
    changed = {path for path in before.keys() & now.keys() if before[path] != now[path]}
    assert {path for path in changed if not path.endswith(("LATEST", "EARLIEST"))} <= {*world.committed}, where
    new = {path for path in now.keys() - before.keys() if not path.endswith(("LATEST", "EARLIEST"))}
    assert all("snapshot/snapshot-" in path for path in new), (where, new)


BRANCHES = {"new branch": "new", "branch that goes": "b"}


@pytest.mark.parametrize("operation", MOVES)
def test_somebody_commits_at_any_call(operation: str) -> None:
    """The commit stays, on a history without a hole that finds it: the one of before, or what the branch moved to."""
    branch = BRANCHES.get(operation, "main")
    for world, report, where in act_at(operation, lambda world: world.commits(branch)):
        assert report is not None, where
        check_moment(world, GOING.get(operation))
        for path in world.committed:
            assert path in world.documents(), (where, report.refusal)
        if world.committed and operation != "branch that goes":
            newest = int(world.committed[0].rpartition("-")[2])
            ids = world.ids(f"{branch_dir(branch)}snapshot")
            assert world.latest(branch) == newest, (where, ids, report.refusal, report.status)
            assert_no_hole([i for i in ids if i >= 4]), where
        assert report.status in ("done", "stale"), where
        if report.status == "stale":
            assert_taken_back(world, where)
        world.wait()
        after = world.documents()
        world.finish()
        assert world.documents() == after, where


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward"])
def test_latest_names_a_commit_that_came_before_it_was_pointed_elsewhere(operation: str) -> None:
    """The writer has written the hint before the plan did, and does not write it again."""
    calls, _ = undisturbed(operation, ContentStore)
    point = calls.index("table put snapshot/LATEST") + 1
    world = MovingWorld(operation, ContentStore)
    report = world.execute(Acting(point, world.commits))
    assert report.status == "stale" and world.committed == ["snapshot/snapshot-8"]
    assert world.store.read("snapshot/LATEST").data == b"8"
    assert_taken_back(world, operation)


@pytest.mark.parametrize("tag", ["t3", "t6", "t7"])
@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward"])
def test_an_engine_deletes_a_tag_at_any_call_and_somebody_commits(operation: str, tag: str) -> None:
    """It takes files where the tag's snapshot is not there. What is taken back for the commit needs them."""
    calls, _ = undisturbed(operation, ContentStore)
    for number, pause in ((n, p) for n in range(1, len(calls) + 1, EVERY) for p in (0, 3)):
        world, where = MovingWorld(operation, ContentStore), f"before {number} and {pause} later: {calls[number - 1]}"
        acts = {number + pause: partial(world.write, 8, world.former_newest)}
        acts[number] = partial(_in_turn, partial(world.delete_tag, tag), acts.get(number))
        with suppress(MaintenanceError):
            world.execute(Plays(acts))
        world.wait()
        world.finish()
        assert_reads(world, where)


@pytest.mark.parametrize("tag", ["t3", "t6", "t7"])
@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward"])
def test_an_engine_deletes_a_tag_at_any_call_of_an_undo(operation: str, tag: str) -> None:
    """It returns after what needs its files has returned, or goes before."""

    def undone(world: MovingWorld, switch: Switch) -> None:
        run_id = world.execute().run_id
        assert run_id is not None
        with suppress(MaintenanceError):
            undo(world.maintainer(switch).table, run_id, execute=True)

    probe = Switch()
    undone(MovingWorld(operation, ContentStore), probe)
    for number in range(1, len(probe.calls) + 1, EVERY):
        world, where = MovingWorld(operation, ContentStore), f"before {number}: {probe.calls[number - 1]}"
        undone(world, Plays({number: partial(world.delete_tag, tag)}))
        world.wait()
        world.finish()
        assert_reads(world, where)


def _in_turn(*acts: Callable[[], object] | None) -> None:
    for act in acts:
        if act is not None:
            act()


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag"])
def test_a_writer_that_knows_the_former_newest_commits_at_any_call(operation: str) -> None:
    """It commits on top of what is going or gone. Unless that is after the last look, all of it is back."""
    calls, _ = undisturbed(operation, ContentStore)
    last_look = max(number for number, call in enumerate(calls, 1) if call == "table list snapshot/")
    for world, report, where in act_at(operation, lambda world: world.publish(8)):
        assert report is not None
        number = int(where.split()[1])
        if number <= last_look:
            assert report.status == "stale", where
            assert [i for i in world.ids() if i >= 4] == [4, 5, 6, 7, 8], (where, world.ids(), report.refusal)
            assert world.latest() == 8
            check_moment(world)


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward"])
def test_somebody_rolls_back_further_at_any_call(operation: str) -> None:
    """Theirs holds: nothing returns above it, and what is left has no hole."""
    for world, report, where in act_at(operation, lambda world: world.roll_back(4)):
        assert report is not None, where
        check_moment(world)
        if operation == "rollback":
            assert world.ids() == [4] or report.status == "done", (where, world.ids(), report)
        elif report.status == "stale":
            assert_no_hole([i for i in world.ids() if i >= 4])
        world.wait()
        world.finish()
        check_moment(world)


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward", "new branch"])
@pytest.mark.parametrize("end_id", [6, 7])
def test_an_engine_expires_at_any_call(operation: str, end_id: int) -> None:
    """It had chosen what to take before the plan began, so its files may be those of the target."""
    for world, report, where in act_at(operation, lambda world: world.others_expire(end_id)):
        assert report is not None, where
        number, calls = int(where.split()[1]), undisturbed(operation, ContentStore)[0]
        last_look = max(n for n, call in enumerate(calls, 1) if call == "table list snapshot/")
        if number <= last_look:
            check_files(world)
        world.wait()
        world.finish()


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward", "fast-forward without a base"])
def test_a_file_of_the_target_vanishes_at_any_call(operation: str) -> None:
    """All is taken back, and the refusal names the file."""
    calls, _ = undisturbed(operation, ContentStore)
    world = MovingWorld(operation)
    assert world.execute().status == "done"
    needs = read_root(world.store, f"snapshot/snapshot-{world.latest()}").paths
    path = max(key for key in needs if "/data-" in key)
    changed = max(n for n, call in enumerate(calls, 1) if call.startswith(("table put", "table delete")))
    verifying = min(
        n
        for n, call in enumerate(calls, 1)
        if n > changed and (call.startswith("table list page") or call == "table list ")
    )
    for world, report, where in act_at(operation, lambda world: world.lose(path)):
        number = int(where.split()[1])
        if number > verifying:
            continue
        assert report is not None and report.status == "stale" and report.refusal is not None, where
        assert report.refusal.code == "target_lost_files", where
        assert path in report.refusal.message, where
        assert without(world.documents(), path) == without(world.before, path), where


def without(documents: dict[str, bytes], path: str) -> dict[str, bytes]:
    return {key: data for key, data in documents.items() if key != path}
