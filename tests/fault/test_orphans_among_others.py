"""Somebody else acts on the table at any request of a scan for orphans, and of the removal that follows it.

Acts are those of `test_races_of_every_kind`, and some more: branches that are made, dropped and become main, other
runs of the same kind. Listings take a request for every few names, so that an act may come in the middle of one. At
each deletion every root that exists is walked, independently: nothing goes that any of them refers to. When all is
over every root reads, and the next run, alone, leaves no orphan.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

import pytest

from lakesweep.control.lease import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.errors import MaintenanceError
from lakesweep.execute import batches
from lakesweep.storage.store import DeleteRequest
from tests.fault import test_races_of_every_kind as races
from tests.fault.test_races_of_every_kind import Act, Stage
from tests.support.every import EVERY
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.metadata_files import stable_uuid
from tests.support.paged_store import PagedStore
from tests.support.reader import all_roots, assert_all_readable
from tests.support.walk import WatchedStore

NAME = "remove_orphan_files"
DAY_MS = 86_400_000
KEYS = 4
"""Names in a page of a listing."""


@dataclass
class OrphanStage(Stage):
    """The same table a day and more later, with an orphan of each kind, and what a rollback left."""

    orphans: set[str] = field(default_factory=set)
    rolled_back: bytes = b""
    """The document of the snapshot that a rollback took."""
    rolled_back_needs: set[str] = field(default_factory=set)
    """What a tag of it needs, and nobody else."""

    def __post_init__(self) -> None:
        super().__post_init__()
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


def branch_dropped(stage: Stage) -> Iterator[None]:
    """A branch goes by its documents alone, in the order in which a folder is deleted."""
    if stage.branch != "main":
        stage.newest = 0
    for path in [path for path in stage.main.roots() if path.startswith("branch/branch-b/")]:
        stage.main.remove(path)
        yield
    stage.store.delete([DeleteRequest(entry.key) for entry in stage.store.list("branch/branch-b/")])


def branch_becomes_main(stage: Stage) -> Iterator[None]:
    """A fast-forward copies the documents of the branch to main, and the branch goes."""
    if stage.branch == "main":
        stage.newest = max(stage.main.on_branch("b")._branch.ids("snapshot"))
    stage.main.fast_forward("b")
    stage.main.hint("LATEST", max(stage.main._branch.ids("snapshot")))
    for root in ("snapshot/snapshot-1", f"snapshot/snapshot-{max(stage.main._branch.ids('snapshot'))}"):
        stage.stays(root)
    yield
    yield from branch_dropped(stage)
    stage.newest = stage.newest if stage.branch == "main" else 0


def branch_renamed(stage: Stage) -> Iterator[None]:
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


def removed_by_us_as_well(stage: Stage) -> Iterator[None]:
    """Another run of the same kind, at the same control location."""
    _remove(stage, stage.control)
    yield


def removed_elsewhere_as_well(stage: Stage) -> Iterator[None]:
    """Another run of the same kind that shares no control location with the first."""
    _remove(stage, MemoryStore("memory://elsewhere", clock=lambda: stage.now_ms))
    yield


def _remove(stage: Stage, control: MemoryStore) -> None:
    store = WatchedStore(stage.store, stage.store)
    try:
        Maintainer(store, stage.branch, control=control, sleep=stage.sleep).run(NAME)
    except MaintenanceError:
        pass


def one_snapshot_after_another(stage: Stage) -> Iterator[None]:
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


def play(setting: str, act: Act | None, at: int, pace: int) -> tuple[OrphanStage, int, str]:
    """Run while an act goes on; return the stage, how many requests the run made, and how it ended.

    Args:
        setting: One of `races.SETTINGS`.
        act: What others do, if anything.
        at: Before which request they begin.
        pace: How many requests lie between two of their steps; 0 for none.
    """
    stage = OrphanStage(setting)
    calls = 0

    def before(name: str) -> None:
        nonlocal calls
        calls += 1
        if act is not None and calls == at:
            stage.steps = act(stage)
        if act is not None and calls >= at and (calls - at) % max(pace, 1) == 0:
            for _ in stage.steps:
                if pace:
                    break

    try:
        ended: str = stage.remover(before).run(NAME).status
    except MaintenanceError as error:
        ended = error.code
    for _ in stage.steps:
        pass
    return stage, calls, ended


@cache
def requests_of(setting: str) -> int:
    """Return how many requests there are when nobody else acts."""
    return play(setting, None, 0, 0)[1]


@pytest.mark.parametrize("setting", races.SETTINGS)
def test_alone_it_takes_every_orphan(setting: str) -> None:
    stage, calls, ended = play(setting, None, 0, 0)
    assert ended == "done"
    assert stage.left() == set()
    stage.check()
    assert calls > 80


@pytest.mark.parametrize("setting", races.SETTINGS)
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_whatever_others_do_nothing_that_a_root_needs_goes(
    act: Act, setting: str, record_property: Callable[[str, object], None]
) -> None:
    """Before each so many-th request of the plain table and every thirteenth of the others; at once, or in steps."""
    requests = requests_of(setting)
    stride = EVERY if setting == "plain" else 13
    ends: Counter[str] = Counter()
    for at in range(1 + ACTS.index(act) % stride, requests + 1, stride):
        pace = (0, 1, 3)[at // stride % 3]
        where = f"{act.__name__} before request {at} of {requests}, pace {pace}"
        try:
            stage, _, ended = play(setting, act, at, pace)
            stage.check()
            ends[ended] += 1
            if at // stride % 4 == 0:
                stage.now_ms += LEASE_MS + DELETE_MARGIN_MS + 2 * DAY_MS
                _remove_rest(stage)
        except (AssertionError, MaintenanceError) as error:
            raise AssertionError(f"{where}: {error!r}") from error
    record_property("ends", dict(ends))


@pytest.mark.parametrize("slowness_ms", [0, 100_000], ids=["at once", "with rests"])
def test_what_comes_back_stays_as_far_as_it_is_there(slowness_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tag is copied from the document of a snapshot that was rolled back, before each request of an execution.

    No engine does that. Even so no more of its files go than those whose batch has had its look.
    """
    monkeypatch.setattr(batches, "BATCH_KEYS", 2)
    lost_most = kept_most = at = 0
    ended = False
    while not ended:
        at += 1
        stage, calls, there = OrphanStage("plain"), 0, set[str]()
        plan = stage.remover(lambda name: None).run(NAME, execute=False).plan
        assert plan is not None

        def before(name: str, stage: OrphanStage = stage, at: int = at) -> None:
            nonlocal calls, there
            calls += 1
            stage.now_ms += slowness_ms
            if calls == at:
                there = stage.rolled_back_needs & {entry.key for entry in stage.store.list("")}
                stage.store.put("tag/tag-late", stage.rolled_back)

        # What is deleted is not watched: the last batch may go with a look that came too early.
        store = PagedStore(stage.store, before, KEYS)
        control = PagedStore(stage.control, before, 1000)
        report = Maintainer(store, control=control, sleep=stage.sleep).execute(plan.header.plan_id)
        assert report.status == "done", report
        lost = there - {entry.key for entry in stage.store.list("")}
        assert len(lost) <= batches.BATCH_KEYS, f"before request {at}: {sorted(lost)}"
        lost_most, kept_most = max(lost_most, len(lost)), max(kept_most, len(there) - len(lost))
        ended = calls < at
    assert lost_most > 0, "a look could come too early"
    assert kept_most == len(stage.rolled_back_needs)


def _remove_rest(stage: OrphanStage) -> None:
    for _ in range(2):  # the first may only finish what was begun
        if stage.branch != "main" and not stage.newest:
            stage.branch = "main"
        report = stage.remover(lambda name: None).run(NAME)
        assert report.status in ("done", "nothing_to_do"), report
    assert stage.left() == set()
    assert_all_readable(stage.main)
