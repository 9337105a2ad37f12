"""One table in the overview: the figures of the commands about one table, whatever the table."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import RefusedError
from lakesweep.model.overview import TableOverview
from lakesweep.model.paths.allowed import is_external
from lakesweep.operations.inspect.explain.table import explain_table
from lakesweep.operations.inspect.show import summarise
from lakesweep.operations.overview.measure import measure, remembered
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from tests.support.fixture_tables import TABLE_NAMES
from tests.support.histories import Commit, build, histories
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import DAY_MS, OrphanScene
from tests.support.random_scene import OUTSIDE, fill
from tests.support.sampling import examples, seeds
from tests.support.table_builder import TableBuilder

NOW_MS = 400 * DAY_MS
UUID = "00000000-0000-4000-8000-000000000000"
PLANTED = (
    f"bucket-0/data-{UUID}-0.parquet",
    f"manifest/manifest-{UUID}-0",
    f"snapshot/.snapshot-9.{UUID}.tmp",
    "README",
    "other/schema/schema-0",
    f"other/bucket-0/data-{UUID}-0.parquet",
    "temp/job/task_0.preCommit",
)
DAY = timedelta(days=1)
ONE = Commit(2, (), None, merge=False, tag=False, changelog=False, rollback_to=None, branch=False)


def store_at(now_ms: int = NOW_MS) -> MemoryStore:
    return MemoryStore(clock=lambda: now_ms)


def overview(table: Table) -> TableOverview:
    return measure(table, "db/table").overview


def assert_explained(found: TableOverview, table: Table) -> None:
    """Fail unless bytes by reason are those of `explain`, and add up to the listing."""
    shares = [(each.reason, each.count, each.bytes) for each in explain_table(table).shares if each.reason != "missing"]
    assert [(each.reason, each.count, each.bytes) for each in found.reasons] == shares
    entries = list(table.store.list(""))
    assert (found.objects, found.bytes) == (len(entries), sum(entry.size_bytes for entry in entries))
    assert sum(each.bytes for each in found.reasons) == found.bytes
    sizes = {reason: size for reason, _, size in shares}
    by_passes = sizes.get("expired", 0) + sizes.get("due", 0)
    assert found.saving_bytes in (by_passes, by_passes + sizes.get("orphan", 0))


def assert_shown(found: TableOverview, table: Table) -> None:
    """Fail unless the other figures are those of `show`."""
    shown = summarise(table, pinned=True, levels=True)
    assert (found.snapshots, found.branches, found.tags) == (shown.snapshots.count, shown.branches, len(shown.tags))
    assert (found.has_primary_key, found.is_partitioned) == (bool(shown.primary_keys), bool(shown.partition_keys))
    if shown.live is not None:
        assert (found.live_files, found.live_bytes) == (shown.live.files, shown.live.bytes)
    assert [(pin.kind, pin.name, pin.snapshot_id, pin.bytes) for pin in found.pins] == [
        (pin.kind, pin.name, pin.snapshot_id, pin.bytes) for pin in shown.pins
    ]
    levels = shown.levels
    assert (found.level_0_files, found.level_0_since_ms) == (
        (None, None) if levels is None else (levels.level_0_files, levels.level_0_since_ms)
    )
    vectors = shown.deletion_vectors
    assert found.deleted_share == (None if vectors is None else vectors.deleted.share)
    for point in found.growth:
        version = summarise(table, Version(snapshot_id=point.snapshot_id), pinned=True).version
        assert version is not None
        assert (point.time_ms, point.bytes) == (version.time_ms, version.live.bytes)


@settings(max_examples=examples(40))
@given(histories, st.sets(st.sampled_from(PLANTED)), st.integers(0, 1))
def test_the_figures_of_any_history(steps: list[Commit], planted: set[str], age: int) -> None:
    """With tags, branches, changelogs, rollbacks, files that move between levels, and orphans."""
    store = store_at()
    build(store, steps)
    for key in planted:
        store.put(key, b"planted")
    for entry in list(store.list("")):
        store.set_modified(entry.key, NOW_MS - age * 2 * DAY_MS)
    table = Maintainer(store).table
    found = overview(table)
    assert_explained(found, table)
    assert_shown(found, table)


def test_the_figures_of_random_tables() -> None:
    """With index files, statistics, extra files, external files, nested tables, and files of any kind that are lost."""
    refused = compared = 0
    for seed in seeds(60, 15):
        random = Random(seed)
        scene = OrphanScene(external=OUTSIDE if seed % 3 == 0 else None)
        fill(scene, random)
        table = scene.maintainer().table
        try:
            expected = explain_table(table)
        except RefusedError:
            refused += 1
            with pytest.raises(RefusedError):
                measure(table, "db/table")
            continue
        found = overview(table)
        assert_explained(found, table)
        scan = scene.maintainer().run("remove-orphan-files", execute=False)
        if scan.refusal is not None:
            assert scan.refusal.code == "history_missing"
            scan_saves = 0
        else:
            assert scan.plan is not None
            scan_saves = sum(each.size_bytes or 0 for each in scan.plan.deletes if not is_external(each.path))
        by_passes = sum(each.bytes for each in found.reasons if each.reason in ("expired", "due"))
        assert found.saving_bytes == by_passes + scan_saves
        codes = {each.code for each in found.findings}
        lost = [share for share in expected.shares if share.reason == "missing"]
        damaged = any("is incomplete, so only temporary" in says for says in expected.warnings)
        assert bool(lost) <= bool(codes & {"missing_files", "files_may_be_expiring"} or damaged), seed
        assert damaged == ("damaged_root" in codes), seed
        compared += 1
    assert compared > 10


# Tables with keys, vectors, changelogs and consumers.


def keyed() -> TableBuilder:
    options = {"changelog-producer": "input", "changelog.num-retained.min": "9", "changelog.num-retained.max": "10"}
    more = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2", "changelog.time-retained": "9 d"}
    table = TableBuilder(store_at(), primary_keys=("id",), options=options | more)
    table.commit("+A@0", changelog=["+CA"])
    table.commit("+B@0", changelog=["+CB"])
    table.commit("-A@0", "-B@0", "+M@5", kind="COMPACT")
    table.commit("+D@0", changelog=["+CD"])
    for snapshot_id in (1, 2):
        table.changelog_document(snapshot_id)
    table.remove("snapshot/snapshot-1")
    table.consumer("search", 3)
    return table


def test_changelogs_levels_and_a_consumer() -> None:
    """A table with a primary key whose changelogs outlive snapshots, and whose streaming reader stands still."""
    table = keyed()
    for entry in list(table.store.list("")):
        table.store.set_modified(entry.key, 0)  # type: ignore[attr-defined]
    found = overview(Maintainer(table.store).table)
    assert_explained(found, Maintainer(table.store).table)
    assert found.level_0_files == 1
    assert {each.reason for each in found.reasons} >= {"current", "changelogs"}
    kinds = [(span.kind, span.name, span.snapshot_id) for span in found.timeline]
    assert ("consumer", "search", 3) in kinds
    assert ("changelog", "1", 1) in kinds
    assert [point.snapshot_id for point in found.growth] == [2, 3, 4]


# Remembered.


@pytest.mark.parametrize("seed", seeds(12, 4))
def test_remembered_figures_are_those_of_a_new_measure(seed: int) -> None:
    """As long as they are said to hold, and whatever becomes due, too old or an orphan after that."""
    random = Random(seed)
    scene = OrphanScene(
        options={"snapshot.time-retained": "10 d", "snapshot.num-retained.min": "1", "changelog.time-retained": "11 d"}
    )
    try:
        fill(scene, random)
        scene.table.tag("short", ttl=DAY)
        scene.table.consumer("reader", 2)
        scene.now_ms -= random.randrange(3) * 20 * 60_000
        earlier = measure(scene.maintainer().table, "db/table")
    except RefusedError:
        return
    for _ in range(12):
        start_ms, end_ms = scene.now_ms, earlier.holds_until_ms
        assert end_ms > start_ms
        for at_ms in sorted({end_ms - 1, random.randrange(start_ms, end_ms)}):
            scene.now_ms = at_ms
            table = scene.maintainer().table
            again = remembered(table, earlier)
            assert again is not None
            new = replace(overview(table), measured_ms=earlier.overview.measured_ms, is_remembered=True)
            assert again.overview == new
        scene.now_ms = end_ms
        assert remembered(scene.maintainer().table, earlier) is None
        earlier = measure(scene.maintainer().table, "db/table")


@pytest.mark.parametrize("name", ["<script>", "\u202eevil", "x" * 1000])
def test_a_hostile_name(name: str) -> None:
    """It is carried as it is."""
    store = store_at()
    build(store, [ONE])
    assert measure(Maintainer(store).table, name).overview.name == name


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_the_figures_of_real_tables(fixtures_dir: Path, name: str) -> None:
    """Whatever engines wrote."""
    table = Maintainer(LocalStore(str(fixtures_dir / "tables" / name))).table
    found = overview(table)
    assert_explained(found, table)
    if not any(each.code in ("damaged_root", "missing_files") for each in found.findings):
        assert_shown(found, table)
