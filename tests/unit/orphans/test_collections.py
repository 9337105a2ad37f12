"""One collection of roots misses no reference that moves as writers move them; several miss none that moves twice."""

from collections.abc import Callable

import pytest

from lakesweep.storage.store import Store
from lakesweep.table.discover import TableListing
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.capture import Capture
from lakesweep.table.reach.live_set import LiveSet
from tests.support.metadata_files import stable_uuid
from tests.support.orphan_scene import OrphanScene
from tests.support.paged_store import PagedStore
from tests.support.table_builder import TableBuilder

Steps = tuple[Callable[[], object], Callable[[], object]]
"""A new root is made, and the old one goes."""


def _only_the_first_names(table: TableBuilder) -> None:
    """Make A a file that only the first of these snapshots names."""
    table.commit("+A", "+C")
    table.commit("-A", "+B")
    table.merge_manifests()
    table.remove(table.root(2))


def _rolled_over(table: TableBuilder) -> Steps:
    """10 comes before 9 in a listing; who has come to what a writer left between the two does not see it."""
    table.store.put(f"snapshot/snapshot-5{stable_uuid('temp')}.tmp", b"{}")
    table.commit("+A", snapshot_id=9)
    return lambda: table.commit("+B"), lambda: table.remove("snapshot/snapshot-9")


def _next(table: TableBuilder) -> Steps:
    table.commit("+A")
    return lambda: table.commit("+B"), lambda: table.remove("snapshot/snapshot-1")


def _tagged(table: TableBuilder) -> Steps:
    _only_the_first_names(table)
    return lambda: table.tag("a", snapshot=1), lambda: table.remove("snapshot/snapshot-1")


def _changelog(table: TableBuilder) -> Steps:
    _only_the_first_names(table)
    return lambda: table.changelog_document(1), lambda: table.remove("snapshot/snapshot-1")


def _changelog_of_a_branch(table: TableBuilder) -> Steps:
    branch = table.branch("b")
    _only_the_first_names(branch)
    table.commit("+M")
    path = "branch/branch-b/snapshot/snapshot-1"
    return lambda: branch.changelog_document(1), lambda: table.remove(path)


def _fast_forward(table: TableBuilder) -> Steps:
    branch = table.branch("b")
    _only_the_first_names(branch)
    table.commit("+M")

    def drop() -> None:
        for root in [root for root in table.roots() if root.startswith("branch/")]:
            table.remove(root)

    return lambda: table.fast_forward("b"), drop


MOVES = (_rolled_over, _next, _tagged, _changelog, _changelog_of_a_branch, _fast_forward)


def _capture(store: Store) -> Capture:
    return Capture(store, MetadataReader(store), lambda s: None, LiveSet(), {}, TableListing({}), lambda listing: None)


@pytest.mark.parametrize("later", [0, 1, 2, 4])
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__.strip("_"))
def test_one_collection_sees_what_moves_forward(move: Callable[[TableBuilder], Steps], later: int) -> None:
    """At each request in turn; a root that was listed and is gone when it is read asks for another collection."""
    at, calls = 0, 1
    while calls >= at:
        at, calls = at + 1, 0
        scene = OrphanScene()
        make, take = move(scene.table)

        def before(request: str, at: int = at, make: Callable[[], object] = make, take: object = take) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                make()
            if calls == at + later:
                assert callable(take)
                take()

        found = _capture(PagedStore(scene.store, before, 1))
        found.collect()
        name = scene.table.path("A").rpartition("/")[2]
        is_whole = all(ref.path in found.live.captured for ref in found.listing.roots())
        assert found.live.has(name) or not is_whole, (at, sorted(found.live.captured))
    assert at > 8


def test_a_tag_that_is_replaced_in_place_is_another_root() -> None:
    scene = OrphanScene()
    table = scene.table
    _only_the_first_names(table)
    body = scene.store.read("snapshot/snapshot-1").data
    table.tag("t", snapshot=3)
    table.remove("snapshot/snapshot-1")
    found = _capture(scene.store)
    assert not found.collect()
    assert found.collect()
    scene.store.put("tag/tag-t", body)
    assert not found.collect()
    assert found.live.has(table.path("A").rpartition("/")[2])


def test_a_reference_that_moves_twice_behind_the_listing() -> None:
    """From tag to tag in the first collection and to a branch in the second: the third one finds it."""
    scene = OrphanScene()
    table = scene.table
    _only_the_first_names(table)
    table.tag("x", snapshot=1)
    table.tag("m", snapshot=3)
    table.remove("snapshot/snapshot-1")
    orphan = scene.orphan("b")
    scene.age()
    calls: list[str] = []

    def before(request: str) -> None:
        calls.append(request)
        collection = calls.count("list branch/")
        asked = calls[::-1].index("list branch/") if calls.count("list branch/") else 0
        tags = calls[len(calls) - asked :].count("list tag/")
        if request == "list tag/" and (collection, tags) == (1, 2):
            table.tag("a", snapshot=1)
            table.remove("tag/tag-x")
        if request == "list tag/" and (collection, tags) == (2, 1):
            table.branch("b", from_tag="a")
            table.remove("tag/tag-a")

    gone = scene.remove(wrap=lambda store: PagedStore(store, before, 1))
    assert orphan in gone
    assert scene.report is not None
    assert scene.report.plan is not None
    needed = table.referenced("branch/branch-b/snapshot/snapshot-1")
    assert table.path("A") in needed
    assert not needed & {delete.path for delete in scene.report.plan.deletes}, "a look must not be what saves it"
    assert not table.exists("tag/tag-a")
