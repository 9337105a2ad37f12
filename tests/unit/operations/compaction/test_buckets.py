"""`compact` of tables with a primary key: readers see the newest row of each key, and files get fewer."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from lakesweep.format.vectors.index_file import read_index_file
from lakesweep.operations.inspect.show import summarise
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.storage.store import Store
from tests.support.acting import Acting
from tests.support.faulty_store import FaultyStore
from tests.support.keyed_table import WITHOUT_VECTORS, KeyedTable, merged


@pytest.fixture
def table(tmp_path: Path) -> KeyedTable:
    """Three commits of a writer that does not compact."""
    made = KeyedTable(tmp_path)
    for _ in range(3):
        made.upsert()
    return made


def fill(table: KeyedTable) -> None:
    """Write rows enough that later files are small beside them, so that they stay on their level."""
    table.put({(dt, number): float(number) for dt in "ab" for number in range(3000)})
    table.compact(full=True)


def hidden(table: KeyedTable) -> int:
    """Return the number of rows that deletion vectors hide."""
    return sum(vector[3] or 0 for entry in table.index_files() for vector in entry.vectors)


def test_rows_of_level_0_become_visible(table: KeyedTable) -> None:
    assert table.rows() == [], "readers of a table with deletion vectors do not see level 0"
    report = table.compact()
    assert report.status == "done"
    assert (merged(report).files, len(table.data_files())) == (12, 4)
    table.check()
    assert table.newest().snapshot.commit_kind == "COMPACT"
    assert table.compact().status == "nothing_to_do"


@pytest.mark.parametrize("execute", [False, True])
def test_partitions_that_do_not_exist(table: KeyedTable, execute: bool) -> None:
    report = table.compact(partitions=("dt=c",), execute=execute)
    assert (report.status, merged(report).all_files) == ("nothing_to_do", 0)
    (warning,) = report.warnings
    assert warning.endswith(": no data file of its newest snapshot is in such a partition")


@pytest.mark.parametrize("full", [False, True])
def test_newer_rows_replace_older_ones(table: KeyedTable, full: bool) -> None:
    """Each round finds rows of earlier rounds on deeper levels."""
    fill(table)
    marks = 0
    for round_ in range(6):
        table.upsert(25)
        report = table.compact(full=full or round_ == 5)
        assert report.status == "done", report.refusal
        marks += merged(report).marked_rows
        table.check()
    assert (marks > 0) is not full
    assert hidden(table) == 0, "a full compaction leaves no hidden row"


def test_only_keys_of_deeper_files_are_read(table: KeyedTable) -> None:
    """They stay, and deletion vectors hide their old rows."""
    fill(table)
    before = table.data_files()
    changed = list(table.model)[:5]
    table.put(dict.fromkeys(changed, -1.0))
    report = table.compact()
    assert set(before) <= set(table.data_files())
    assert (merged(report).marked_rows, hidden(table)) == (5, 5)
    table.check()


def test_without_vectors(tmp_path: Path) -> None:
    table = KeyedTable(tmp_path, WITHOUT_VECTORS)
    for _ in range(3):
        table.upsert()
    assert table.compact(full=True).status == "done"
    table.check()
    assert table.index_files() == ()


def test_a_plan_changes_nothing(table: KeyedTable) -> None:
    before = table.keys()
    report = table.compact(execute=False)
    assert (report.status, table.keys()) == ("planned", before)
    buckets = merged(report).buckets
    assert buckets is not None
    assert [(each.partition, each.bucket, each.level_0_files, each.runs) for each in buckets] == [
        (f"dt={dt}", bucket, 3, 3) for dt in "ab" for bucket in (0, 1)
    ]
    assert sum(each.level_0_rows for each in buckets) == sum(each.rows for each in merged(report).partitions)
    json.dumps(report.to_json())


def test_somebody_must_say_that_nobody_else_compacts(tmp_path: Path) -> None:
    table = KeyedTable(tmp_path, {"write-only": "false"})
    table.upsert()
    before = table.keys()
    report = table.compact()
    assert report.refusal is not None
    assert (report.status, report.refusal.code, table.keys()) == ("refused", "not_alone", before)
    assert table.compact(sole_compactor=True).status == "done"
    table.check()


def test_one_partition(table: KeyedTable) -> None:
    table.compact(partitions=("dt=a",))
    assert {row["dt"] for row in table.rows()} == {"a"}
    table.compact()
    table.check()


def test_young_files_wait(table: KeyedTable) -> None:
    report = table.compact(level_0_ms=86_400_000, zone="UTC")
    assert (report.status, merged(report).busy_files) == ("nothing_to_do", 12)
    assert merged(report).idle_from_ms is not None
    assert table.compact(level_0_ms=0, zone="UTC").status in ("done", "nothing_to_do")


UNLOCKED = Catalog("filesystem")
PUBLISH: Callable[[str], bool] = lambda call: call.startswith("table put snapshot/snapshot-")  # noqa: E731
LISTS: Callable[[str], bool] = lambda call: call.startswith("table put manifest/manifest-list")  # noqa: E731


@pytest.mark.parametrize("when", [PUBLISH, LISTS])
def test_new_files_of_level_0_do_not_matter(table: KeyedTable, when: Callable[[str], bool]) -> None:
    act = Acting(when, table.upsert)
    report = table.compact(FaultyStore(table.store, act, "table"), catalog=UNLOCKED)
    assert (act.has_acted, report.status) == (True, "done")
    assert table.compact().status == ("done" if when is LISTS else "nothing_to_do"), "once sent, all is done anew"
    table.check()


@pytest.mark.parametrize("full", [False, True])
def test_after_another_compaction_at_the_last_moment_all_is_done_anew(table: KeyedTable, full: bool) -> None:
    act = Acting(PUBLISH, lambda: table.rival(partitions=("dt=a",), full=full))
    report = table.compact(FaultyStore(table.store, act, "table"), catalog=UNLOCKED)
    assert (act.has_acted, report.status, merged(report).written_files) == (True, "done", 2)
    table.check()


@pytest.mark.parametrize("full", [False, True])
def test_a_bucket_that_another_one_compacts_is_given_up(table: KeyedTable, full: bool) -> None:
    """The other one takes one partition; the buckets of the other partition are committed."""
    act = Acting(LISTS, lambda: table.rival(partitions=("dt=a",), full=full))
    report = table.compact(FaultyStore(table.store, act, "table"), catalog=UNLOCKED)
    assert report.refusal is not None
    assert (act.has_acted, report.status, report.refusal.code) == (True, "partial", "bins_lost")
    assert (merged(report).vain_files, merged(report).written_files) == (6, 2)
    assert {row["dt"] for row in table.rows()} == {"a", "b"}
    table.compact()
    table.check()


def test_rows_that_are_visible_again_are_hidden_again(table: KeyedTable) -> None:
    """A writer with an older view of a bucket replaces its index, which nothing in Paimon notices."""
    fill(table)
    table.put(dict.fromkeys(list(table.model)[:6], -1.0))
    former = table.newest().snapshot.index_manifest
    assert merged(table.compact()).marked_rows == 6
    forget_marks(table.store, former)
    assert len(table.rows()) == len(table.model) + 6, "each of these keys is seen twice"
    dry = table.compact(execute=False)
    assert any("visible again" in warning for warning in dry.warnings)
    table.upsert(5)
    report = table.compact()
    assert report.refusal is not None
    assert (report.status, report.refusal.code) == ("partial", "marks_lost")
    table.compact()
    table.check()
    assert table.compact().status == "nothing_to_do"


def forget_marks(store: Store, index_manifest: str | None) -> None:
    """Commit a snapshot with a former index manifest."""
    newest = max(int(each.key.rpartition("-")[2]) for each in store.list("snapshot/") if "snapshot-" in each.key)
    document = json.loads(store.read(f"snapshot/snapshot-{newest}", 1 << 20).data)
    document |= {"id": newest + 1, "commitUser": "writer", "uuid": "another", "indexManifest": index_manifest}
    if index_manifest is None:
        del document["indexManifest"]
    store.put(f"snapshot/snapshot-{newest + 1}", json.dumps(document).encode())


def test_vectors_of_a_bucket_lie_in_one_index_file(table: KeyedTable) -> None:
    fill(table)
    for _ in range(4):
        table.upsert(30)
        table.compact()
    entries = table.index_files()
    assert len({(entry.partition, entry.bucket) for entry in entries}) == len(entries)
    live = set(table.data_files())
    for entry in entries:
        body = table.store.read(f"index/{entry.file_name}", 1 << 20).data
        assert len(list(read_index_file(body, entry, entry.file_name))) == len(entry.vectors)
        assert {vector[0] for vector in entry.vectors} <= live


def test_a_schema_that_comes_while_the_table_is_looked_at(table: KeyedTable) -> None:
    """Its rules are not mixed with those of the former one."""

    def evolve() -> None:
        document = json.loads(table.store.read("schema/schema-0", 1 << 20).data)
        document |= {"id": 1, "options": {**document["options"], "ignore-delete": "true"}}
        table.store.put("schema/schema-1", json.dumps(document).encode())

    looks = count(1)
    acts = Acting(lambda call: call.startswith("table list schema/") and next(looks) == 2, evolve)
    report = table.compact(FaultyStore(table.store, acts, "table"))
    assert report.refusal is not None
    assert (acts.has_acted, report.status) == (True, "stale")
    assert table.compact().status == "done"
    table.check()


def test_level_0_is_merged_where_an_option_asks_for_it(tmp_path: Path) -> None:
    """Without deletion vectors readers see level 0, so by default fewer than five runs stay."""
    plain = KeyedTable(tmp_path / "plain", WITHOUT_VECTORS)
    forced = KeyedTable(tmp_path / "forced", {**WITHOUT_VECTORS, "force-lookup": "true"})
    for table in (plain, forced):
        table.upsert()
        table.upsert()
    assert (plain.compact().status, forced.compact().status) == ("nothing_to_do", "done")
    forced.check()


def test_show_says_what_waits_on_level_0(table: KeyedTable) -> None:
    shown = summarise(table.table(), levels=True).levels
    assert shown is not None
    assert (shown.bucket_count, shown.runs, shown.level_0_files, shown.due_buckets) == (4, 3, 12, 4)
    assert shown.level_0_since_ms is not None
    table.compact()
    after = summarise(table.table(), levels=True).levels
    assert after is not None
    assert (after.runs, after.level_0_files, after.level_0_rows, after.due_buckets) == (1, 0, 0, 0)
    assert summarise(table.table()).levels is None, "not asked for"
