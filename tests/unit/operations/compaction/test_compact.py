"""`compact`: rows stay, files get fewer, deletion vectors go."""

import json
from collections.abc import Callable
from copy import copy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lakesweep.format.schema import TableSchema
from lakesweep.format.values.data_type import DataField, parse_data_type
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.operations.reading.types import arrow_type
from lakesweep.operations.writing.options import writing_of
from lakesweep.operations.writing.parquet import parquet_files
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Store
from tests.support.acting import Acting
from tests.support.deleting import DECLARED, DeletingTable
from tests.support.faulty_store import FaultyStore
from tests.support.rows_read import planned, read_rows


@pytest.fixture
def table(tmp_path: Path) -> DeletingTable:
    """Six data files in one partition, and one in another."""
    made = DeletingTable(tmp_path)
    for number in range(6):
        made.add("a", range(number * 10, number * 10 + 10))
    made.add("b", range(100, 110))
    return made


def run(table: DeletingTable, store: Store | None = None, *, execute: bool = True, **arguments: Any) -> RunReport:
    given = CompactArguments(**{"catalog": DECLARED, **arguments})
    return compact(table.table(store), given, execute=execute)


def found(report: RunReport) -> CompactionReport:
    assert isinstance(report.commits, CompactionReport), report.refusal
    return report.commits


def shown(table: DeletingTable) -> list[str]:
    return sorted(map(str, table.rows()))


def test_small_files_become_one(table: DeletingTable) -> None:
    before, ids = shown(table), table.ids()
    report = run(table)
    assert report.status == "done"
    assert (found(report).files, found(report).written_files, found(report).written_rows) == (6, 1, 60)
    assert len(table.data_files()) == 2
    assert shown(table) == before
    assert sorted(row["id"] for row in table.rows_of_pypaimon()) == ids
    assert run(table).status == "nothing_to_do"


def test_rows_stay_in_the_order_in_which_they_were_written(table: DeletingTable) -> None:
    """Every writer of such a table begins with the sequence number 0, so the time of writing decides."""
    run(table, full=True)
    assert [row["id"] for row in read_rows(table.store) if row["dt"] == "a"] == list(range(60))


def test_deleted_rows_go_for_good(table: DeletingTable) -> None:
    table.delete("id IN (3, 55) OR (id >= 20 AND id < 30) OR id = 101")
    before = shown(table)
    total = table.newest().snapshot.total_record_count
    run(table)
    assert shown(table) == before
    assert len(table.rows_of_pypaimon()) == len(before)
    snapshot = table.newest().snapshot
    assert (snapshot.commit_kind, snapshot.delta_record_count) == ("COMPACT", -2), "the file 20 to 29 left before"
    assert total is not None and snapshot.total_record_count == total - 2
    assert [vector[0] for entry in table.index_files() for vector in entry.vectors] != [], "that of partition b stays"
    assert all(entry.partition == table.index_files()[0].partition for entry in table.index_files())


def test_a_file_of_which_no_row_is_left(table: DeletingTable) -> None:
    """Such a file leaves without a new one."""
    table.delete("id < 60 AND id NOT IN (7, 14, 21, 28, 35, 42, 49, 56, 0)")
    table.delete("id IN (7, 14, 21, 28, 35, 42, 49, 0)")
    run(table)
    assert table.ids() == [56, *range(100, 110)]


def test_a_dry_run_changes_nothing(table: DeletingTable) -> None:
    before = table.keys()
    report = run(table, execute=False)
    assert (report.status, found(report).files, found(report).all_files) == ("planned", 6, 7)
    assert table.keys() == before


def test_statistics_of_a_new_file_rule_out_what_it_has_not(table: DeletingTable) -> None:
    run(table)
    for where, files in (("id = 60", 0), ("id = 59", 1), ("id < 0", 0), ("price < 1.0", 0), ("price <= 1.0", 1)):
        assert planned(table.store, where=f"dt = 'a' AND {where}").counts.files == files, where
    predicates = table.catalog.get_table("db.t").new_read_builder().new_predicate_builder()
    for value, rows in ((59, 1), (60, 0), (0, 1)):
        chosen = table.catalog.get_table("db.t").new_read_builder().with_filter(predicates.equal("id", value))
        splits = chosen.new_scan().plan().splits()
        assert (chosen.new_read().to_arrow(splits).num_rows if splits else 0) == rows


def test_columns_with_a_dictionary() -> None:
    """None that does not repeat its values, as in Java, and none of wide decimals.

    Paimon looks for such a decimal in a dictionary by other bytes than pyarrow writes there, and finds no row.
    """
    import pyarrow as pa
    from pyarrow import parquet

    types = {"wide": "DECIMAL(20, 6)", "narrow": "DECIMAL(18, 0)", "text": "STRING", "all": "BIGINT"}
    fields = [
        DataField(number, name, parse_data_type(type_, "a test")) for number, (name, type_) in enumerate(types.items())
    ]
    values = ([Decimal(1)] * 50, [Decimal(1)] * 50, ["a"] * 50, list(range(50)))
    arrays = [pa.array(each, arrow_type(field.type)) for each, field in zip(values, fields, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(types))
    schema = TableSchema(0, 3, tuple(fields), (), (), {}, 0, None)
    (made,) = parquet_files([batch], fields, writing_of(schema, fields))
    group = parquet.ParquetFile(pa.BufferReader(made.body)).metadata.row_group(0)
    assert [group.column(number).has_dictionary_page for number in range(4)] == [False, True, True, False]


def test_only_some_files(table: DeletingTable) -> None:
    """Each is rewritten, also alone, and without a reason in the table's options; none without deleted rows is."""
    table.delete("id IN (3, 101)")
    before, files = shown(table), table.data_files()
    one = next(each for each in files if (table.folder / "db.db/t/dt=b/bucket-0" / each).exists())
    assert run(table, execute=False, partitions=("dt=b",)).status == "nothing_to_do"
    assert found(run(table, only=frozenset({one}))).files == 1
    assert len(set(files) - set(table.data_files())) == 1
    report = run(table, only=frozenset(files))
    assert (found(report).files, found(report).written_files) == (1, 1), "5 other files of dt=a have no deleted row"
    assert table.index_files() == ()
    assert shown(table) == before


@pytest.mark.parametrize("partition", ["dt=a", "dt=b"])
def test_only_some_partitions(table: DeletingTable, partition: str) -> None:
    report = run(table, partitions=(partition,), execute=False)
    assert [each.partition for each in found(report).partitions] == (["dt=a"] if partition == "dt=a" else [])


@pytest.mark.parametrize("execute", [False, True])
def test_partitions_that_do_not_exist(table: DeletingTable, execute: bool) -> None:
    """Else a wrong name looks like a partition that needs nothing."""
    report = run(table, partitions=("dt=c",), execute=execute)
    assert (report.status, found(report).all_files) == ("nothing_to_do", 0)
    (warning,) = report.warnings
    assert warning == f"table {table.table().ref}: no data file of its newest snapshot is in such a partition"
    report = run(table, partitions=("dt=b", "dt=c"), execute=execute)
    assert (report.warnings, found(report).all_files) == ((), 1)


def test_a_partition_of_a_table_without_partitions(tmp_path: Path) -> None:
    """Nobody is told to empty the table."""
    table = DeletingTable(tmp_path, partition_keys=())
    table.add("a", range(3))
    report = run(table, partitions=("dt=a",))
    assert report.refusal is not None
    assert report.refusal.code == "not_partitioned"
    assert "truncate" not in report.refusal.message, report.refusal.message


def test_a_run_rewrites_no_more_bytes_than_it_is_told(table: DeletingTable) -> None:
    for number in range(20, 26):
        table.add("c", range(number * 10, number * 10 + 10))
    report = run(table, max_bytes=1)
    assert (found(report).files, found(report).waiting_files) == (6, 6), "one bin is always taken"


def others(table: DeletingTable) -> dict[str, Callable[[], object]]:
    """Return what another program may do, which does not know the control location of the run."""
    other = copy(table)
    other.control = LocalStore(str(table.folder / "another control"))
    return {
        "delete": lambda: other.delete("id = 5"),
        "append": lambda: other.add("a", range(200, 205)),
        "compact": lambda: run(other, full=True),
        "delete a file": lambda: other.delete("id < 10"),
        "delete elsewhere": lambda: other.delete("id = 105"),
    }


@pytest.mark.parametrize("when", ["table put dt=a", "table put manifest/manifest-list", "table put snapshot/snapshot-"])
@pytest.mark.parametrize("name", ["delete", "append", "compact", "delete a file", "delete elsewhere"])
def test_another_writer_commits_meanwhile(table: DeletingTable, name: str, when: str) -> None:
    """Right before a data file, a list or the snapshot is written. Once the snapshot was sent, all is done anew."""
    act = others(table)[name]
    before = set(table.ids())
    report = run(table, FaultyStore(table.store, Acting(lambda call: call.startswith(when), act), "table"))
    gone = {"delete": {5}, "delete a file": set(range(10)), "delete elsewhere": {105}}.get(name, set())
    came = set(range(200, 205)) if name == "append" else set()
    assert set(table.ids()) == (before - gone) | came
    assert len(table.ids()) == len(set(table.ids())), "no row twice"
    assert len(table.rows_of_pypaimon()) == len(table.ids())
    if name in ("append", "delete elsewhere"):
        assert (report.status, found(report).vain_files) == ("done", 0)
    elif "snapshot" not in when:
        assert (report.status, found(report).made) == ("stale", ()), "the only bin has lost a file"


def test_a_bin_that_lost_a_file_is_given_up_alone(table: DeletingTable) -> None:
    for number in range(20, 26):
        table.add("c", range(number * 10, number * 10 + 10))
    before = set(table.ids())
    act = Acting(lambda call: call.startswith("table put manifest/manifest-list"), others(table)["delete"])
    report = run(table, FaultyStore(table.store, act, "table"))
    assert (report.status, found(report).vain_files, found(report).written_files) == ("partial", 6, 1)
    assert set(table.ids()) == before - {5}


def test_a_bin_that_an_earlier_attempt_lost_is_not_told_of_again(table: DeletingTable) -> None:
    """First a bin loses a file, then somebody else compacts all of them: there is nothing left to do."""
    for number in range(20, 26):
        table.add("c", range(number * 10, number * 10 + 10))
    act = others(table)
    lose = Acting(lambda call: call.startswith("table put manifest/manifest-list"), act["delete"])
    overtake = Acting(lambda call: call.startswith("outer table put snapshot/snapshot-"), act["compact"])
    report = run(table, FaultyStore(FaultyStore(table.store, lose, "table"), overtake, "outer table"))
    assert lose.has_acted and overtake.has_acted
    assert (report.status, found(report).vain_files, found(report).files) == ("nothing_to_do", 0, 0)


def test_what_a_rollback_may_have_deleted_is_not_named_again(table: DeletingTable) -> None:
    """Paimon's rollback deletes the files of the snapshots that it takes away."""
    ids = table.ids()

    def roll_back() -> None:
        newest = table.newest().snapshot.id
        names = {each.name for each in (table.folder / "db.db" / "t" / "dt=a" / "bucket-0").iterdir()}
        (table.folder / "db.db" / "t" / "snapshot" / f"snapshot-{newest}").unlink()
        for name in names - set(table.data_files()):
            (table.folder / "db.db" / "t" / "dt=a" / "bucket-0" / name).unlink()
        table.add("b", range(300, 301))

    act = Acting(lambda call: call.startswith("table list snapshot/") and is_published(), roll_back)

    def is_published() -> bool:
        return table.newest().snapshot.commit_kind == "COMPACT"

    run(table, FaultyStore(table.store, act, "table"), catalog=Catalog("filesystem"))
    assert act.has_acted
    assert table.ids() == sorted([*ids, 300])
    assert len(table.rows_of_pypaimon()) == len(ids) + 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"file.format": "orc"}, "unsupported_file_format"),
        ({"row-tracking.enabled": "true"}, "row_tracking"),
        ({"clustering.incremental": "true"}, "clustering"),
        ({"file-index.bloom-filter.columns": "id"}, "unsupported_file_options"),
        ({"data-file.external-paths": "s3://x/y"}, "external_paths"),
        ({"commit.callbacks": "a.B"}, "needs_engine_callbacks"),
        ({"bucket": "4", "bucket-key": "id"}, "bucketed_table"),
        ({"target-file-size": "much"}, "bad_option"),
        ({"file.compression.zstd-level": "23"}, "bad_option"),
        ({"metadata.stats-mode": "some"}, "bad_option"),
    ],
)
def test_tables_that_are_refused_by_name(table: DeletingTable, options: dict[str, str], code: str) -> None:
    path = table.folder / "db.db" / "t" / "schema" / "schema-0"
    document = json.loads(path.read_text())
    document["options"] |= options
    path.write_text(json.dumps(document))
    before = table.keys()
    report = run(table)
    assert report.refusal is not None, report
    assert report.refusal.code == code
    assert table.keys() == before


def test_a_table_without_deletion_vectors(tmp_path: Path) -> None:
    table = DeletingTable(tmp_path, {"deletion-vectors.enabled": "false"}, partition_keys=())
    for number in range(5):
        table.add("a", range(number * 10, number * 10 + 10))
    before = shown(table)
    assert run(table).status == "done"
    assert shown(table) == before
    assert len(read_rows(table.store)) == 50


def test_a_partition_into_which_somebody_writes_stays(table: DeletingTable) -> None:
    """Afterwards it has a new file, so it is not idle for a while."""
    day_ms = 86_400_000
    report = run(table, idle_ms=day_ms, zone="UTC")
    assert (report.status, found(report).busy_files) == ("nothing_to_do", 6)
    idle_from_ms = found(report).idle_from_ms
    assert idle_from_ms is not None and idle_from_ms > table.table().store.now_ms() + day_ms - 600_000
    assert run(table, idle_ms=1, zone="UTC").status == "done"
