"""LATEST while others commit: an engine goes by it unless there is a snapshot right after."""

import json
from functools import partial

import pytest

from lakesweep.storage.store import Store
from tests.fault.test_fast_forward import World, after_planning, calls
from tests.support.acting import Plays
from tests.support.every import EVERY
from tests.support.fast_forwards import LATEST, documents
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
        world, made = World(scene), list[str]()
        act = partial(commit, world.store, made)
        report = world.forward(Plays({at: act, at + gap: act}))
        there, about = documents(world.store), (at, names[at - 1], report.status, report.refusal)
        assert made and all(path in there for path in made), about
        assert f"snapshot/snapshot-{newest(world.store)}" == made[-1], about
        ids = [int(path.rpartition("-")[2]) for path in made]
        assert ids == [*range(ids[0], ids[0] + len(ids))], about
        read_all(world.store)
