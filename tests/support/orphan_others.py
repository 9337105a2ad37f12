"""What others do to a table while orphan files are removed from it, one step at a time."""

from collections.abc import Callable, Iterator

from lakesweep.errors import MaintenanceError
from lakesweep.storage.store import DeleteRequest
from tests.support import others as races
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.metadata_files import stable_uuid
from tests.support.others import BusyWorld
from tests.support.paged_store import PagedStore
from tests.support.reader import all_roots
from tests.support.walk import WatchedStore

NAME = "remove-orphan-files"


DAY_MS = 86_400_000


KEYS = 4
"""Names in a page of a listing."""


class OrphanWorld(BusyWorld):
    """The same table a day and more later, with an orphan of each kind, and what a rollback left."""

    rolled_back: bytes
    """The document of the snapshot that a rollback took."""
    rolled_back_needs: set[str]
    """What a tag of it needs, and nobody else."""

    def __init__(self, setting: str) -> None:
        super().__init__(setting)
        before = {entry.key for entry in self.store.list("")}
        roots = set(all_roots(self.store))
        hint = self.store.read(f"{self.prefix}snapshot/LATEST").data
        self.table.commit("+R", index={"ir": {"R": (1,)}}, statistics="sr", changelog=["+LR"])
        self.rolled_back = self.store.read(self.root(6)).data
        needs = self.table.referenced(self.root(6), with_changelog=False)
        self.rolled_back_needs = set(needs) - before - {self.root(6)}
        self.table.rollback(5)
        self.table.hint("LATEST", int(hint))
        uuid = stable_uuid("orphan")
        for key in (
            f"bucket-0/data-{uuid}-0.parquet",
            f"bucket-0/data-{uuid}-1.parquet.index",
            f"bucket-0/changelog-{uuid}-0.parquet",
            f"manifest/manifest-{uuid}-0",
            f"manifest/manifest-list-{uuid}-0",
            f"manifest/index-manifest-{uuid}-0",
            f"index/index-{uuid}-0",
            f"statistics/stat-{uuid}-0",
            f"snapshot/.snapshot-9.{uuid}.tmp",
        ):
            self.store.put(key, b"orphan")
        after = {entry.key for entry in self.store.list("")}
        assert set(all_roots(self.store)) == roots
        self.orphans = after - before
        self.now_ms += 30 * 3_600_000

    def remover(self, before: Callable[[str], None]) -> Maintainer:
        """Return who removes orphans, with `before` called at each request to either store."""
        return Maintainer(
            PagedStore(WatchedStore(self.store, self.store), before, KEYS),
            self.branch,
            control=PagedStore(self.control, before, 1000),
            sleep=self.sleep,
        )

    def left(self) -> set[str]:
        """Return the orphans that are there."""
        return self.orphans & {entry.key for entry in self.store.list("")}


def branch_dropped(stage: BusyWorld) -> Iterator[None]:
    """A branch goes by its documents alone, in the order in which a folder is deleted."""
    if stage.branch != "main":
        stage.newest = 0
    for path in [path for path in stage.main.roots() if path.startswith("branch/branch-b/")]:
        stage.main.remove(path)
        yield
    stage.store.delete([DeleteRequest(entry.key) for entry in stage.store.list("branch/branch-b/")])


def branch_becomes_main(stage: BusyWorld) -> Iterator[None]:
    """A fast-forward copies the documents of the branch to main, and the branch goes."""
    if stage.branch == "main":
        stage.newest = max(stage.main.on_branch("b").ids("snapshot"))
    stage.main.fast_forward("b")
    stage.main.hint("LATEST", max(stage.main.ids("snapshot")))
    for root in ("snapshot/snapshot-1", f"snapshot/snapshot-{max(stage.main.ids('snapshot'))}"):
        stage.stays(root)
    yield
    yield from branch_dropped(stage)
    stage.newest = stage.newest if stage.branch == "main" else 0


def branch_renamed(stage: BusyWorld) -> Iterator[None]:
    """Its documents are copied, then the old ones go."""
    old = [entry.key for entry in stage.store.list("branch/branch-b/")]
    for key in old:
        stage.store.put(key.replace("branch-b/", "branch-a/"), stage.store.read(key).data)
    yield
    if stage.branch != "main":
        stage.newest = 0
    for path in [path for path in stage.main.roots() if path in old]:
        stage.main.remove(path)
    stage.store.delete([DeleteRequest(key) for key in old])
    yield


def removed_by_us_as_well(stage: BusyWorld) -> Iterator[None]:
    """Another run of the same kind, at the same control location."""
    _remove(stage, stage.control)
    yield


def removed_elsewhere_as_well(stage: BusyWorld) -> Iterator[None]:
    """Another run of the same kind that shares no control location with the first."""
    _remove(stage, MemoryStore("memory://elsewhere", clock=lambda: stage.now_ms))
    yield


def _remove(stage: BusyWorld, control: MemoryStore) -> None:
    store = WatchedStore(stage.store, stage.store)
    try:
        Maintainer(store, stage.branch, control=control, sleep=stage.sleep).run(NAME)
    except MaintenanceError:
        pass


def one_snapshot_after_another(stage: BusyWorld) -> Iterator[None]:
    """An engine that keeps one snapshot: each commit takes its predecessor, files first and the document last."""
    for number in range(3):
        stage.newest = stage.table.commit(f"+N{number}", *([f"-N{number - 1}"] if number else []))
        yield
        yield from races.engine_expires(stage)


ACTS = [
    *(act for act in races.ACTS if "consumer" not in act.__name__),
    branch_dropped,
    branch_becomes_main,
    branch_renamed,
    removed_by_us_as_well,
    removed_elsewhere_as_well,
    one_snapshot_after_another,
]
