"""`delete-rows`: which rows go, what the commit says, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from lakesweep.errors import UsageError
from lakesweep.runs.committing.catalog import Catalog
from tests.support.deleting import DeletingTable, rows_of


@pytest.fixture
def table(tmp_path: Path) -> DeletingTable:
    """Three partitions; `a` has two data files."""
    made = DeletingTable(tmp_path)
    made.add("a", range(10))
    made.add("a", range(10, 20))
    made.add("b", range(20, 30))
    made.add("c", range(30, 40))
    return made


def test_rows_go_and_the_others_stay(table: DeletingTable) -> None:
    files = table.data_files()
    report = table.delete("price > 24 OR id = 3")
    assert report.status == "done"
    assert table.ids() == [each for each in range(40) if each != 3 and (each <= 24 or not each % 7)]
    assert sorted(row["id"] for row in table.rows_of_pypaimon()) == table.ids()
    assert table.data_files() == files
    found = rows_of(report)
    assert (found.rows, found.files, found.whole_files, found.all_files) == (14, 3, 0, 4)


def test_a_row_stays_for_which_the_condition_is_null(table: DeletingTable) -> None:
    table.delete("price < 100")
    assert table.ids() == [0, 7, 14, 21, 28, 35]
    table.delete("NOT price < 100")
    assert table.ids() == [0, 7, 14, 21, 28, 35]
    table.delete("price IS NULL AND id > 7")
    assert table.ids() == [0, 7]


def test_the_commit(table: DeletingTable) -> None:
    """An OVERWRITE with an empty delta; the counts of rows do not change. Source: Paimon's own DELETE."""
    before = table.newest().snapshot
    table.delete("id IN (1, 22)")
    after = table.newest().snapshot
    assert (after.id, after.commit_kind) == (before.id + 1, "OVERWRITE")
    assert (after.total_record_count, after.delta_record_count) == (before.total_record_count, 0)
    assert table.newest().snapshot.index_manifest is not None


def test_a_file_of_which_every_row_goes_leaves_the_table(table: DeletingTable) -> None:
    before = table.newest().snapshot
    table.delete("id = 5")
    report = table.delete("id < 10 OR id = 22")
    after = table.newest().snapshot
    assert table.ids() == [*range(10, 22), *range(23, 40)]
    assert len(table.data_files()) == 3
    assert (before.total_record_count, after.total_record_count, after.delta_record_count) == (40, 30, -10)
    assert [vector[0] for entry in table.index_files() for vector in entry.vectors] != []
    assert sum(len(entry.vectors) for entry in table.index_files()) == 1, "that of the file that left is gone"
    assert (rows_of(report).rows, rows_of(report).whole_files) == (10, 1), "row 5 went before"


def test_a_partition_of_which_every_file_goes_is_dropped(table: DeletingTable) -> None:
    report = table.delete("id BETWEEN 20 AND 29")
    assert [each.partition for each in rows_of(report).partitions if each.loses_all] == ["dt=b"]
    assert report.commits is not None and report.commits.made[0].partitions == 1
    assert {row["dt"] for row in table.rows_of_pypaimon()} == {"a", "c"}


@pytest.mark.parametrize("where", ["dt = 'a'", "dt LIKE 'a%'", "dt IN ('a', 'x') AND dt IS NOT NULL"])
def test_a_condition_on_partition_keys_opens_no_data_file(table: DeletingTable, where: str) -> None:
    table.delete("id = 5")
    report = table.delete(where)
    found = rows_of(report)
    assert (found.searched_files, found.rows, found.whole_files) == (0, 19, 2)
    assert table.ids() == list(range(20, 40))


def test_index_files_keep_the_vectors_of_other_files(table: DeletingTable) -> None:
    table.delete("id = 1 OR id = 11")  # two data files share an index file
    assert len(table.index_files()) == 1
    table.delete("id = 2")
    assert len(table.index_files()) == 1
    assert table.ids() == [each for each in range(40) if each not in (1, 2, 11)]


def test_a_second_deletion_of_the_same_rows_commits_nothing(table: DeletingTable) -> None:
    table.delete("id = 1")
    before = table.keys()
    report = table.delete("id = 1")
    assert report.status == "nothing_to_do"
    assert table.keys() == before


@pytest.mark.parametrize("bitmap64", ["true", "false"])
def test_a_table_keeps_the_width_of_its_vectors(tmp_path: Path, bitmap64: str) -> None:
    table = DeletingTable(tmp_path, {"deletion-vectors.bitmap64": bitmap64})
    table.add("a", range(10))
    table.delete("id = 1")
    body = table.store.read(f"index/{table.index_files()[0].file_name}").data
    assert body[5:9].hex() == ("d1d33964" if bitmap64 == "true" else "5e43f2d0")
    table.delete("id = 2")
    assert table.ids() == [0, *range(3, 10)]


def test_a_dry_run_changes_nothing(table: DeletingTable) -> None:
    before = table.keys()
    report = table.delete("id < 4 OR dt = 'b'", execute=False)
    assert (report.status, rows_of(report).rows, rows_of(report).sample) == ("planned", 14, ())
    shown = table.delete("id < 2", execute=False, show_rows=True)
    assert [json.loads(line)["id"] for line in rows_of(shown).sample] == [0, 1]
    assert table.keys() == before


@pytest.mark.parametrize("where", ["true", "id > 5 OR id <= 5 OR id IS NULL"])
def test_a_condition_that_is_always_true_has_to_be_confirmed(table: DeletingTable, where: str) -> None:
    report = table.delete(where)
    assert report.refusal is not None and report.refusal.code == "always_true"
    assert "truncate" in report.refusal.message
    assert len(table.ids()) == 40
    assert table.delete(where, confirm=True).status == "done"
    assert table.ids() == []
    assert table.rows_of_pypaimon() == []


@pytest.mark.parametrize("where", ["false", "id < 3 AND id > 5", "NULL"])
def test_a_condition_that_is_never_true_reads_nothing(table: DeletingTable, where: str) -> None:
    report = table.delete(where)
    assert report.status == "nothing_to_do"
    assert rows_of(report).searched_files == 0


@pytest.mark.parametrize(
    "where", ["nothing = 1", "id = (SELECT 1)", "max(id) > 3", "rand() > 0.5", "id.x = 1", "id =", "", "id; id"]
)
def test_nonsense_is_refused_before_anything_is_read(table: DeletingTable, where: str) -> None:
    with pytest.raises(UsageError) as error:
        table.delete(where)
    assert error.value.code == "bad_where"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"primary_keys": ["dt", "id"]}, "primary_key_table"),
        ({"options": {"bucket": "2", "bucket-key": "id"}}, "bucketed_table"),
        ({"options": {"row-tracking.enabled": "true"}}, "row_tracking"),
        ({"options": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}}, "row_tracking"),
        ({"options": {"clustering.incremental": "true"}}, "clustering"),
        ({"options": {"commit.callbacks": "a.B"}}, "needs_engine_callbacks"),
        ({"options": {"metadata.iceberg.storage": "table-location"}}, "needs_engine_callbacks"),
        ({"options": {"chain-table.enabled": "true"}}, "needs_engine_callbacks"),
        ({"options": {"data-file.external-paths": "s3://elsewhere/x"}}, "external_paths"),
    ],
)
def test_tables_that_are_refused_by_name(tmp_path: Path, changes: dict[str, Any], code: str) -> None:
    options = changes.pop("options", {})
    table = DeletingTable(tmp_path, **changes)
    table.add("a", range(10))
    path = tmp_path / "db.db" / "t" / "schema" / "schema-0"
    document = json.loads(path.read_text())
    document["options"] |= options
    path.write_text(json.dumps(document))
    before = table.keys()
    report = table.delete("id = 1")
    assert report.refusal is not None, report.status
    assert (report.status, report.refusal.code) == ("refused", code)
    assert table.keys() == before


@pytest.mark.parametrize(("catalog", "code"), [(Catalog("rest"), "rest_catalog"), (Catalog(), "catalog_not_declared")])
def test_catalogs_that_are_refused(table: DeletingTable, catalog: Catalog, code: str) -> None:
    report = table.delete("id = 1", catalog=catalog)
    assert report.refusal is not None and report.refusal.code == code
    planned = table.delete("id = 1", catalog=catalog, execute=False)
    assert planned.status == "planned" and "this cannot be executed" in planned.warnings[0]


def test_no_document_holds_a_value_of_the_condition(table: DeletingTable, tmp_path: Path) -> None:
    def is_there(text: str) -> bool:
        return any(text in path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file())

    table.append([{"dt": "a", "id": 77, "price": 1.0}])
    report = table.delete("dt = 'a' AND (id = 77 OR id = 918273645)")
    assert "918273645" not in json.dumps(report.to_json())
    assert not is_there("918273645")
    table.delete("id = 918273645 OR id = 1", keep_condition=True)
    assert is_there("918273645")
