"""What other operations do with tables whose data files a compaction moved: manifests name such a file twice."""

from functools import cache

import pytest

from tests.support.keyed_world import CATALOG, KeyedWorld
from tests.support.reader import read_all
from tests.support.rows_read import read_rows


@cache
def made() -> KeyedWorld:
    """Return a table whose newest snapshot is a compaction; some files moved from level 0."""
    world = KeyedWorld()
    world.put({(dt, number): "old" for dt in "ab" for number in range(12)})
    assert world.merge(full=True).status == "done"
    for number in range(1, 5):
        world.put({("a", number): f"{number}", ("a", 2 * number): f"{number}", ("b", 100 + number): "new"})
        assert world.merge().status == "done"
    assert 2 in levels_of(world).values(), "a file has moved"
    return world


def levels_of(world: KeyedWorld) -> dict[str, int]:
    """Return data file -> number of levels on which it has been."""
    found: dict[str, set[int]] = {}
    for number in world.ids():
        for name, level in world.live(number).items():
            found.setdefault(name, set()).add(level)
    return {name: len(levels) for name, levels in found.items()}


@pytest.mark.parametrize("keep", [1, 2, 5, 9])
def test_expiry_keeps_what_snapshots_and_tags_need(keep: int) -> None:
    world = made().copy()
    rows = {number: world.seen(number) for number in world.ids()}
    world.run("create-tag", tag="t", snapshot=4, status="done")
    world.run("expire-snapshots", retain_max=keep, retain_min=1, status="done")
    assert len(world.ids()) == keep
    for number in world.ids():
        assert world.seen(number) == rows[number]
    world.now_ms += 3 * 86_400_000
    assert world.run("remove-orphan-files").status == "nothing_to_do"
    read_all(world.store)
    world.run("delete-tag", tag="t", status="done")
    world.run("expire-snapshots", retain_max=1, retain_min=1)
    needed = {path for needs in read_all(world.store).values() for path in needs.paths}
    assert {key for key in world.keys() - needed if "data-" in key or "manifest-" in key} == set()
    assert world.seen() == world.model


@pytest.mark.parametrize("as_latest", [False, True])
def test_rollbacks_bring_each_version_back(as_latest: bool) -> None:
    """Also one in which a file lies on its former level."""
    for number in made().ids()[1:-1]:
        world = made().copy()
        rows = world.seen(number)
        more = {"as_latest": True, **CATALOG} if as_latest else {}
        assert world.run("rollback", snapshot=number, **more).status == "done"
        assert world.seen() == rows
        assert {(row["dt"], row["id"]): row["v"] for row in read_rows(world.store)} == rows
        world.model = world.models[max(each for each in world.models if each <= number)]
        world.put({("a", 1): "later"})
        assert world.merge().status == "done"
        assert world.seen() == world.model
        world.run("expire-snapshots", retain_max=1, retain_min=1, status="done")
        read_all(world.store)
        assert world.seen() == world.model


def test_other_commits_keep_rows() -> None:
    world = made().copy()
    before = world.live()
    assert world.run("compact-manifest", **CATALOG).status == "done"
    assert world.run("clean-deletion-vectors", **CATALOG).status == "nothing_to_do"
    assert (world.live(), world.seen()) == (before, world.model)
    world.run("drop-partition", partition=["dt=a"], status="done", **CATALOG)
    assert world.seen() == {key: value for key, value in world.model.items() if key[0] == "b"}
