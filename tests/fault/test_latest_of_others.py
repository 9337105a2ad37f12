"""LATEST while others commit: an engine goes by it unless there is a snapshot right after."""

import json
from functools import partial

import pytest

from lakesweep.storage.store import Store
from tests.support.acting import Acting, Plays
from tests.support.content_store import ContentStore
from tests.support.every import EVERY
from tests.support.fast_forwards import HOUR_MS, LATEST, ForwardWorld, after_planning, calls, documents, writes
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.moving import MovingWorld, check_files, is_tag, undisturbed
from tests.support.reader import read_all


def newest(store: Store) -> int:
    """Return the newest snapshot as an engine finds it."""
    ids = {int(entry.key.rpartition("-")[2]) for entry in store.list("snapshot/") if "snapshot-" in entry.key}
    hint = int(store.read(LATEST).data)
    return hint if hint > 0 and hint + 1 not in ids else max(ids)


def commit(store: Store, made: list[str]) -> None:
    """Commit as an engine does, on the newest snapshot that it finds."""
    base = newest(store)
    document = json.loads(store.read(f"snapshot/snapshot-{base}").data) | {"id": base + 1, "commitUser": "other"}
    store.put(f"snapshot/snapshot-{base + 1}", json.dumps(document).encode(), if_absent=True)
    store.put(LATEST, str(base + 1).encode())
    made.append(f"snapshot/snapshot-{base + 1}")


@pytest.mark.parametrize("scene", ["below", "rebuilt_shorter", "diverged", "expired_base"])
@pytest.mark.parametrize("gap", [1, 2, 3])
def test_the_newer_of_two_commits_is_found(scene: str, gap: int) -> None:
    """The second follows on the first, so none of them hides the other."""
    names = calls(scene)
    for at in after_planning(names)[::EVERY]:
        world, made = ForwardWorld(scene), list[str]()
        act = partial(commit, world.store, made)
        report = world.forward(Plays({at: act, at + gap: act}))
        there, about = documents(world.store), (at, names[at - 1], report.status, report.refusal)
        assert made and all(path in there for path in made), about
        assert f"snapshot/snapshot-{newest(world.store)}" == made[-1], about
        ids = [int(path.rpartition("-")[2]) for path in made]
        assert ids == [*range(ids[0], ids[0] + len(ids))], about
        read_all(world.store)


@pytest.mark.parametrize(("scene", "count"), [("below", 1), ("below", 3), ("far_ahead", 1)])
def test_who_finishes_a_move_takes_what_would_hide_commits_since(scene: str, count: int) -> None:
    """There is a hole above the branch's newest snapshot: others go on from it, until they meet what is still there."""
    for at in (n for n in writes(scene) if calls(scene)[n - 1].startswith("table delete")):
        world, made = ForwardWorld(scene), list[str]()
        with pytest.raises(ProcessDeathError):
            world.forward(Switch(at, "death"))
        for _ in range(count):
            commit(world.store, made)
        world.now_ms += HOUR_MS
        Maintainer(world.store, control=world.control).run("delete-tag", tag="nothing")
        commit(world.store, made)
        theirs = {path for path in world.expected() if path.startswith("snapshot/snapshot-")}
        assert {path for path in documents(world.store) if path.startswith("snapshot/snapshot-")} == theirs | {*made}, (
            at
        )
        newest = max(int(path.rpartition("-")[2]) for path in theirs)
        assert made == [f"snapshot/snapshot-{newest + i}" for i in range(1, count + 2)], at
        read_all(world.store)


class RollingBack:
    """An engine that rolls main back to snapshot 4: LATEST first, then snapshots from the newest down, then tags."""

    def __init__(self, world: MovingWorld) -> None:
        self._world = world
        self._going: list[int] = []

    def begin(self) -> None:
        """Write LATEST, and take the newest snapshot."""
        self._going = [i for i in self._world.ids() if i > 4]
        self._world.store.put(LATEST, b"4")
        self._take()

    def end(self) -> None:
        """Take the rest."""
        while self._going:
            self._take()
        world = self._world
        world.remove(*(key for key, data in world.documents().items() if is_tag(key) and json.loads(data)["id"] > 4))

    def _take(self) -> None:
        self._world.remove(f"snapshot/snapshot-{self._going.pop()}")


@pytest.mark.parametrize("kind", [MemoryStore, ContentStore])
@pytest.mark.parametrize("operation", ["rollback", "fast-forward"])
def test_a_rollback_of_an_engine_that_ends_after_ours(operation: str, kind: type[MemoryStore]) -> None:
    """It has begun before our LATEST: that is its own then, and what it took does not return above what it takes."""
    names, _ = undisturbed(operation, kind)
    begun = names.index("control put " + next(n for n in names if n.endswith("lease.json")).split()[2])
    for at in range(begun, names.index(f"table put {LATEST}") + 2):
        world = MovingWorld(operation, kind)
        other = RollingBack(world)
        report = world.execute(Acting(at, other.begin))
        other.end()
        world.wait()
        assert world.finish().status == "nothing_to_do"
        about = (at, names[at - 1], report.status, report.refusal)
        assert report.status == "stale" and world.latest() == world.ids()[-1] == 4, about
        world.commits()
        assert world.latest() == 5, about
        check_files(world)
