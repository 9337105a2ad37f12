"""Which data files have rows of a condition, in whatever root."""

from lakesweep.model.erasure.places import ErasedFiles, Place, erased_files_of
from lakesweep.model.where.where import parse_where
from lakesweep.operations.erasure.places.look import look
from lakesweep.operations.erasure.places.tainted import tainted_files
from lakesweep.operations.rows.engine import LocalEngine
from lakesweep.runs.view import begin
from tests.support.row_world import RowWorld


def search(world: RowWorld, where: str) -> ErasedFiles:
    table = world.maintainer().table
    view = begin(table, "erase")
    found = tainted_files(view, parse_where(where, view.schema.fields), LocalEngine(view.table))
    assert erased_files_of(found.to_json(), "x") == found
    return found


def places(world: RowWorld, erased: ErasedFiles) -> list[Place]:
    return list(look(begin(world.maintainer().table, "erase"), erased))


def test_rows_under_vectors_and_in_files_that_only_older_snapshots_have() -> None:
    world = RowWorld()
    first, second, third = world.append(1, 2, 3), world.append(4, 5), world.append(2, 9, dt="e")
    world.delete("id = 2")
    found = search(world, "id = 2")
    assert (found.holds, found.may_hold, found.rows) == ({first, third}, {}, 2)
    new = world.compact(first, second)
    assert search(world, "id = 2").holds == {first, third}
    assert search(world, "id = 4").holds == {second, new}
    assert search(world, "dt = 'e'").holds == {third} and search(world, "dt = 'e'").searched_files == 0
    assert [(each.words, each.state) for each in places(world, found) if each.kind == "snapshot"] == [
        ("snapshots 1 to 5", "there")
    ]


def test_a_file_that_cannot_be_read_may_have_rows() -> None:
    world = RowWorld()
    names = [world.append(each, 10 + each) for each in range(5)]
    world.lose(world.files[names[1]].path)
    world.store.put(world.files[names[3]].path, b"x" * world.files[names[3]].size)
    found = search(world, "id = 2")
    assert (found.holds, found.may_hold) == ({names[2]}, {names[1]: "missing", names[3]: "damaged"})
    assert [(each.words, each.state) for each in places(world, found) if each.kind == "snapshot"] == [
        ("snapshot 2", "unknown"),
        ("snapshots 3 to 5", "there"),
    ]
