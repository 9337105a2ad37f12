"""Where values of erased rows are, beside a search of every byte of the table."""

from random import Random

import pytest

from lakesweep.model.erasure.places import ErasedFiles, Place
from tests.support.erasure_world import ErasureWorld
from tests.support.world import HOUR_MS

MARKER = 770_077_007
STEPS = ("append", "append", "mark", "delete", "compact", "merge", "tag", "branch", "orphan", "manifests", "expire")
KINDS = {"manifest/manifest-list": "manifest_list", "manifest/manifest": "manifest", "statistics/": "statistics"}


class History:
    """A random table in which some rows are the marker's."""

    def __init__(self, seed: int) -> None:
        self.random, self.world, self.number = Random(seed), ErasureWorld(), 0
        self.act("append")
        self.act("mark")

    def run(self) -> None:
        for _ in range(self.random.randint(3, 12)):
            self.act(self.random.choice(STEPS))

    def act(self, kind: str) -> None:
        world, random = self.world, self.random
        self.number += 1
        world.now_ms += HOUR_MS
        day = random.choice("de")
        ids = [self.number * 1000 + each for each in range(random.randint(1, 4))]
        match kind:
            case "append":
                world.append(*ids, dt=day)
            case "mark":
                world.append(*ids, MARKER, dt=day)
            case "delete":
                world.delete(f"id = {MARKER}")
            case "compact":
                by_day = {day: [name for name in world.live() if world.files[name].partition == (day,)] for day in "de"}
                if any(by_day.values()):
                    world.compact(*next(names for names in by_day.values() if names))
            case "merge":
                world.merge()
                world.know()
            case "tag":
                world.tag(f"t{self.number}")
            case "branch":
                world.branch_off(f"b{self.number}")
            case "orphan":
                path = random.choice(sorted(key for key in world.etags() if key.endswith(".parquet")))
                folder = path.rpartition("/")[0]
                name = f"data-00000000-0000-0000-0000-{self.number:012}-0.parquet"
                world.store.put(f"{folder}/{name}", world.store.read(path).data)
            case "manifests":
                world.run("compact-manifest", catalog_type="filesystem", catalog_lock=True)
            case "expire":
                world.expire(random.randint(1, 3), status="done") if len(world.ids()) > 3 else None

    def check(self, erased: ErasedFiles) -> None:
        """Every object with the marker is in a place, and no place is certain without it."""
        world = self.world
        places = world.look(erased)
        named = {path for place in places if place.state != "gone" for path in place.paths}
        kinds = {place.kind for place in places if place.state != "gone"}
        for key in world.grep(MARKER):
            kind = next((kind for begin, kind in KINDS.items() if key.startswith(begin)), "data_file")
            full = any(place.count > len(place.paths) for place in places)
            assert key in named or (full and kind in kinds), (key, places)
        for place in places:
            if place.state == "there" and place.kind == "data_file":
                assert all(world.has(path, MARKER) for path in place.paths)
            if place.state == "there" and place.kind in ("snapshot", "tag"):
                for path in place.paths:
                    assert self.needs_marker(path), (path, place)
        assert not world.grep_control(MARKER) or "control" in kinds

    def needs_marker(self, path: str) -> bool:
        world = self.world
        copy = world.copy()
        copy.store.put("snapshot/snapshot-900", world.store.read(path).data)
        files = [key for name in copy.live(900) for key in world.etags() if key.endswith(f"/{name}")]
        return any(world.has(key, MARKER) for key in files)


def kinds_of(places: list[Place]) -> set[str]:
    return {place.kind for place in places}


@pytest.mark.parametrize("seed", range(60))
def test_random_tables(seed: int) -> None:
    history = History(seed)
    history.run()
    history.check(history.world.search(f"id = {MARKER}"))


def test_from_a_deletion_to_the_last_place() -> None:
    """Each step of an erasure ends the places that it is for."""
    world = ErasureWorld()
    where = f"id = {MARKER}"
    first, second = world.append(1, MARKER, 3), world.append(4, 5)
    world.tag("t")
    world.deleted(where)
    world.merge(full=True)
    erased = world.search(where)
    since = world.now_ms
    assert erased.holds == {first}
    assert world.left(erased, since=since) == {
        "snapshot": "there", "tag": "there", "data_file": "there", "manifest": "unknown",
    }  # fmt: skip
    world.run("compact-manifest", catalog_type="filesystem", catalog_lock=True)
    world.now_ms += HOUR_MS
    world.expire()
    assert world.left(erased, since=since) == {
        "tag": "there", "data_file": "there", "manifest": "unknown", "control": "unknown",
    }  # fmt: skip
    world.run("delete-tag", tag="t", status="done")
    assert world.grep(MARKER) == set()
    assert world.left(erased, since=since) == {} and not world.grep_control(MARKER)
    assert kinds_of(world.look(erased)) >= {"snapshot", "tag", "changelog", "data_file", "noncurrent", "manifest"}
    assert second not in erased.names
