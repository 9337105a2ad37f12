"""What only some roots need, counted."""

from collections.abc import Iterable

from lakesweep.model.roots import Root
from lakesweep.operations.branches.newly_orphaned import NewlyOrphaned, find_newly_orphaned
from lakesweep.runs.view import begin
from lakesweep.table.documents import read_roots
from tests.support.world import World


class FilledWorld(World):
    """Six snapshots with files of every kind, tags, and a branch."""

    def __init__(self) -> None:
        super().__init__(partition_keys=("dt",), options={"changelog-producer": "input"}, types={"v": "STRING"})
        table = self.table
        table.commit("+A", "+B", partition=("d1",), statistics="s1", index={"i1": {"B": (1,)}}, changelog=["+a"])
        table.commit("-A", "+C", partition=("d1",), extra={"C": ("x.index",)}, changelog=["+c"])
        table.tag("t2", snapshot=2)
        table.branch("b", from_tag="t2")
        table.on_branch("b").commit("+E", partition=("d3",))
        table.commit("-C", "+D", partition=("d2",), index={"i2": {"B": (1, 2)}}, statistics="s3", changelog=["+d"])
        table.merge_manifests()
        table.commit("-B", "+F", partition=("d1",), index={"i4": {}})
        table.tag("t5", snapshot=5)
        table.commit("-D", "+G", partition=("d2",), statistics="s6")

    def found(self, *going: str, coming: Iterable[Root] = ()) -> NewlyOrphaned:
        view = begin(self.maintainer().table, "rollback")
        refs = [ref for ref in view.listing.roots() if ref.path in going]
        assert len(refs) == len(going)
        return find_newly_orphaned(view, read_roots(self.store, refs).roots, tuple(coming))

    def expected(self, *going: str) -> set[str]:
        """Return what the roots that go need and no root that stays names, documents not included."""
        needed: set[str] = set()
        for path in going:
            needed |= self.table.referenced(path)
        for path in self.table.roots():
            if path not in going:
                needed -= self.needed_by(path)
        return {path for path in needed if not path.startswith(("snapshot/", "tag/", "changelog/", "branch/"))}

    def needed_by(self, path: str) -> set[str]:
        model = self.table.model(path)
        entries = [entry for manifest in (*model.base, *model.delta, *model.changelog) for entry in manifest.entries]
        return set(self.table.referenced(path)) | {
            each for entry in entries for each in (entry.file.path, *entry.file.extra_paths)
        }

    def check(self, *going: str) -> NewlyOrphaned:
        expected, found = self.expected(*going), self.found(*going)
        sizes = {entry.key: entry.size_bytes for entry in self.store.list("")}
        assert found.files == len(expected) == sum(found.by_kind.values()), sorted(expected)
        unknown = sum(sizes[path] for path in expected if path.endswith(".index") or path.startswith("statistics/"))
        unknown += sum(sizes[path] for path in expected if path.startswith("manifest/index-manifest"))
        assert found.bytes == sum(sizes[path] for path in expected) - unknown
        assert found.unknown == ()
        return found


def test_every_set_of_newest_snapshots_strands_what_the_model_says() -> None:
    """With the tags above the target, as a rollback takes them, and without."""
    world = FilledWorld()
    newest = [f"snapshot/snapshot-{number}" for number in (6, 5, 4, 3, 2)]
    for count in range(1, 6):
        world.check(*newest[:count])
        world.check(*newest[:count], "tag/tag-t5")
        world.check(*newest[:count], "tag/tag-t5", "tag/tag-t2")


def test_a_tag_keeps_what_it_names() -> None:
    """The newest snapshot goes, and then the tag of the one before it."""
    world = FilledWorld()
    going = ("snapshot/snapshot-6", "snapshot/snapshot-5")
    with_tag, without = world.check(*going), world.check(*going, "tag/tag-t5")
    assert with_tag.files < without.files
    assert without.by_kind["data"] == 2  # F and G


def test_nothing_goes_nothing_is_stranded() -> None:
    """And no root is read."""
    assert FilledWorld().found() == NewlyOrphaned(0, 0, {})


def test_a_root_that_comes_keeps_what_it_names() -> None:
    """As a snapshot that is put back from a tag."""
    world = FilledWorld()
    view = begin(world.maintainer().table, "rollback")
    (tag,) = read_roots(world.store, [ref for ref in view.listing.roots() if ref.path == "tag/tag-t5"]).roots
    going = ("snapshot/snapshot-6", "snapshot/snapshot-5", "tag/tag-t5")
    assert world.found(*going, coming=[tag]).files == world.found(*going[:2]).files


def test_a_branch_keeps_what_it_names() -> None:
    """Its roots count as those of main do, and the other way round."""
    world = FilledWorld()
    path = "branch/branch-b/snapshot/snapshot-3"
    assert world.check(path).by_kind["data"] == 1
    every = [root for root in world.table.roots() if root.startswith("branch/")]
    assert world.check(*every).by_kind["data"] == 1
    main = [root for root in world.table.roots() if not root.startswith("branch/")]
    world.check(*main)


def test_what_cannot_be_read_is_said() -> None:
    """It is a forecast, so it does not stop a rollback from a damaged snapshot."""
    world = FilledWorld()
    manifest = world.table.model("snapshot/snapshot-6").delta[0].name
    world.table.corrupt(f"manifest/{manifest}")
    (sentence,) = world.found("snapshot/snapshot-6").unknown
    assert manifest in sentence


def test_files_that_went_with_expired_snapshots_do_not_count() -> None:
    """A delta may name what was deleted long ago."""
    world = FilledWorld()
    world.expire()
    for number in range(1, 6):
        path = f"snapshot/snapshot-{number}"
        world.store.put(path, b"")
        world.table.remove(path)
    there = {entry.key for entry in world.store.list("")}
    assert world.expected("snapshot/snapshot-6") <= there
    world.check("snapshot/snapshot-6")
