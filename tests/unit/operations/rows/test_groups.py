"""Which index files are written anew, and what they get."""

from pathlib import Path

import pytest

from lakesweep.errors import RefusedError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.vector import read_vector, vector_of
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.rows import groups as module
from lakesweep.operations.rows.groups import Change, groups_of
from lakesweep.operations.rows.writing import write_group
from lakesweep.table.contents.index import index_of
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_schema
from tests.support.deleting import DeletingTable
from tests.support.rows_read import planned


@pytest.fixture
def table(tmp_path: Path) -> DeletingTable:
    """Three data files of one partition; the first two have a vector in one index file."""
    made = DeletingTable(tmp_path)
    for number in range(3):
        made.add("a", range(number * 10, number * 10 + 10))
    made.delete("id IN (1, 11)")
    return made


def files_of(table: DeletingTable) -> list[ReadFile]:
    """Return the data files, those with a vector first."""
    files = [file for split in planned(table.store).splits for file in split.files]
    return sorted(files, key=lambda file: file.vector is None)


def index_and_schema(table: DeletingTable) -> tuple[RawIndex | None, TableSchema]:
    def corrupt(problem: str) -> RefusedError:
        return RefusedError(problem)

    schema = read_schema(table.store, discover(table.store).branches["main"])
    return index_of(table.store, table.newest().snapshot, corrupt), schema


BLOB = bytes(vector_of((5,), 32).blob)


def test_vectors_of_files_that_are_gone_are_not_copied(table: DeletingTable) -> None:
    first, second, _ = files_of(table)
    name = second.path.rpartition("/")[2]
    index, schema = index_and_schema(table)
    (group,) = groups_of([Change(first, BLOB)], index, schema, dangling={(second.partition, 0, name)})
    assert group.leaving == {name}
    written = write_group(table.store, schema, group)
    assert [vector[0] for entry in written.entries for vector in entry.vectors] == [first.path.rpartition("/")[2]]
    assert written.changed_rows == 1
    (kept,) = groups_of([Change(first, BLOB)], index, schema)
    assert len([vector for entry in write_group(table.store, schema, kept).entries for vector in entry.vectors]) == 2


def test_a_vector_whose_index_file_is_not_listed(table: DeletingTable) -> None:
    first, *_ = files_of(table)
    with pytest.raises(RefusedError) as error:
        groups_of([Change(first, BLOB)], None, index_and_schema(table)[1])
    assert error.value.code == "corrupt_vectors"


def test_many_changes_go_into_several_groups(table: DeletingTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """New vectors join the group of an index file, as long as there is room."""
    index, schema = index_and_schema(table)
    changes = [Change(file, BLOB) for file in files_of(table)]
    assert [len(group.positions) for group in groups_of(changes, index, schema)] == [3]
    monkeypatch.setattr(module, "MOST_GROUP_BYTES", 1)
    groups = groups_of(changes, index, schema)
    assert [(len(group.former), len(group.positions)) for group in groups] == [(1, 2), (0, 1)]
    positions = {name: read_vector(blob, None, "") for group in groups for name, blob in group.positions.items()}
    assert [vector.cardinality for vector in positions.values()] == [1, 1, 1]


def test_a_file_that_leaves_without_a_vector_needs_no_group(table: DeletingTable) -> None:
    *_, third = files_of(table)
    index, schema = index_and_schema(table)
    assert third.vector is None
    assert groups_of([Change(third, None)], index, schema) == ()
