"""Which data files have rows of a condition, in whatever root."""

import io
import json
from dataclasses import replace

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakesweep.errors import StorageError
from tests.support.erasure_world import ErasureWorld
from tests.support.faulty_store import Switch
from tests.support.world import HOUR_MS


def test_rows_under_vectors_and_in_files_that_only_older_snapshots_have() -> None:
    world = ErasureWorld()
    first, second, third = world.append(1, 2, 3), world.append(4, 5), world.append(2, 9, dt="e")
    world.delete("id = 2")
    found = world.search("id = 2")
    assert (found.holds, found.may_hold, found.rows) == ({first, third}, {}, 2)
    new = world.compact(first, second)
    assert world.search("id = 2").holds == {first, third}
    assert world.search("id = 4").holds == {second, new}
    assert world.search("dt = 'e'").holds == {third} and world.search("dt = 'e'").searched_files == 0
    assert [(each.words, each.state) for each in world.look(found) if each.kind == "snapshot"] == [
        ("snapshots 1 to 5", "there")
    ]


def test_a_file_that_cannot_be_read_may_have_rows() -> None:
    world = ErasureWorld()
    names = [world.append(1, 2 if number == 2 else 3, 10) for number in range(5)]
    world.store.put(world.files[names[1]].path, b"x" * world.files[names[1]].size)
    world.lose(world.files[names[3]].path)
    found = world.search("id = 2")
    assert (found.holds, found.may_hold) == ({names[2]}, {names[1]: "damaged", names[3]: "missing"})
    assert [(each.words, each.state) for each in world.look(found) if each.kind == "snapshot"] == [
        ("snapshot 2", "unknown"),
        ("snapshots 3 to 5", "there"),
    ]


def alter(world: ErasureWorld, fields: list[tuple[int, str, str]], branch: str = "main") -> None:
    """Write schema 1: id, name and type of each column."""
    folder = "" if branch == "main" else f"branch/branch-{branch}/"
    document = json.loads(world.store.read("schema/schema-0").data)
    document |= {"id": 1, "fields": [{"id": number, "name": name, "type": type_} for number, name, type_ in fields]}
    world.store.put(f"{folder}schema/schema-1", json.dumps(document).encode())


def append(world: ErasureWorld, schema_id: int, branch: str = "main", **columns: str) -> str:
    """Commit a file of one row with some columns, and return its name."""
    target = io.BytesIO()
    parquet.write_table(pa.table({name: [text] for name, text in columns.items()}), target)
    file = replace(world._write([1], "d"), size=len(target.getvalue()), schema_id=schema_id, stats=None)
    world.store.put(file.path, target.getvalue())
    world.files[file.name] = file
    world.foreign(adds=[file])
    if branch != "main":
        path = f"snapshot/snapshot-{world.ids()[-1]}"
        world.store.put(f"branch/branch-{branch}/{path}", world.store.read(path).data)
        world.lose(path)
    return file.name


V, DT, ID = (0, "v", "STRING"), (1, "dt", "STRING"), (2, "id", "BIGINT")


@pytest.mark.parametrize(
    ("fields", "where", "holds", "may_hold"),
    [
        ([(0, "text", "STRING"), DT, ID], "text = 'secret'", True, False),
        ([(0, "text", "STRING"), DT, ID], "text = 'other'", False, False),
        ([DT, ID, (7, "v", "STRING")], "v = 'secret'", False, True),
        ([DT, ID, (7, "v", "STRING")], "v = 'other'", False, True),
        ([V, DT, ID, (7, "w", "STRING")], "w = 'secret'", False, False),
        ([V, DT, ID, (7, "w", "STRING")], "w IS NULL", True, False),
        ([(0, "v", "VARCHAR(3)"), DT, ID], "v = 'secret'", False, True),
        ([(0, "v", "VARCHAR(3)"), DT, ID], "v = 'sec'", True, False),
        ([(0, "v", "INT"), DT, ID], "v = 5", False, True),
    ],
)
def test_a_file_of_an_older_schema(fields: list[tuple[int, str, str]], where: str, holds: bool, may_hold: bool) -> None:
    """Readers of older versions may have seen the column that had the name, or values that a cast has cut."""
    world = ErasureWorld()
    name = append(world, 0, v="secret", dt="d")
    alter(world, fields)
    found = world.search(where)
    assert (found.holds, found.may_hold) == ({name} if holds else set(), {name: "other_columns"} if may_hold else {})


def test_a_branch_whose_columns_have_other_ids() -> None:
    """A file is searched with the columns of a branch that has it."""
    world = ErasureWorld()
    world.append(1)
    world.branch_off("b")
    alter(world, [V, DT, ID, (7, "x", "STRING")])
    alter(world, [V, DT, ID, (7, "y", "STRING"), (8, "x", "STRING")], "b")
    ours = append(world, 1, v="v", dt="d", x="secret")
    world.lose(f"snapshot/snapshot-{world.ids()[-1]}")
    world.tag("kept", 1)
    theirs = append(world, 1, "b", v="v", dt="d", y="other", x="secret")
    assert world.search("x = 'secret'").names == {theirs}
    assert world.search("x = 'other'").names == set()
    world.lose("branch/branch-b/schema/schema-1")
    assert world.search("x = 'secret'").may_hold == {theirs: "other_columns"}
    assert ours not in world.search("x = 'secret'").names


def test_a_search_opens_each_file_once() -> None:
    """Statistics rule files out, and however many roots need a file, it is opened once."""
    world = ErasureWorld()
    names = [world.append(number * 10, number * 10 + 5) for number in range(4)]
    for number in range(3):
        world.tag(f"t{number}")
    found, requests = world.spent(world.search, "id = 12")
    assert (found.searched_files, found.names) == (1, set()) and names
    assert requests["get"] == 23


def test_a_file_that_only_manifests_tell_of() -> None:
    """An expiry deleted the file, and its statistics are still in manifests: nobody knows whether it had such rows."""
    world = ErasureWorld()
    first, other = world.append(1, 770_077_007), world.append(3, 4)
    world.overwrite(first, other)
    world.append(5)
    world.now_ms += HOUR_MS
    world.expire()
    found = world.search("id = 770077007")
    assert (found.holds, found.may_hold, found.searched_files) == (set(), {first: "unneeded"}, 0)
    assert len({key for key in world.grep(770_077_007) if key.startswith("manifest/")}) == 2
    (place,) = (place for place in world.look(found) if place.kind == "manifest")
    assert (place.state, place.count) == ("unknown", 2)


def test_a_search_that_breaks_says_less_of_no_file() -> None:
    """Whatever request fails, the search fails."""
    world = ErasureWorld()
    names = {world.append(1, 7), world.append(2, 7)}
    world.tag("t")
    calls, whole = Switch(), world.search("id = 7")
    world.switch = calls
    world.search("id = 7")
    assert whole.holds == names
    for at in range(1, len(calls.calls) + 1):
        world.switch = Switch(at)
        with pytest.raises(StorageError):
            world.search("id = 7")
