"""What the overview says that a person should know about a table."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.intent import Intent
from lakesweep.control.lease import Lease, LeaseDocument
from lakesweep.control.scan_history import PastScan, note_scan
from lakesweep.control.state import read_states, write_state
from lakesweep.errors import RefusedError
from lakesweep.model.overview import Finding, Pass, TableOverview
from lakesweep.model.prices import storage_usd
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.operations.overview.findings import SEVERITIES
from lakesweep.operations.overview.history import MOST, thinned
from lakesweep.operations.overview.measure import measure, remembered
from lakesweep.storage.store import DeleteRequest
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TICK_MS, TableBuilder

DAY_MS = 86_400_000
KEEP = {"snapshot.num-retained.min": "9", "snapshot.num-retained.max": "9"}


class Scene:
    """A table, its clock and its maintainer."""

    def __init__(self, **words: Any) -> None:
        self.now_ms = 4 * TICK_MS
        self.store = MemoryStore(clock=lambda: self.now_ms)
        self.control = MemoryStore("memory://control", clock=lambda: self.now_ms)
        self.table = TableBuilder(self.store, **{"options": KEEP, **words})

    @property
    def maintainer(self) -> Maintainer:
        return Maintainer(self.store, control=self.control)

    def overview(self) -> TableOverview:
        return measure(self.maintainer.table, "t").overview

    def findings(self) -> dict[str, Finding]:
        return {each.code: each for each in self.overview().findings}


@pytest.fixture
def scene() -> Scene:
    found = Scene()
    found.table.commit("+A")
    found.table.commit("+B")
    return found


def test_nothing_is_wrong(scene: Scene) -> None:
    """A young table that states its retention."""
    assert scene.findings() == {}


def test_no_retention_is_stated() -> None:
    """Neither by the schema nor by a policy."""
    scene = Scene(options={})
    scene.table.commit("+A")
    (finding,) = scene.findings().values()
    assert finding == Finding(
        "retention_not_stated",
        "look",
        "the schema states no retention, so unattended maintenance deletes nothing",
        "lakesweep show memory://x",
    )


def test_an_option_that_means_nothing(scene: Scene) -> None:
    """No snapshot expires then, and the overview has all other figures."""
    scene.table.alter(options={"snapshot.time-retained": "soon"})
    found = scene.overview()
    assert [(each.code, each.severity) for each in found.findings] == [("bad_option", "act")]
    assert found.live_files == 2


def test_hints_that_lie(scene: Scene) -> None:
    """A LATEST ahead of the newest snapshot makes readers fail; one behind costs a listing."""
    scene.table.hint("LATEST", 9)
    finding = scene.findings()["wrong_hint"]
    assert (finding.severity, finding.command) == ("act", "lakesweep check memory://x")
    scene.table.hint("LATEST", 1)
    assert scene.findings()["slow_hint"].severity == "look"


def test_a_hole_in_the_ids(scene: Scene) -> None:
    """As an unfinished expiry leaves it."""
    scene.table.commit("+C")
    scene.table.remove("snapshot/snapshot-2")
    assert "hole_in_ids" in scene.findings()


def test_consumers() -> None:
    """One that waits for what a rollback deleted, and one that holds snapshots that are due."""
    scene = Scene(options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    for symbol in "ABC":
        scene.table.commit(f"+{symbol}")
    scene.table.consumer("slow", 2)
    scene.table.consumer("lost", 9)
    found = scene.findings()
    assert found["consumer_ahead"].severity == "act"
    assert "lost" in found["consumer_ahead"].says
    assert found["consumer_holds"].severity == "look"
    assert "slow" in found["consumer_holds"].says


def test_overdue_snapshots() -> None:
    """A day after they became due, and the earlier figures do not hold until then."""
    scene = Scene(options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    scene.table.commit("+A")
    scene.table.commit("+B")
    earlier = measure(scene.maintainer.table, "t")
    assert earlier.overview.findings == ()
    assert earlier.holds_until_ms == TICK_MS + DAY_MS + 1
    scene.now_ms = earlier.holds_until_ms
    assert list(scene.findings()) == ["snapshots_overdue"]


def test_tags_that_keep_much() -> None:
    """Only if they have no time to live."""
    scene = Scene()
    scene.table.commit("+A", size={"A": 100_000})
    scene.table.tag("short", ttl=timedelta(days=9))
    scene.table.commit("-A", "+B")
    scene.table.remove("snapshot/snapshot-1")
    assert "tags_pin" not in scene.findings()
    scene.table.tag("forever", snapshot=1)
    assert "tags_pin" not in scene.findings()  # both keep it
    scene.table.remove("tag/tag-short")
    found = scene.findings()["tags_pin"]
    assert "1 tag has no time to live and alone keeps" in found.says
    assert found.command == "lakesweep tags memory://x"


def test_lost_histories(scene: Scene) -> None:
    """A branch without snapshots whose hints show that it had some."""
    scene.table.tag("t")
    for snapshot_id in (1, 2):
        scene.table.remove(f"snapshot/snapshot-{snapshot_id}")
    found = scene.overview()
    assert found.findings[0].code == "lost_history"
    assert (found.snapshots, found.live_files, found.rows, found.growth) == (0, None, None, ())
    assert [(span.kind, span.name) for span in found.timeline] == [("tag", "t")]


@pytest.mark.parametrize("lost", ["history", "newest", "branch"])
def test_what_looks_like_an_orphan_where_snapshots_are_lost(scene: Scene, lost: str) -> None:
    """It may belong to them, so a scan refuses to delete it, and nothing is said to be saved by that."""
    scene.table.tag("t", snapshot=1)
    scene.table.commit("+C")
    for snapshot_id in (3,) if lost == "newest" else (1, 2, 3) if lost == "history" else ():
        scene.table.remove(f"snapshot/snapshot-{snapshot_id}")
    if lost == "branch":
        scene.table.branch("empty")
        scene.store.put("bucket-0/data-00000000-0000-4000-8000-000000000000-0.parquet", b"of the branch?")
    scene.now_ms += 9 * DAY_MS
    found = scene.overview()
    assert any(each.reason == "orphan" and each.bytes for each in found.reasons)
    assert found.saving_bytes == 0
    report = scene.maintainer.run("remove-orphan-files", execute=False)
    assert report.refusal is not None
    assert report.refusal.code == "history_missing"


def test_missing_files(scene: Scene) -> None:
    """Of the newest snapshot: lost. Of the oldest alone: perhaps an expiry is under way."""
    scene.table.commit("-A")
    scene.table.remove("A")
    assert scene.findings()["files_may_be_expiring"].severity == "look"
    scene.table.remove("B")
    finding = scene.findings()["missing_files"]
    assert (finding.severity, finding.command) == ("act", "lakesweep check memory://x --all-roots")


def test_a_plan_that_nobody_finished(scene: Scene) -> None:
    """A lease that ended with an intent; while it lasts, a run is at work."""
    area = scene.maintainer.table.area
    assert area is not None
    lease = Lease(area, "run-1", Intent("plan-1", "main", None, ("run-1",), 0))
    lease.take(LeaseDocument(None))
    earlier = measure(scene.maintainer.table, "t")
    assert earlier.overview.findings == ()
    assert earlier.holds_until_ms == scene.now_ms + LEASE_MS + DELETE_MARGIN_MS
    scene.now_ms = earlier.holds_until_ms
    finding = scene.findings()["unfinished_plan"]
    assert (finding.severity, finding.command) == ("act", "lakesweep execute memory://x plan-1")


def test_a_damaged_lease(scene: Scene) -> None:
    """It is told, and the table is measured."""
    area = scene.maintainer.table.area
    assert area is not None
    area.put("lease.json", b"{")
    assert scene.findings()["stuck_lease"].severity == "look"


def test_a_snapshot_that_was_replaced(scene: Scene) -> None:
    """A pass saw another snapshot at the place of the newest one, and nobody has rolled back."""
    scene.maintainer.maintain()
    path = "snapshot/snapshot-2"
    scene.now_ms += 100
    scene.store.put(path, scene.store.read(path).data.replace(b'"builder"', b'"another"'))
    codes = scene.findings()
    assert codes.keys() & {"commit_replaced", "commit_doubtful"}
    assert next(iter(codes.values())).command == "lakesweep runs memory://x"


def test_files_outside(scene: Scene) -> None:
    """They are not counted, which is told."""
    outside = MemoryStore("memory://outside/ext")
    scene = Scene(externals={outside.location: outside})
    scene.table.commit("+A")
    assert "memory://outside/ext" in scene.findings()["files_outside"].says


def test_a_table_without_snapshots() -> None:
    """It has no figures about data, nothing is wrong, and nothing of it would be deleted."""
    scene = Scene()
    scene.store.put("bucket-0/data-00000000-0000-4000-8000-000000000000-0.parquet", b"data of the first commit")
    scene.now_ms += 3 * DAY_MS
    found = scene.overview()
    assert found.findings == ()
    assert (found.snapshots, found.live_files, found.rows, found.latest_ms) == (0, None, None, None)
    assert (found.saving_bytes, found.oldest_root_ms, found.growth, found.timeline) == (0, None, (), ())
    assert found.bytes > 0


def test_no_table() -> None:
    """A folder without a schema has no overview."""
    store = MemoryStore()
    store.put("README", b"")
    with pytest.raises(RefusedError, match="expected a Paimon table directory"):
        measure(Maintainer(store).table, "t")


def test_passes_and_scans(scene: Scene) -> None:
    """The last ones, by the documents that they left; a new scan asks for a new measure, a pass does not."""
    earlier = measure(scene.maintainer.table, "t")
    assert (earlier.overview.last_pass, earlier.overview.last_scan) == (None, None)
    scene.maintainer.maintain()
    earlier = measure(scene.maintainer.table, "t")
    area = scene.maintainer.table.area
    assert area is not None
    scene.now_ms += 60_000
    write_state(area, {name: replace(each, checked_ms=scene.now_ms) for name, each in read_states(area).items()})
    again = remembered(scene.maintainer.table, earlier)
    assert again is not None
    assert again.overview.last_pass == Pass(scene.now_ms)
    note_scan(area, PastScan("local", 5, 6, "done", 1, 2, 3, 4))
    assert remembered(scene.maintainer.table, again) is None
    assert scene.overview().last_scan == Pass(6, "done")


def test_money(scene: Scene) -> None:
    """List prices of all bytes, and of those that would go."""
    scene.table.commit("-A")
    scene.now_ms += 9 * DAY_MS
    scene.table.alter(options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
    found = scene.overview()
    reasons = {each.reason: each.bytes for each in found.reasons}
    assert found.usd_month == storage_usd(found.bytes)
    assert found.saving_bytes == reasons["expired"] > 0
    assert found.saving_usd_month == storage_usd(found.saving_bytes)


def test_a_root_that_moves_meanwhile(scene: Scene) -> None:
    """The measure begins again, and gives up if it never ends."""
    table = scene.maintainer.table
    moves = 0

    class Moving(MemoryStore):
        reads_wait = False

        def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Any:
            nonlocal moves
            if prefix == "" and moves:
                moves -= 1
                for entry in list(scene.store.list("tag/")):
                    scene.store.delete([DeleteRequest(entry.key)])
                scene.table.tag(f"t{moves}")
            return scene.store.list_range(prefix, after, until)

        def __getattr__(self, name: str) -> Any:
            return getattr(scene.store, name)

    for name in ("list", "folders", "folders_among", "read", "now_ms"):
        setattr(Moving, name, lambda self, *args, _name=name, **words: getattr(scene.store, _name)(*args, **words))
    moving = Maintainer(Moving(scene.store.location), control=scene.control).table
    moves = 2
    assert measure(moving, "t").overview.tags == 1
    moves = 3
    with pytest.raises(RefusedError) as error:
        measure(moving, "t")
    assert error.value.code == "roots_keep_changing"
    assert table.ref == moving.ref


def test_every_code_has_its_place() -> None:
    """What must be acted on comes first."""
    assert sorted(SEVERITIES.values()) == list(SEVERITIES.values())


def test_long_histories() -> None:
    """Points are spread evenly; the first and the last are among them."""
    assert thinned(range(5), 60) == (0, 1, 2, 3, 4)
    found = thinned(range(10_000), MOST)
    assert (len(found), found[0], found[-1]) == (MOST, 0, 9_999)
    assert (thinned(range(5), 1), thinned(range(5), 0)) == ((4,), ())
    scene = Scene()
    for number in range(100):
        scene.table.commit(f"+F{number}")
        if number % 2:
            scene.table.tag(f"t{number}")
    overview = scene.overview()
    assert (len(overview.growth), len(overview.timeline)) == (MOST, MOST)
    assert [point.bytes for point in overview.growth] == sorted(point.bytes or 0 for point in overview.growth)
    assert overview.growth[-1].bytes == overview.live_bytes
    assert isinstance(scene.maintainer.table.area, ControlArea)
