"""What others do to a table while a run goes on, one step at a time."""

from collections.abc import Callable, Iterator

from lakesweep.errors import MaintenanceError
from lakesweep.model.plan import Delete, Put
from lakesweep.storage.store import DeleteRequest
from tests.support.faulty_store import Interleaved
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, assert_all_readable, read_root
from tests.support.world import HOUR_MS, START_MS, World

PLAIN = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "snapshot.time-retained": "1000 d",
}


DECOUPLED = PLAIN | {"changelog.num-retained.max": "3", "changelog.time-retained": "1000 d"}


class BusyWorld(World):
    """A table with a tag and a branch, whose maintained branch is about to lose all snapshots but the newest."""

    def __init__(self, setting: str) -> None:
        """Build the table of one of `SETTINGS`."""
        decoupled = setting.startswith("changelogs")
        producer = {"changelog-producer": "input"} if setting == "changelogs_with_files" else {}
        options = (DECOUPLED if decoupled else PLAIN) | producer
        super().__init__(options=options, start_ms=START_MS - 86_400_000)
        self.setting = setting
        self.promises: list[Callable[[], None]] = []
        self.main = self.table
        self.main.commit("+A", "+B", index={"i1": {"B": (1,)}}, statistics="s1", changelog=["+L1"])
        self.main.tag("old", snapshot=1)
        if setting == "branch":
            self.branch = "b"
            self.table = self.main.branch("b", from_tag="old")
            self.main.commit("-A", "+M")
        else:
            self.main.branch("b", from_tag="old").commit("+X")
        self.table.commit("-A", "+C", index={"i2": {"B": (2,)}}, changelog=["+L2"])
        self.table.commit("-C", "+D", changelog=["+L3"])
        self.table.commit("-B", "-D", "+E", index={"i4": {}}, changelog=["+L4"])
        self.table.commit("+F")
        self.table.hint("LATEST", 5)
        self.now_ms += HOUR_MS
        self.newest = 5

    @property
    def prefix(self) -> str:
        return "" if self.branch == "main" else f"branch/branch-{self.branch}/"

    def root(self, snapshot_id: int) -> str:
        return f"{self.prefix}snapshot/snapshot-{snapshot_id}"

    def snapshot_is_there(self, snapshot_id: int) -> bool:
        return snapshot_id in self.ids()

    def ids(self, folder: str = "snapshot") -> list[int]:
        return super().ids(f"{self.prefix}{folder}")

    def stays(self, path: str) -> None:
        """Promise that a root which exists now reads at the end."""
        self.promises.append(lambda: read_root(self.store, path) and None)

    def check(self) -> None:
        """Fail unless everything that is there reads and everything that was promised is there."""
        assert_all_readable(self.main)
        for promise in self.promises:
            promise()
        if self.newest:
            assert self.ids()[-1:] == [self.newest], f"snapshots {self.ids()}"
            self.check_latest()

    def check_latest(self) -> None:
        """Readers trust LATEST when its successor is absent, without looking whether the snapshot itself is there."""
        path, ids = f"{self.prefix}snapshot/LATEST", self.ids()
        if any(entry.key == path for entry in self.store.list(f"{self.prefix}snapshot/")):
            named = int(self.store.read(path).data)
            assert named in ids or named + 1 in ids, f"LATEST says {named}, there is {ids}"


Act = Callable[[BusyWorld], Iterator[None]]


def tag_deleted(stage: BusyWorld) -> Iterator[None]:
    """The tag that holds back files goes, by its document alone."""
    if stage.main.exists("tag/tag-old"):
        stage.main.remove("tag/tag-old")
    yield


def tag_replaced(stage: BusyWorld) -> Iterator[None]:
    """Engines overwrite the tag's document: first with a snapshot that may be going, then with the newest."""
    for snapshot_id in (stage.ids()[0], stage.ids()[-1]):
        if stage.root(snapshot_id) in all_roots(stage.store):
            path = stage.table.tag("old", snapshot=snapshot_id)
            yield
    stage.stays(path)


def tag_renamed(stage: BusyWorld) -> Iterator[None]:
    """A rename is a copy and a delete."""
    stage.stays(stage.main.tag("renamed", snapshot=_tagged(stage)))
    yield
    stage.main.remove("tag/tag-old")


def tag_made_of_a_tag(stage: BusyWorld) -> Iterator[None]:
    """A tag is made of what another one still holds, and that one goes."""
    body = stage.store.read("tag/tag-old").data
    stage.main.tag("young", snapshot=1)
    stage.store.put("tag/tag-young", body)
    stage.stays("tag/tag-young")
    yield
    stage.main.remove("tag/tag-old")


def tags_of_everything(stage: BusyWorld) -> Iterator[None]:
    """Every snapshot that can still be seen gets a tag, the oldest first."""
    for snapshot_id in stage.ids():
        if stage.root(snapshot_id) in all_roots(stage.store):
            stage.stays(stage.table.tag(f"t{snapshot_id}", snapshot=snapshot_id))
            yield


def branch_of_a_snapshot(stage: BusyWorld) -> Iterator[None]:
    """A branch is made of a tag that lives for the moment: schema, tag, snapshot; then it commits, and the tag goes."""
    oldest = stage.ids()[0]
    path = stage.table.tag("moment", snapshot=oldest)
    yield
    branch = stage.table.branch("late", from_tag="moment")
    stage.stays(f"branch/branch-late/snapshot/snapshot-{oldest}")
    stage.table.remove(path)
    yield
    stage.main.remove("branch/branch-late/tag/tag-moment")
    branch.commit("+X2")
    stage.stays(f"branch/branch-late/snapshot/snapshot-{oldest + 1}")


def consumer_made(stage: BusyWorld) -> Iterator[None]:
    """A reader registers at the oldest snapshot that it can see."""
    oldest = stage.ids()[0]
    stage.table.consumer("late", oldest)
    _reads_from(stage, oldest)
    yield


def consumer_reset(stage: BusyWorld) -> Iterator[None]:
    """A reader that was at the end is moved back, snapshot by snapshot."""
    for snapshot_id in reversed(stage.ids()):
        if snapshot_id in stage.ids():
            stage.table.consumer("moved", snapshot_id)
            _reads_from(stage, snapshot_id)
            yield


def consumer_damaged(stage: BusyWorld) -> Iterator[None]:
    """A reader's document is half written for a while."""
    stage.store.put(f"{stage.prefix}consumer/consumer-odd", b'{"nextSn')
    yield
    yield
    stage.store.put(f"{stage.prefix}consumer/consumer-odd", b'{"nextSnapshot": 5}')


def schema_altered(stage: BusyWorld) -> Iterator[None]:
    """The rules themselves change, and a commit uses them."""
    stage.table.alter(options={"snapshot.num-retained.max": "100", "snapshot.num-retained.min": "50"})
    yield
    stage.newest = stage.table.commit("+Y")


def commits(stage: BusyWorld) -> Iterator[None]:
    """Commits that rewrite what is there."""
    stage.newest = stage.table.commit("-E", "+Y", index={"i6": {"F": (1,)}})
    yield
    stage.newest = stage.table.merge_manifests()
    yield
    stage.newest = stage.table.commit("-Y", "-F", "+Z", index={"i8": {}})


def dead_files_come_back(stage: BusyWorld) -> Iterator[None]:
    """A rollback as latest, one commit after another, to everything that can be seen."""
    for snapshot_id in stage.ids():
        if snapshot_id in stage.ids():
            stage.newest = stage.table.rollback_as_latest(snapshot_id)
            yield


def engine_expires(stage: BusyWorld) -> Iterator[None]:
    """Another engine expires the same range without a lease, in its own order: files, metadata, documents, hint."""
    elsewhere = Maintainer(stage.store, stage.branch, control=MemoryStore("memory://elsewhere"), sleep=lambda s: None)
    plan = elsewhere.maintain(execute=False).plan
    steps = elsewhere.maintain(execute=False).steps
    plan = next((step.plan for step in steps or () if step.operation == "expire-snapshots"), plan)
    actions = plan.actions if plan is not None else ()
    late = ("snapshot", "hint", "changelog_document")
    for kinds in (
        ("data", "extra", "changelog"),
        ("index", "index_manifest", "manifest"),
        ("manifest_list", "statistics"),
    ):
        stage.store.delete([DeleteRequest(a.path) for a in actions if isinstance(a, Delete) and a.kind in kinds])
        yield
    for action in sorted((a for a in actions if a.kind in late), key=lambda a: a.phase == "hints"):
        if isinstance(action, Put):
            stage.store.put(action.path, action.body.encode())
        else:
            stage.store.delete([DeleteRequest(action.path)])
            yield


def our_other_run(stage: BusyWorld) -> Iterator[None]:
    """Another run of ours, at the same control location."""
    try:
        Maintainer(stage.store, stage.branch, control=stage.control, sleep=stage.sleep).maintain()
    except MaintenanceError:
        pass
    yield


def our_run_elsewhere(stage: BusyWorld) -> Iterator[None]:
    """Another run of ours that shares no control location with the first."""
    clock = MemoryStore("memory://elsewhere", clock=lambda: stage.now_ms)
    Maintainer(stage.store, stage.branch, control=clock, sleep=stage.sleep).maintain()
    yield


def rollback(stage: BusyWorld) -> Iterator[None]:
    """LATEST first, then the newer snapshots, newest first, then changelogs."""
    yield from roll_back(stage, next((i for i in (2, 3, 4) if i in stage.ids()), None))


def rollback_to_the_oldest(stage: BusyWorld) -> Iterator[None]:
    """A rollback to the first snapshot that an expiry takes."""
    yield from roll_back(stage, stage.ids()[0])


def roll_back(stage: BusyWorld, target: int | None) -> Iterator[None]:
    """Do it, as the engine does."""
    if target is None or target == stage.ids()[-1]:
        return
    stage.newest = target
    stage.stays(stage.root(target))
    highest = stage.ids()[-1]
    stage.table.hint("LATEST", target)
    yield
    for folder, prefix in (("snapshot", "snapshot"), ("changelog", "changelog")):
        for number in range(highest, target, -1):
            if number in stage.ids(folder):
                stage.store.delete([DeleteRequest(f"{stage.prefix}{folder}/{prefix}-{number}")])
                yield


def _tagged(stage: BusyWorld) -> int:
    return int(stage.main.document("tag/tag-old")["id"])


def _reads_from(stage: BusyWorld, snapshot_id: int) -> None:
    for number in stage.ids():
        if number >= snapshot_id:
            stage.stays(stage.root(number))


ACTS = [
    tag_deleted,
    tag_replaced,
    tag_renamed,
    tag_made_of_a_tag,
    tags_of_everything,
    branch_of_a_snapshot,
    consumer_made,
    consumer_reset,
    consumer_damaged,
    schema_altered,
    commits,
    dead_files_come_back,
    engine_expires,
    our_other_run,
    our_run_elsewhere,
    rollback,
    rollback_to_the_oldest,
]


SETTINGS = ("plain", "branch", "changelogs", "changelogs_with_files")


def play(
    setting: str, act: Act | None, at: int, pace: int, build: Callable[[BusyWorld], None] = lambda stage: None
) -> tuple[BusyWorld, int]:
    """Run the pass while an act goes on; return the stage and how many requests the run made.

    Args:
        setting: One of `SETTINGS`.
        act: What others do, if anything.
        at: Before which request they begin.
        pace: How many requests lie between two of their steps; 0 for none.
        build: What the table has besides.
    """
    stage = BusyWorld(setting)
    build(stage)
    calls = 0

    def before(call: int) -> None:
        nonlocal calls
        calls = call
        if call == at and act is not None:
            stage.steps = act(stage)
        if call >= at and act is not None and (call - at) % max(pace, 1) == 0:
            for _ in stage.steps:
                if pace:
                    break

    try:
        stage.maintain(Interleaved(before))
    except MaintenanceError:
        pass
    for _ in stage.steps:
        pass
    return stage, calls
