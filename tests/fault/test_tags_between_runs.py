"""A run that moves a branch dies when the tags are gone, and others go on: they make a tag again, commit, expire, scan.

Tags go first and return last. So a tag that is there says little of how far the run came, and what needs the files of
one that is gone may be gone as well.
"""

from collections.abc import Iterator
from contextlib import suppress

from tests.fault.test_attacks import ContentStore
from tests.fault.test_root_moves import undisturbed
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.moving import MovingWorld


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
