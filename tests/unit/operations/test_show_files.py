"""`show` and `files`: facts about a table, held against what is known of it."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, RefusedError, UsageError
from lakesweep.format.manifest import read_manifest_list
from lakesweep.model.roots import TableRef
from lakesweep.operations.inspect.files import list_files
from lakesweep.operations.inspect.show import summarise
from lakesweep.operations.inspect.table_summary import ShownLive, ShownSnapshot, ShownTag
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Body, Store, delete_all
from tests.support.fixture_tables import TABLE_NAMES, expected_facts
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TICK_MS, TableBuilder

NO_AREA: ControlArea | None = None


def table_at(store: Store, branch: str = "main") -> Table:
    def open_store(location: str) -> Store:
        raise AssertionError(f"nothing here opens {location}")

    return Table(TableRef(store.location, branch), store, NO_AREA, open_store)


@pytest.fixture
def builder() -> TableBuilder:
    table = TableBuilder(
        MemoryStore(),
        partition_keys=("dt", "n"),
        types={"n": "INT"},
        options={"snapshot.time-retained": "2 h", "tag.automatic-creation": "none", "bucket": "-1"},
    )
    table.commit("+A", "+B", partition=("2026-01-01", 7))
    table.commit("-A", "+C", partition={"A": ("2026-01-01", 7), "C": (None, None)}, rows={"C": 4}, size={"C": 99})
    table.commit("+D", partition=("x/y", 0))
    table.hint("EARLIEST", 1)
    table.hint("LATEST", 3)
    return table


def paths(builder: TableBuilder, version: Version, branch: str = "main") -> set[str]:
    return {file.path for file in list_files(table_at(builder.store, branch), version).files}


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_files_of_real_tables(fixtures_dir: Path, name: str) -> None:
    """Every snapshot of every branch of tables that engines wrote has exactly the files it should have."""
    facts = expected_facts(fixtures_dir, name)
    store = LocalStore(str(fixtures_dir / "tables" / name))
    for branch, expected in facts["branches"].items():
        table = table_at(store, branch)
        for snapshot in expected["snapshots"]:
            found = list_files(table, Version(snapshot_id=snapshot["id"]))
            assert found.snapshot_id == snapshot["id"]
            assert [file.path for file in found.files] == sorted(_path(file) for file in snapshot["live_files"])
            assert sum(file.rows for file in found.files) == snapshot["live_rows"]
            sizes = {_path(file): file.get("size") for file in snapshot["live_files"]}
            assert all(sizes[file.path] in (None, file.size_bytes) for file in found.files)


def _path(file: dict[str, Any]) -> str:
    path: str = file["path"]
    return path.removeprefix("FILE:")


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_summary_of_real_tables(fixtures_dir: Path, name: str) -> None:
    """Keys, ids, counts and rows of tables that engines wrote."""
    facts = expected_facts(fixtures_dir, name)
    for branch, expected in facts["branches"].items():
        shown = summarise(table_at(LocalStore(str(fixtures_dir / "tables" / name)), branch))
        assert set(shown.branches) == set(facts["branches"])
        assert shown.schema_id == expected["schema_ids"][-1]
        if branch == "main":
            assert list(shown.partition_keys) == facts["partition_keys"]
            assert list(shown.primary_keys) == facts["primary_keys"]
        snapshots = expected["snapshots"]
        assert shown.snapshots.count == len(snapshots)
        if not snapshots:
            assert (shown.snapshots.latest, shown.live) == (None, None)
            continue
        assert shown.snapshots.earliest is not None
        assert shown.snapshots.latest is not None
        assert (shown.snapshots.earliest.id, shown.snapshots.latest.id) == (snapshots[0]["id"], snapshots[-1]["id"])
        assert shown.live is not None
        assert (shown.live.files, shown.live.rows) == (len(snapshots[-1]["live_files"]), snapshots[-1]["live_rows"])
        assert not any(hint.off for hint in shown.hints)


def test_the_latest_version_is_the_default(builder: TableBuilder) -> None:
    """Nothing asked for: the newest snapshot, sorted by path."""
    found = list_files(table_at(builder.store), Version())
    assert found.snapshot_id == 3
    assert [file.path for file in found.files] == sorted(builder.live("main", 3))


def test_a_file_says_what_the_manifest_says(builder: TableBuilder) -> None:
    """Size, rows, level, bucket, and the partition as text, null as null."""
    document = list_files(table_at(builder.store), Version(snapshot_id=2)).to_json()
    files: Any = document["files"]
    assert tuple(document) == ("table", "branch", "snapshot_id", "tag", "files")
    (file,) = [file for file in files if file["path"] == builder.path("C")]
    assert file == {
        "path": builder.path("C"),
        "size_bytes": 99,
        "rows": 4,
        "level": 0,
        "bucket": 0,
        "partition": {"dt": None, "n": None},
    }
    (other,) = [file for file in files if file["path"] == builder.path("B")]
    assert other["partition"] == {"dt": "2026-01-01", "n": "7"}


def test_partition_values_are_not_escaped(builder: TableBuilder) -> None:
    """The path is escaped, the value is not."""
    files = list_files(table_at(builder.store), Version()).files
    (file,) = [file for file in files if file.path == builder.path("D")]
    assert file.path.startswith("dt=x%2Fy/n=0/")
    assert file.partition == {"dt": "x/y", "n": "0"}


def test_versions(builder: TableBuilder) -> None:
    """By snapshot, by tag, by time; a tag keeps its version when its snapshot is gone."""
    builder.tag("first", snapshot=1)
    first, second = builder.live("main", 1), builder.live("main", 2)
    builder.remove("snapshot/snapshot-1")
    assert paths(builder, Version(tag="first")) == first
    assert paths(builder, Version(snapshot_id=2)) == second
    for time_ms, expected in ((TICK_MS, 2), (2 * TICK_MS - 1, 2), (2 * TICK_MS, 3), (10**15, 3)):
        assert list_files(table_at(builder.store), Version(timestamp_ms=time_ms)).snapshot_id == expected
    with pytest.raises(RefusedError, match=r"committed at 1970-01-01T00:09:59\.999"):
        list_files(table_at(builder.store), Version(timestamp_ms=TICK_MS - 1))


def test_the_snapshot_of_a_time_among_many() -> None:
    """Every time finds its snapshot, and where a clock went backwards one of that time or before, as in the engine."""
    table = TableBuilder(MemoryStore())
    times = [100 * number for number in range(1, 41)]
    times[20] = 150  # snapshot 21 claims to be older than those before it
    for time_ms in times:
        table.commit(time_ms=time_ms)
    for now_ms in range(100, 4100, 50):
        found = list_files(table_at(table.store), Version(timestamp_ms=now_ms)).snapshot_id
        assert found is not None
        if 2000 < now_ms < 2200:
            assert found == 21  # the halving meets it, and goes on above
        else:
            assert found == now_ms // 100
        assert times[found - 1] <= now_ms


@pytest.mark.parametrize("version", [Version(snapshot_id=9), Version(tag="none"), Version(snapshot_id=-1)])
def test_versions_that_are_not_there(builder: TableBuilder, version: Version) -> None:
    """A version that does not exist is refused, never empty."""
    with pytest.raises(RefusedError) as raised:
        list_files(table_at(builder.store), version)
    assert raised.value.code == "no_such_version"


def test_one_version_at_a_time(builder: TableBuilder) -> None:
    """Two versions in one call contradict each other."""
    with pytest.raises(UsageError):
        list_files(table_at(builder.store), Version(snapshot_id=1, tag="first"))


def test_without_snapshots_there_are_no_files() -> None:
    """A new table has no version, and that is no error."""
    found = list_files(table_at(TableBuilder(MemoryStore()).store), Version())
    assert (found.snapshot_id, found.files) == (None, ())


def test_files_of_a_branch(builder: TableBuilder) -> None:
    """A branch has its own versions."""
    builder.tag("t", snapshot=1)
    branch = builder.branch("rt", from_tag="t")
    branch.commit("+E", partition=("2026-02-01", 1))
    assert paths(builder, Version(), "rt") == branch.live("rt", 2)
    assert paths(builder, Version(), "main") == builder.live("main", 3)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
@pytest.mark.parametrize("what", ["baseManifestList", "deltaManifestList", "manifest"])
def test_unreadable_metadata_is_refused(builder: TableBuilder, what: str, damage: str) -> None:
    """What cannot be read hides files, so none are listed or counted; `show` alone needs no manifest."""
    document = builder.document("snapshot/snapshot-3")
    if what == "manifest":
        path = next(found.key for found in builder.store.list("manifest/") if "manifest-list" not in found.key)
    else:
        path = f"manifest/{document[what]}"
    if damage == "missing":
        builder.remove(path)
    else:
        builder.corrupt(path)
    table = table_at(builder.store)
    reads: list[Callable[[], object]] = [
        lambda: list_files(table, Version()),
        lambda: summarise(table, pinned=True),
    ]
    if what == "manifest":
        live = summarise(table).live
        assert live is not None and live.files == 3
    else:
        reads.append(lambda: summarise(table))
    for read in reads:
        with pytest.raises(RefusedError) as raised:
            read()
        assert raised.value.code == "unreadable_root"
        assert path in str(raised.value)


def test_summary_of_roots(builder: TableBuilder) -> None:
    """Tags with and without a time to live, consumers, changelogs and branches."""
    builder.tag("forever", snapshot=1)
    builder.tag("month", snapshot=2, ttl=timedelta(days=30), create_time=datetime(2026, 1, 31, 12, 30))
    builder.consumer("search", 2)
    builder.consumer("export", 3)
    builder.changelog_document(1)
    builder.branch("rt", from_tag="forever")
    shown = summarise(table_at(builder.store))
    assert shown.branches == ("main", "rt")
    assert shown.tags == (
        ShownTag("forever", 1, 0, None, None),
        ShownTag("month", 2, TICK_MS, "2026-01-31T12:30:00", 30 * 86_400_000),
    )
    assert shown.consumers == {"export": 3, "search": 2}
    assert shown.changelogs.count == 1
    assert shown.changelogs.latest == ShownSnapshot(1, 0)
    assert shown.snapshots.earliest == ShownSnapshot(1, 0)
    assert shown.snapshots.latest == ShownSnapshot(3, 2 * TICK_MS)
    assert shown.live is not None
    assert (shown.live.files, shown.live.bytes, shown.live.manifests) == (3, None, 3)
    (warning,) = shown.warnings
    assert warning.startswith("1 tag has no time to live (of 2), ")
    assert "forever" in warning


class WatchedStore(MemoryStore):
    """Notes what is read."""

    def __init__(self, store: MemoryStore) -> None:
        self.__dict__.update(store.__dict__)
        self.names: list[str] = []

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        self.names.append(key)
        return super().read(key, max_bytes)


def test_show_reads_no_manifest(builder: TableBuilder) -> None:
    """Two manifest lists, however many tags there are; manifests only with `--pinned`, each once."""
    for number in (1, 2, 3):
        builder.tag(f"t{number}", snapshot=number)
    document = builder.document("snapshot/snapshot-3")
    lists = {f"manifest/{document[name]}" for name in ("baseManifestList", "deltaManifestList")}
    quick, thorough = WatchedStore(builder.store), WatchedStore(builder.store)
    shown = summarise(table_at(quick))
    assert sorted(name for name in quick.names if name.startswith("manifest/")) == sorted(lists)
    assert shown.live == ShownLive(3, bytes=None, rows=document["totalRecordCount"], manifests=3)
    measured = summarise(table_at(thorough), pinned=True).live
    files = list_files(table_at(builder.store), Version()).files
    size_bytes = sum(file.size_bytes for file in files)
    assert measured == ShownLive(3, size_bytes, rows=sum(file.rows for file in files), manifests=3)
    manifests = [name for name in thorough.names if name.startswith("manifest/") and "manifest-list" not in name]
    assert len(manifests) == len(set(manifests)) == 3


def test_a_changelog_pins_what_its_commit_added_and_nothing_of_its_base_is_read(builder: TableBuilder) -> None:
    """The base list of a changelog document names no file of it, so a lost manifest there refuses nothing."""
    base = f"manifest/{builder.document(builder.root(2))['baseManifestList']}"
    (first,) = read_manifest_list(builder.store.read(base).data, base)
    builder.commit("+E", merge_base=True)
    builder.tag("pin", snapshot=4)
    builder.changelog_document(2)
    for number in (1, 2, 3):
        builder.store.delete(delete_all([builder.root(number)]))
    builder.store.delete(delete_all([f"manifest/{first.file_name}"]))
    assert summarise(table_at(builder.store), pinned=True).live is not None


def test_a_snapshot_without_a_record_count(builder: TableBuilder) -> None:
    """What nothing states is `null`, until the manifests are read."""
    path = builder.root(3)
    document = builder.document(path)
    del document["totalRecordCount"]
    builder.store.put(path, json.dumps(document).encode())
    shown = summarise(table_at(builder.store)).live
    measured = summarise(table_at(builder.store), pinned=True).live
    assert shown is not None and measured is not None
    assert (shown.files, shown.rows, measured.files) == (3, None, 3)
    assert measured.rows == sum(file.rows for file in list_files(table_at(builder.store), Version()).files)


def test_retention_in_force(builder: TableBuilder) -> None:
    """The schema's rules, the defaults for the rest, and the options that they come from."""
    shown = summarise(table_at(builder.store))
    assert shown.retention is not None
    assert (shown.retention.retain_min, shown.retention.time_retained_ms) == (10, 7_200_000)
    assert shown.retention_stated
    assert shown.options == {"snapshot.time-retained": "2 h", "tag.automatic-creation": "none"}
    assert shown.warnings == ()


@pytest.mark.parametrize(
    ("options", "words", "readable"),
    [
        ({}, "states no retention", True),
        ({"snapshot.num-retained.min": "many"}, "snapshot.num-retained.min", False),
        ({"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "4"}, "retain_max is 4", False),
        ({"snapshot.time-retained": "1 h", "changelog.num-retained.min": "some"}, "changelog.num-retained.min", True),
    ],
)
def test_odd_retention_is_a_warning(options: dict[str, str], words: str, readable: bool) -> None:
    """Rules that maintenance would refuse are shown, not refused."""
    table = TableBuilder(MemoryStore(), options=options)
    table.commit("+A")
    shown = summarise(table_at(table.store))
    (warning,) = shown.warnings
    assert words in warning
    assert (shown.retention is not None) == readable


def test_changelogs_that_outlive_snapshots() -> None:
    """Their rules are shown beside those of the snapshots; else there are none."""
    table = TableBuilder(MemoryStore(), options={"snapshot.time-retained": "1 h", "changelog.time-retained": "9 d"})
    shown = summarise(table_at(table.store))
    assert shown.changelog_retention is not None
    assert shown.changelog_retention.time_retained_ms == 9 * 86_400_000
    table.alter(options={"changelog.time-retained": "1 h"})
    assert summarise(table_at(table.store)).changelog_retention is None


def test_hints_that_are_off(builder: TableBuilder) -> None:
    """A hint is held against what exists; a missing one is not off."""
    builder.hint("LATEST", 9)
    builder.store.put("snapshot/EARLIEST", b" 1")
    shown = summarise(table_at(builder.store))
    assert [(hint.path, hint.value, hint.expected, hint.off) for hint in shown.hints] == [
        ("snapshot/EARLIEST", None, 1, True),
        ("snapshot/LATEST", 9, 3, True),
    ]
    assert shown.warnings == (
        "snapshot/EARLIEST says no snapshot id; expected 1",
        "snapshot/LATEST says 9; expected 3",
    )
    builder.remove("snapshot/LATEST")
    assert [hint.path for hint in summarise(table_at(builder.store)).hints] == ["snapshot/EARLIEST"]


def test_summary_document(builder: TableBuilder) -> None:
    """The keys that `docs/cli_json.md` promises."""
    builder.tag("t", snapshot=1)
    builder.consumer("c", 2)
    document: Any = summarise(table_at(builder.store)).to_json()
    assert tuple(document) == (
        "table", "branch", "type", "schema_id", "partition_keys", "primary_keys", "options", "retention",
        "changelog_retention", "retention_stated", "retention_from", "policy", "branches", "snapshots", "changelogs",
        "tags", "consumers", "hints", "live", "manifests", "version", "deletion_vectors", "levels", "pins", "damage",
        "warnings",
    )  # fmt: skip
    assert tuple(document["retention"]) == ("retain_min", "retain_max", "time_retained_ms", "max_deletes")
    assert document["snapshots"]["latest"] == {"id": 3, "time_ms": 2 * TICK_MS}
    assert tuple(document["tags"][0]) == ("name", "snapshot_id", "time_ms", "created", "time_retained_ms")
    assert document["consumers"] == [{"id": "c", "next_snapshot": 2}]
    assert tuple(document["hints"][0]) == ("path", "value", "expected", "off")
    assert tuple(document["live"]) == ("files", "bytes", "rows", "manifests")
    assert tuple(document["manifests"]) == (
        "small", "max_count", "rewritten_bytes", "max_bytes", "is_due", "by_passes",
    )  # fmt: skip


@pytest.mark.parametrize(("most", "is_due"), [("3", False), ("2", True)])
def test_when_manifests_are_compacted(builder: TableBuilder, most: str, is_due: bool) -> None:
    """The base list of snapshot 4 has the manifests of three commits. Nobody declared a catalog, so no pass does it."""
    builder.commit("+E")
    builder.alter(options={"manifest.merge-min-count": most})
    shown = summarise(table_at(builder.store))
    assert shown.live is not None and shown.manifests is not None
    assert (shown.live.manifests, shown.manifests.small, shown.manifests.max_count) == (4, 3, int(most))
    assert (shown.manifests.is_due, shown.manifests.by_passes) == (is_due, False)


def test_thresholds_that_do_not_parse(builder: TableBuilder) -> None:
    builder.alter(options={"manifest.merge-min-count": "many"})
    shown = summarise(table_at(builder.store))
    assert shown.manifests is None
    assert any("manifest.merge-min-count" in warning for warning in shown.warnings)


def test_a_damaged_tag_is_refused(builder: TableBuilder) -> None:
    """What a tag that does not parse keeps is not known."""
    builder.tag("t", snapshot=1)
    builder.corrupt("tag/tag-t")
    with pytest.raises(RefusedError) as raised:
        summarise(table_at(builder.store))
    assert raised.value.code == "unreadable_root"
    assert not isinstance(raised.value, FormatError)
