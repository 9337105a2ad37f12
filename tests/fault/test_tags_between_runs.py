"""A run that moves a branch dies when the tags are gone, and others go on: they make a tag again, commit, expire, scan.

Tags go first and return last. So a tag that is there says little of how far the run came, and what needs the files of
one that is gone may be gone as well.
"""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from lakesweep.operations.undo import undo
from tests.fault.test_attacks import ContentStore
from tests.fault.test_root_moves import undisturbed
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.moving import MovingWorld

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
