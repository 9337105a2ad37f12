"""A run that moves a branch dies when the tags are gone, and others go on: they make a tag again, commit, expire, scan.

Tags go first and return last. So a tag that is there says little of how far the run came, and what needs the files of
one that is gone may be gone as well.
"""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.operations.undo.undo import undo
from tests.support.acting import Acting
from tests.support.content_store import ContentStore
from tests.support.every import EVERY
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.moving import MovingWorld, assert_reads, is_document, undisturbed
from tests.support.reader import all_roots, read_root

BACK = ["rollback", "rollback to a tag", "fast-forward"]


def left_behind(operation: str, every: int = 1) -> Iterator[tuple[MovingWorld, str]]:
    """Yield what a run leaves that dies at a call, once for each."""
    calls, _ = undisturbed(operation, ContentStore)
    for number in range(1, len(calls) + 1, every):
        world = MovingWorld(operation, ContentStore)
        with suppress(ProcessDeathError):
            world.execute(Switch(number, "death"))
        world.wait()
        yield world, f"{number}: {calls[number - 1]}"


def make_tag(world: MovingWorld, name: str, snapshot: str) -> bool:
    """Make a tag of a snapshot as the engine does, and tell whether it could be made."""
    there = world.documents()
    if name in there or snapshot not in there:
        return False
    world.store.put(name, there[snapshot])
    return True


def expire(world: MovingWorld, count: int) -> None:
    """Expire main but for its newest snapshots. What the roots need stays that are there; tags that went are not."""
    ids = world.ids()[-count:]
    needs = {root: read_root(world.store, root).paths for root in all_roots(world.store)}
    going = [root for root in needs if root.startswith("snapshot/") and int(root.rpartition("-")[2]) < ids[0]]
    kept = frozenset().union(*(paths for root, paths in needs.items() if root not in going))
    gone = frozenset().union(*(needs[root] for root in going)) - kept
    world.remove(*(path for path in gone if not is_document(path)), *going)


def scan(world: MovingWorld) -> None:
    """Take all files that no root needs."""
    kept = frozenset().union(*(read_root(world.store, root).paths for root in all_roots(world.store)))
    world.remove(*(path for path in world.documents() if not is_document(path) and path not in kept))


def test_a_tag_of_a_branch_that_goes_is_made_again() -> None:
    """The branch goes, or all of it is back: nobody made it anew while snapshots of it are left."""
    folder, count = "branch/branch-b/", 0
    for world, where in left_behind("branch that goes"):
        if make_tag(world, f"{folder}tag/tag-u5", f"{folder}snapshot/snapshot-5"):
            count += 1
            world.finish()
            left = {path for path in world.documents() if path.startswith(folder)}
            assert not left or world.documents() == world.before, where
    assert count


@pytest.mark.parametrize("number", [6, 7])
@pytest.mark.parametrize("operation", BACK)
def test_a_tag_is_made_again_before_an_undo_returns_it(operation: str, number: int) -> None:
    """The undo goes on to its end, and the tag stays."""
    path, snapshot = f"tag/tag-t{number}", f"snapshot/snapshot-{number}"
    probe, places = Switch(), 0
    world = MovingWorld(operation, ContentStore)
    undo(world.maintainer(probe).table, world.execute().run_id or "", execute=True)
    for at in range(probe.calls.index("table put snapshot/LATEST") + 2, len(probe.calls) + 1):
        world, where = MovingWorld(operation, ContentStore), f"{at}: {probe.calls[at - 1]}"
        run_id = world.execute().run_id
        with suppress(ProcessDeathError):
            undo(world.maintainer(Switch(at, "death")).table, run_id or "", execute=True)
        world.wait()
        if world.documents().get(snapshot) == world.before[snapshot] and make_tag(world, path, snapshot):
            places += 1
            world.finish()
            assert world.documents() == world.before, where
    assert places


@pytest.mark.parametrize(
    ("operation", "snapshot_id"),
    [("rollback", None), ("rollback to a tag", None), ("rollback to a tag", 5), ("fast-forward", 5)],
)
def test_tags_without_lists_do_not_return(operation: str, snapshot_id: int | None) -> None:
    """An orphan scan took them, after somebody rolled back, or not; and somebody committed with the ids of the tags."""
    for world, where in left_behind(operation, EVERY):
        if snapshot_id is not None:
            world.roll_back(snapshot_id)
        scan(world)
        for _ in range(3):
            world.commits()
        world.finish()
        assert_reads(world, where)


@pytest.mark.parametrize("commits", [0, 1])
@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag"])
def test_what_an_expiry_took_does_not_return(operation: str, commits: int) -> None:
    """The plan would have taken the oldest snapshots last: those above it are there, so somebody else took them."""
    for world, where in left_behind(operation, EVERY):
        expire(world, 3)
        for _ in range(commits):
            world.commits()
        world.finish()
        assert_reads(world, where)


@pytest.mark.parametrize("commits", [0, 1])
@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag"])
def test_an_expiry_at_any_call_takes_what_a_tag_held_that_went(operation: str, commits: int) -> None:
    """The tag does not return when its lists are gone."""
    calls, _ = undisturbed(operation, ContentStore)
    for number in range(1, len(calls) + 1, EVERY):
        world, where = MovingWorld(operation, ContentStore), f"before {number}: {calls[number - 1]}"

        def act(world: MovingWorld = world) -> None:
            for _ in range(commits):
                world.commits()
            expire(world, 2)

        with suppress(MaintenanceError):
            world.execute(Acting(number, act))
        assert_reads(world, where)
