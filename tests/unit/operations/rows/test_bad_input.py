"""Damage that a deletion of rows meets: one clear sentence, and nothing changes."""

import json

import pytest

from tests.support.row_damage import DAMAGES, scene
from tests.support.row_world import RowWorld, rows_of


@pytest.mark.parametrize("name", DAMAGES)
def test_damage(name: str) -> None:
    """An execution and a dry run say the same of what both of them read."""
    damage, code = DAMAGES[name]
    for where in ("id IN (2, 8, 51)", "id < 7 OR id > 50"):  # some rows; all of a file
        world = scene()
        path = damage(world)
        before = world.bodies()
        found, sentence = world.refused(where)
        assert (found, path in sentence) == (code, True), sentence
        assert world.bodies() == before
        if name not in ("a longer index file", "another container"):
            assert world.refused(where, execute=False) == (found, sentence)


OF_VECTORS = (
    *("no index file", "a flipped bit in a vector", "a shorter index file", "a longer index file", "another container"),
    *("rows beyond the file", "more rows than the file has"),
)


def vectors_off(world: RowWorld) -> None:
    """Switch the vectors of a table off, so that data files are rewritten."""
    document = json.loads(world.store.read("schema/schema-0").data)
    document["options"]["deletion-vectors.enabled"] = "false"
    world.store.put("schema/schema-0", json.dumps(document).encode())


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_of_files_that_are_rewritten(name: str) -> None:
    """Nothing is committed, and what is left are orphans. Vectors from before leave unread: readers see none."""
    damage, code = DAMAGES[name]
    world = scene()
    path = damage(world)
    vectors_off(world)
    before = world.bodies()
    if name in OF_VECTORS:
        assert world.delete("id IN (2, 8, 51)").status == "done"
        assert (world.rows(), world.index_rows()) == ([1, 3, 4, 5, 6, 7, 9, 10, 21, 22], [])
        return
    found, sentence = world.refused("id IN (2, 8, 51)")
    assert (found, path in sentence) == (code, True), sentence
    new = world.bodies()
    assert before.items() <= new.items()
    assert all(key.startswith("dt=") and "/data-" in key for key in new.keys() - before.keys())


@pytest.mark.parametrize("name", ["no index file", "no data file", "noise"])
def test_damage_of_files_that_leave_without_a_look(name: str) -> None:
    """What is gone or damaged may be what somebody wants to drop. Their index file has no other vector."""
    for where, count in (("dt = 'd'", 8), ("dt = 'e'", 2)):
        world = scene()
        DAMAGES[name][0](world)
        report = world.delete(where)
        assert (report.status, rows_of(report).rows) == ("done", count), report
        assert len(world.live()) == (1 if where == "dt = 'd'" else 2)
