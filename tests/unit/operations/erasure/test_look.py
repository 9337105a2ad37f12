"""Where values of erased rows are, beside a search of every byte of the table."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from lakesweep.errors import StorageError
from lakesweep.model.erasure.places import ErasedFiles, Place
from lakesweep.operations.erasure.places.look import look
from lakesweep.runs.view import begin
from lakesweep.storage.local.store import LocalStore
from tests.support.erasure_world import ErasureWorld
from tests.support.faulty_store import Switch
from tests.support.maintenance import Maintainer
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


def test_old_versions_in_the_bucket() -> None:
    """What an expiry deletes remains as an old version, and without the right to list versions nobody knows."""
    world = ErasureWorld(versioned=True)
    first = world.append(1, MARKER)
    world.append(4, 5)
    world.deleted(f"id = {MARKER}")
    world.merge(full=True)
    erased = world.search(f"id = {MARKER}")
    assert "noncurrent" not in world.left(erased)
    world.now_ms += HOUR_MS
    world.expire()
    found = {place.words: place for place in world.look(erased) if place.kind == "noncurrent"}
    old = found["old versions of data files with such rows"]
    assert (old.state, old.count, old.paths) == ("there", 1, (world.files[first].path,))
    assert found["old versions of manifests and other metadata"].state == "unknown"
    assert "data_file" not in world.left(erased)
    calls = Switch()
    world.look(erased, calls)
    denied = world.look(erased, Switch(calls.calls.index("table list versions") + 1))
    (place,) = (place for place in denied if place.kind == "noncurrent")
    assert place.state == "unknown" and "broken on purpose" in (place.why or "")
    assert not any(place.kind == "data_file" and place.state == "there" for place in denied)


def test_values_of_partition_keys() -> None:
    """If the condition names partition keys, manifests certainly have such values, and so have names of folders."""
    world = ErasureWorld()
    world.append(1, dt="secret")
    world.append(2, dt="other")
    world.deleted("dt = 'secret'")
    erased = world.search("dt = 'secret'")
    found = world.left(erased, keys=("dt",))
    assert found == {
        "snapshot": "there", "data_file": "there", "manifest": "there", "manifest_list": "unknown",
        "partition_name": "there", "control": "unknown",
    }  # fmt: skip
    assert not any("secret" in repr(place) for place in world.look(erased, keys=("dt",)))
    assert "secret" not in str(erased.to_json())
    world.run("compact-manifest", catalog_type="filesystem", catalog_lock=True)
    world.now_ms += HOUR_MS
    world.expire()
    world.without_control()
    assert world.left(erased, keys=("dt",)) == {}
    world.store.put("dt=secret/note.txt", b"x")
    assert world.left(erased, keys=("dt",)) == {"other_object": "unknown"}


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("statistics/stat-00000000-0000-0000-0000-000000000001-0", b'{"colStats": {"v": {"min": "a"}}}', "statistics"),
        ("statistics/stat-00000000-0000-0000-0000-000000000001-0", b"{", "statistics"),
        ("statistics/stat-00000000-0000-0000-0000-000000000001-0", b'{"colStats": {"v": {"nullCount": 1}}}', None),
        ("metadata/v1.metadata.json", b"{}", "iceberg"),
        ("index/btree-global-index-00000000-0000-0000-0000-000000000001.index", b"x", "global_index"),
        ("index/index-00000000-0000-0000-0000-000000000001-0", b"x", None),
        ("dt=d/bucket-0/FILE.index", b"x", "file_index"),
        ("dt=d/bucket-0/data-00000000-0000-0000-0000-000000000001-0.parquet", b"x", "orphan"),
        ("dt=d/bucket-0/notes.txt", b"x", "other_object"),
        ("snapshot/.snapshot-9.00000000-0000-0000-0000-000000000001.tmp", b"x", None),
        ("manifest/manifest-00000000-0000-0000-0000-000000000001-0", b"x", "manifest"),
    ],
)
def test_other_objects(path: str, body: bytes, kind: str | None) -> None:
    world = ErasureWorld()
    name = world.append(1, 2)
    erased = ErasedFiles(0, frozenset((name,)), heads=world.search("id = 1").heads)
    before = world.left(erased)
    world.store.put(path.replace("FILE", name), body)
    assert world.left(erased) == before | ({} if kind is None else {kind: "unknown"})
    if kind in ("statistics", "orphan"):
        assert world.left(erased, since=world.now_ms - 48 * HOUR_MS) == before, "written long after the erasure"


def test_a_branch_that_copies_the_rows() -> None:
    """A compaction of another branch writes the rows into a file that nobody has searched."""
    world = ErasureWorld()
    world.append(1, MARKER)
    world.branch_off("b")
    world.deleted(f"id = {MARKER}")
    world.merge(full=True)
    erased, since = world.search(f"id = {MARKER}"), world.now_ms
    assert erased.open == {"b"}
    newest = world.store.read(f"snapshot/snapshot-{world.ids()[-1]}").data  # as if a compaction of b had written it
    document = json.loads(newest) | {"id": 2, "uuid": "another"}
    world.store.put("branch/branch-b/snapshot/snapshot-2", json.dumps(document).encode())
    found = {place.words: place.state for place in world.look(erased, since=since) if place.kind == "snapshot"}
    assert found["snapshot 2 of branch b"] == "unknown"
    assert world.search(f"id = {MARKER}").open == frozenset()


def test_no_failed_read_makes_a_place_clean() -> None:
    """Whatever request fails, the look fails, or no place is gone that is not."""
    world = ErasureWorld()
    world.append(1, MARKER)
    world.tag("t")
    world.deleted(f"id = {MARKER}")
    world.merge(full=True)
    world.store.put("statistics/stat-00000000-0000-0000-0000-000000000001-0", b'{"colStats": {"v": {"min": "a"}}}')
    world.store.put("manifest/manifest-00000000-0000-0000-0000-000000000001-0", b"x")
    erased, calls = world.search(f"id = {MARKER}"), Switch()
    whole = world.left(erased, calls)
    completed = 0
    for at in range(1, len(calls.calls) + 1):
        try:
            found = world.left(erased, Switch(at))
        except StorageError:
            continue
        completed += 1
        assert found.keys() >= whole.keys(), (calls.calls[at - 1], found)
    assert completed >= 3


def test_empty_folders_on_local_disks(tmp_path: Path) -> None:
    """A folder of a partition may stay when its last file has gone, and its name is a value."""
    world = ErasureWorld()
    world.append(1, dt="d")
    erased = world.search("dt = 'x'")
    store = LocalStore(str(tmp_path / "t"))
    for key, body in world.bodies().items():
        store.put(key, body)
    (tmp_path / "t/dt=secret/bucket-0").mkdir(parents=True)
    found = look(begin(Maintainer(store).table, "erase"), erased, keys=("dt",))
    (place,) = (place for place in found if place.kind == "partition_name")
    assert (place.words, place.state, place.count) == ("empty folders of partitions", "unknown", 1)
    assert "secret" not in repr(found)
    (tmp_path / "t/dt=secret/bucket-0").rmdir()
    (tmp_path / "t/dt=secret").rmdir()
    found = look(begin(Maintainer(store).table, "erase"), erased, keys=("dt",))
    assert [place.state for place in found if place.kind == "partition_name"] == ["gone"]


def test_each_document_is_read_once() -> None:
    """A look reads roots, lists, manifests, statistics and the cache, and lists the table and old caches once."""
    world = ErasureWorld()
    for number in range(6):
        world.append(number * 10, MARKER)
    world.tag("t")
    world.run("compact-manifest", catalog_type="filesystem", catalog_lock=True)
    world.store.put("statistics/stat-00000000-0000-0000-0000-000000000001-0", b'{"colStats": {"v": {"min": "a"}}}')
    erased, calls = world.search(f"id = {MARKER}"), Switch()
    view = begin(world.without_control().maintainer(calls).table, "erase")
    before = len(calls.calls)
    look(view, erased)
    made = Counter(call.partition("-")[0] for call in calls.calls[before:])
    assert made == {
        "table read snapshot/snapshot": 7, "table read tag/tag": 1, "table read manifest/manifest": 21,
        "table read statistics/stat": 1, "table list versions": 1, "table list page of ": 2, "table list consumer/": 1,
        "control read tables/bucket": 1, "control list versions": 1,
    }  # fmt: skip
    reads = [call for call in calls.calls[before:] if " read " in call]
    assert len(set(reads)) == len(reads)
