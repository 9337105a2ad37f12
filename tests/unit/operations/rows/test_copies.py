"""`delete-rows` of tables without deletion vectors: data files are rewritten without the rows."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import FormatError
from lakesweep.format.manifest import APPEND
from lakesweep.format.row_entries import RowEntry
from lakesweep.model.commits.rows import RewrittenFiles
from lakesweep.operations.rows.engine import LocalEngine
from lakesweep.operations.undo.undo import undo
from lakesweep.operations.writing import options
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.rewriting import RewrittenBin, Work
from lakesweep.storage.local.store import LocalStore
from lakesweep.table.reach.row_files import row_files
from tests.support.deleting import DeletingTable, rows_of
from tests.support.rows_read import planned


@pytest.fixture
def table(tmp_path: Path) -> DeletingTable:
    """Three partitions; `a` has two data files."""
    made = DeletingTable(tmp_path, {"deletion-vectors.enabled": "false"})
    made.add("a", range(10))
    made.add("a", range(10, 20))
    made.add("b", range(20, 30))
    made.add("c", range(30, 40))
    return made


def set_options(table: DeletingTable, options: dict[str, str]) -> None:
    """Change options of the table behind everybody's back."""
    path = table.folder / "db.db" / "t" / "schema" / "schema-0"
    document = json.loads(path.read_text())
    document["options"] |= options
    path.write_text(json.dumps(document))


def rewritten(report: Any) -> RewrittenFiles:
    found = rows_of(report).rewritten
    assert found is not None
    return found


def new_entries(table: DeletingTable, files: set[str]) -> list[RowEntry]:
    """Return the entries of live data files with other names."""
    entries = row_files(table.store, table.newest(), with_stats=False)
    return [each for each in entries if each.entry.file_name not in files]


def test_rows_go_and_the_others_stay(table: DeletingTable) -> None:
    """A row for which the condition is null stays; a file that loses nothing stays as it is."""
    files, before, total = table.data_files(), table.rows(), table.newest().snapshot.total_record_count
    report = table.delete("price > 24 OR id = 3")
    assert report.status == "done"
    expected = [row for row in before if row["id"] != 3 and not (row["price"] or 0) > 24]
    assert sorted(map(str, table.rows())) == sorted(map(str, expected))
    assert sorted(map(str, table.rows_of_pypaimon())) == sorted(map(str, expected))
    assert len(set(files) & set(table.data_files())) == 1, "the second file of a"
    assert rewritten(report).to_json() | {"bytes": 0, "written": 0} == {
        "files": 3, "bytes": 0, "kept_rows": 9 + 6 + 1, "written": 0,
    }  # fmt: skip
    assert (rewritten(report).written_files, rows_of(report).whole_files) == (3, 0)
    snapshot = table.newest().snapshot
    assert (snapshot.commit_kind, snapshot.delta_record_count) == ("OVERWRITE", -rows_of(report).rows)
    assert total is not None and snapshot.total_record_count == total - rows_of(report).rows
    assert (rows_of(report).made[0].files, rows_of(report).made[0].rows) == (3, rows_of(report).rows)
    assert table.delete("price > 24 OR id = 3").status == "nothing_to_do"


def test_a_new_file_has_the_rows_of_one_file_in_their_order(table: DeletingTable) -> None:
    """Its entry is that of a writer: not of a compaction, with sequence numbers from 0."""
    files = set(table.data_files())
    table.delete("id IN (1, 15)")
    new = [
        each for each in row_files(table.store, table.newest(), with_stats=False) if each.entry.file_name not in files
    ]
    assert [(each.entry.row_count, each.entry.file_source, each.entry.level) for each in new] == [(9, APPEND, 0)] * 2
    assert [each.min_sequence for each in new] == [0, 0]
    ids = [row["id"] for row in table.rows() if row["dt"] == "a"]
    assert ids in ([*range(1), *range(2, 15), *range(16, 20)], [*range(10, 15), *range(16, 20), 0, *range(2, 10)])
    assert planned(table.store, where="dt = 'a' AND id = 15").counts.files == 1, "statistics say what it may have"
    assert planned(table.store, where="dt = 'a' AND id < 0").counts.files == 0


def test_a_file_of_which_every_row_goes_leaves(table: DeletingTable) -> None:
    files = table.data_files()
    report = table.delete("id < 10 OR dt = 'c'")
    assert (rows_of(report).whole_files, rewritten(report).files, rewritten(report).written_files) == (2, 0, 0)
    assert set(table.data_files()) < set(files) and table.ids() == list(range(10, 30))
    report = table.delete("dt = 'b'")
    assert (report.status, table.ids()) == ("done", list(range(10, 20)))


def test_a_plan_says_what_is_rewritten_and_changes_nothing(table: DeletingTable) -> None:
    before = table.keys()
    report = table.delete("id IN (1, 2, 11)", execute=False)
    sizes = {file.path: file.size_bytes for split in planned(table.store).splits for file in split.files}
    size = sum(size for path, size in sizes.items() if path.startswith("dt=a"))
    assert rewritten(report) == RewrittenFiles(files=2, bytes=size, kept_rows=17)
    assert (report.status, table.keys()) == ("planned", before)
    (shown,) = rows_of(report).shown_by or ()
    assert shown.roots == "snapshots 1 to 4" and shown.is_certain
    table.delete("id IN (1, 2, 11)")
    older = rows_of(table.delete("id IN (1, 2, 11)", execute=False)).shown_by or ()
    assert [each.roots for each in older] == ["snapshots 1 to 4"]


def test_the_size_of_new_files(table: DeletingTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group is about as large as the target, so one file becomes several."""
    monkeypatch.setattr(options, "LEAST_TARGET_BYTES", 1)
    report = table.delete("id = 5", options={"target-file-size": "100 b"})
    assert (rewritten(report).files, rewritten(report).kept_rows) == (1, 9)
    assert rewritten(report).written_files > 1
    assert table.ids() == [each for each in range(40) if each != 5]


@pytest.mark.parametrize("stated", ["by the call", "by the policy", "nowhere"])
def test_new_files_have_the_creation_time_of_the_writers_clocks(table: DeletingTable, stated: str) -> None:
    zone, files = "Pacific/Kiritimati", set(table.data_files())
    opened = table.table()
    if stated == "by the policy":
        policy = LocalStore(str(table.folder / "policy"))
        policy.put(
            "policy.json",
            json.dumps({"version": 1, "rules": [{"tables": table.store.location, "time_zone": zone}]}).encode(),
        )
        opened = table.table(policy=f"{policy.location}/policy.json", open_store=LocalStore)
    table.delete("id = 5", table=opened, zone=zone if stated == "by the call" else None)
    (new,) = new_entries(table, files)
    offset = 0 if stated == "nowhere" else 14 * 3_600_000
    assert new.created_ms is not None
    assert abs(new.created_ms - offset - table.newest().snapshot.time_ms) < 60_000


def test_vectors_from_before_they_were_switched_off(tmp_path: Path) -> None:
    """Readers see their rows again. So they are found, and those that the condition does not choose stay."""
    table = DeletingTable(tmp_path)
    for first in (0, 10, 20):
        table.add("a", range(first, first + 10))
    table.delete("id IN (1, 2, 11, 12, 21)")
    set_options(table, {"deletion-vectors.enabled": "false"})
    assert table.ids() == list(range(30))
    planned_ = table.delete("id IN (2, 3)", execute=False)
    report = table.delete("id IN (2, 3)")
    for each in (planned_, report):
        assert (rows_of(each).rows, rewritten(each).kept_rows) == (2, 8)
    assert table.ids() == [0, 1, *range(4, 30)]
    assert rewritten(table.delete("id >= 10 AND id < 20 AND id <> 12")).kept_rows == 1
    assert table.ids() == [0, 1, *range(4, 10), 12, *range(20, 30)]
    set_options(table, {"deletion-vectors.enabled": "true"})
    assert table.ids() == [0, 1, *range(4, 10), 12, 20, *range(22, 30)]
    names = {vector[0] for entry in table.index_files() for vector in entry.vectors}
    assert len(names) == 1 and names < set(table.data_files())
    assert table.delete("id = 20").status == "done"


@dataclass(frozen=True, slots=True)
class Twice(LocalEngine):
    """Rewrites each bin twice, as an executor may whose answer is lost. One answer counts."""

    def rewrite(self, work: Work, bins: Sequence[Bin]) -> Sequence[RewrittenBin]:
        for each in bins:
            LocalEngine.rewrite(self, work, [each])
        return LocalEngine.rewrite(self, work, bins)


def test_a_copy_of_a_task_leaves_orphans(table: DeletingTable) -> None:
    before = table.keys()
    report = table.delete("id IN (1, 15, 33)", engine=Twice(table.table()))
    assert (report.status, rewritten(report).written_files) == ("done", 3)
    assert table.ids() == [each for each in range(40) if each not in (1, 15, 33)]
    new = {key for key in table.keys() - before if "/data-" in key}
    assert len(new) == 6 and sum(key.rpartition("/")[2] in table.data_files() for key in new) == 3


@dataclass(frozen=True, slots=True)
class Losing(LocalEngine):
    """Says that less was written than there is."""

    def rewrite(self, work: Work, bins: Sequence[Bin]) -> Sequence[RewrittenBin]:
        made = LocalEngine.rewrite(self, work, bins)
        return [replace(each, files=(replace(each.files[0], rows=each.rows - 1),)) for each in made]


def test_rows_in_are_rows_out(table: DeletingTable) -> None:
    newest = table.newest().snapshot.id
    with pytest.raises(FormatError, match="expected 9 rows to stay, found 8"):
        table.delete("id = 1", engine=Losing(table.table()))
    assert table.newest().snapshot.id == newest


def test_no_document_holds_a_value_of_the_condition(table: DeletingTable, tmp_path: Path) -> None:
    report = table.delete("id = 7 OR id = 918273645")
    assert report.status == "done" and "918273645" not in json.dumps(report.to_json())
    assert not any(b"918273645" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("where", ["id = 3", "id < 10"])
def test_an_undo_is_refused(table: DeletingTable, where: str) -> None:
    """Paimon's expiry deletes a file that has left, whatever later snapshots name. The sentence says what helps."""
    report = table.delete(where)
    assert report.run_id is not None
    before = table.keys()
    refused = undo(table.table(), report.run_id, execute=True)
    assert refused.refusal is not None
    assert (refused.status, refused.refusal.code) == ("refused", "files_rewritten")
    assert "rollback TABLE --as-latest --snapshot 4" in refused.refusal.message
    assert table.keys() == before


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
        ({"deletion-vectors.enabled": "perhaps"}, "bad_option"),
    ],
)
def test_tables_that_are_refused_by_name(table: DeletingTable, options: dict[str, str], code: str) -> None:
    set_options(table, options)
    before = table.keys()
    report = table.delete("id = 1")
    assert report.refusal is not None, report
    assert (report.refusal.code, table.keys()) == (code, before)
