"""What readers of a root would not find."""

from collections.abc import Mapping
from typing import Any

import pytest

from lakesweep.errors import LeaseLostError, ObjectNotFoundError, RefusedError
from lakesweep.model.roots import Root
from lakesweep.storage.store import Body
from lakesweep.table import metadata
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach import completeness
from lakesweep.table.reach.completeness import first_missing, lost_files
from lakesweep.table.stores import OutsideFiles
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder


class Scene:
    """A table in which each root has something of every kind."""

    def __init__(self, **options: str) -> None:
        self.store = MemoryStore("memory://bucket/t")
        self.outside = MemoryStore("memory://outside")
        self.table = table = TableBuilder(
            self.store,
            partition_keys=("dt",),
            options=options or {"changelog-producer": "input"},
            externals={"s3://outside/files": self.outside},
        )
        table.commit("+A", "+B", partition=("d1",), statistics="s1", index={"i1": {"B": (1,)}}, changelog=["+A"])
        table.commit(
            "-A",
            "+C",
            "+X",
            partition=("d1",),
            extra={"C": ("x.index",)},
            external={"X": "s3://outside/files/x.parquet"},
            changelog=["+C"],
        )
        table.tag("t", snapshot=1)
        table.changelog_document(1)
        table.commit("+D", "-B", partition=("d2",))

    def root(self, path: str) -> Root:
        listing = discover(self.store)
        return read_roots(self.store, [ref for ref in listing.roots() if ref.path == path]).roots[0]

    def lost(self, *paths: str, limit: int = 10, asks_outside: bool = False) -> tuple[str, ...]:
        listing = discover(self.store)
        outside = {entry.key for entry in self.outside.list("")}
        return lost_files(
            self.store,
            read_schema(self.store, listing.branches["main"]),
            [self.root(path) for path in paths],
            limit,
            (lambda path: path.removeprefix("s3://outside/files/") in outside) if asks_outside else None,
        )


ALL = ("snapshot/snapshot-1", "snapshot/snapshot-2", "snapshot/snapshot-3", "tag/tag-t", "changelog/changelog-1")


def test_nothing_is_lost_of_a_whole_table() -> None:
    """Whatever kind of root is asked about, alone or with others."""
    scene = Scene()
    for path in ALL:
        assert scene.lost(path, asks_outside=True) == ()
    assert scene.lost(*ALL) == ()
    assert scene.lost() == ()


@pytest.mark.parametrize("root", ALL)
def test_every_file_that_a_root_needs_is_missed(root: str) -> None:
    """Of the state of snapshots and tags, and of the changes of changelogs."""
    table = Scene().table
    model = table.model(root)
    needed = model.needs("changelog" if root.startswith("changelog") else "tag", has_producer=True)
    assert len(needed) > 2
    for path in sorted(needed):
        if "://" in path:
            continue
        scene = Scene()
        scene.table.remove(path)
        assert scene.lost(root) == (path,), path


def test_the_changelog_of_a_snapshot_may_be_gone() -> None:
    """Expiry takes that of a tagged snapshot, and the table is whole without."""
    scene = Scene()
    for path in scene.table.referenced(ALL[0]) - scene.table.referenced(ALL[0], with_changelog=False):
        scene.table.remove(path)
    assert scene.lost("snapshot/snapshot-1", "tag/tag-t") == ()
    assert scene.lost("changelog/changelog-1") != ()


def test_a_file_that_another_root_has_deleted_is_not_missed() -> None:
    """Only what the asked roots need counts."""
    scene = Scene()
    scene.table.remove("A")
    assert scene.lost("snapshot/snapshot-2", "snapshot/snapshot-3") == ()
    assert scene.lost("snapshot/snapshot-2", "snapshot/snapshot-1") == (scene.table.path("A"),)


def test_damage_is_a_sentence() -> None:
    """A list, a manifest and an index manifest that are there and cannot be read."""
    for number, field in enumerate(("deltaManifestList", "indexManifest")):
        scene = Scene()
        name = scene.table.document("snapshot/snapshot-2")[field]
        scene.table.corrupt(f"manifest/{name}")
        (problem,) = scene.lost("snapshot/snapshot-2")
        assert name in problem and " " in problem, number
    scene = Scene()
    manifest = scene.table.model("snapshot/snapshot-2").delta[0].name
    scene.table.corrupt(f"manifest/{manifest}")
    (problem,) = scene.lost("snapshot/snapshot-2")
    assert manifest in problem and " " in problem


def test_files_outside_are_asked_for_where_somebody_knows() -> None:
    """A store of their own says whether they are there."""
    scene = Scene()
    scene.table.remove("X")
    assert scene.lost("snapshot/snapshot-2") == ()
    assert scene.lost("snapshot/snapshot-2", asks_outside=True) == ("s3://outside/files/x.parquet",)


def test_not_more_are_named_than_asked_for() -> None:
    """A target may have lost a million files."""
    scene = Scene()
    for symbol in "BC":
        scene.table.remove(symbol)
    assert len(scene.lost("snapshot/snapshot-2", limit=1)) == 1
    assert set(scene.lost("snapshot/snapshot-2")) == {scene.table.path("B"), scene.table.path("C")}


def test_a_changelog_without_a_producer_needs_what_its_commit_wrote() -> None:
    """Not what compaction rewrote, and not its base."""
    scene = Scene(bucket="-1")
    table = scene.table
    table.commit("+E", partition=("d1",))
    table.commit("-E", "+F@5", partition=("d1",), kind="COMPACT", file_source={"F": 1})
    for number in (4, 5):
        table.changelog_document(number)
    table.remove("F")
    assert scene.lost("changelog/changelog-4", "changelog/changelog-5") == ()
    table.remove("E")
    assert scene.lost("changelog/changelog-4", "changelog/changelog-5") == (table.path("E"),)


def test_an_option_that_hides_where_files_lie_is_a_sentence() -> None:
    """Nobody can tell what is there."""
    scene = Scene()
    scene.table.alter(options={"data-file.path-directory": "../x"})
    (problem,) = scene.lost("snapshot/snapshot-2")
    assert "data-file.path-directory" in problem


@pytest.mark.parametrize(("more", "asked"), [(0, 1), (2000, 3)])
def test_each_page_of_the_listing_asks_whether_to_go_on(more: int, asked: int) -> None:
    """Who looks for files for minutes has to know that the lease is still its own."""
    scene, calls = Scene(), []
    for number in range(more):
        scene.store.put(f"elsewhere/{number}", b"")
    schema = read_schema(scene.store, discover(scene.store).branches["main"])
    assert lost_files(scene.store, schema, [scene.root(ALL[0])], check=lambda: calls.append(1)) == ()
    assert len(calls) == asked

    def lose_the_lease() -> None:
        raise LeaseLostError("another run has it")

    with pytest.raises(LeaseLostError):
        lost_files(scene.store, schema, [scene.root(ALL[0])], check=lose_the_lease)


def test_files_beside_a_manifest_are_needed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists name them; nothing that we know of writes them yet."""

    class Reader(MetadataReader):
        def manifest_lists(self, wanted: Mapping[str, int | None]) -> Mapping[str, Any]:
            found = super().manifest_lists(wanted)
            return {
                name: tuple(meta._replace(extra_files=(f"{meta.file_name}.idx",)) for meta in content)
                for name, content in found.items()
                if not isinstance(content, Unreadable)
            }

    scene = Scene()
    monkeypatch.setattr(completeness, "MetadataReader", Reader)
    lost = scene.lost(ALL[1])
    assert lost
    assert all(path.startswith("manifest/manifest-") and path.endswith(".idx") for path in lost)
    assert first_of(scene, ALL[1]) == f"snapshot 2: {lost[0]} does not exist"


class VanishingStore(MemoryStore):
    """A store whose manifests vanish after a number of reads."""

    def __init__(self, store: MemoryStore, reads: int) -> None:
        self.__dict__.update(store.__dict__)
        self.reads = reads

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        if key.startswith("manifest/manifest-") and "manifest-list" not in key:
            self.reads -= 1
            if self.reads < 0:
                raise ObjectNotFoundError(key)
        return super().read(key, max_bytes)


def test_a_manifest_that_vanishes_between_two_readings_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files could not be looked for, so the root must not count as complete."""
    monkeypatch.setattr(metadata, "BODY_CACHE_BYTES", 0)
    scene = Scene()
    assert scene.lost(ALL[0]) == ()
    scene.store = VanishingStore(scene.store, reads=1)
    lost = scene.lost(ALL[0])
    assert len(lost) == 1
    assert lost[0].startswith("manifest/manifest-")


def test_files_outside_cost_one_listing_of_each_root() -> None:
    """However many are asked for, and none before the first one is."""
    scene, opened = Scene(), []

    def open_store(location: str) -> MemoryStore:
        opened.append(location)
        return scene.outside

    switch = Switch()
    ask = OutsideFiles(FaultyStore(scene.store, switch, "table"), open_store)
    assert (switch.calls, opened) == ([], [])
    path = scene.table.path("X")
    assert ask(path)
    made = len(switch.calls)
    assert not ask(path.replace("x.parquet", "y.parquet"))
    scene.outside.put("y.parquet", b"")
    assert not ask(path.replace("x.parquet", "y.parquet"))
    assert (len(switch.calls), len(opened)) == (made, 1)
    with pytest.raises(RefusedError):
        ask("s3://nowhere/else.parquet")


def first_of(scene: Scene, root: str) -> str | None:
    """Return what would keep a root from coming back."""
    there = {entry.key for entry in scene.store.list("")}
    schema = read_schema(scene.store, discover(scene.store).branches["main"])
    return first_missing(
        scene.store,
        TablePaths(schema),
        [scene.root(root)],
        lambda path: path in there or "://" in path,
        lambda _: False,
        changelogs_need_delta=False,
    )


@pytest.mark.parametrize("root", ALL)
def test_nothing_comes_back_without_one_of_its_files(root: str) -> None:
    """Statistics, extra files and index files are among them."""
    whole = Scene()
    assert first_of(whole, root) is None
    needed = whole.table.model(root).needs("changelog" if root.startswith("changelog") else "tag", has_producer=True)
    for path in sorted(path for path in needed if "://" not in path):
        scene = Scene()
        scene.table.remove(path)
        found = first_of(scene, root)
        assert found is not None and path in found, path
