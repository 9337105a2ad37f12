"""Which data files have rows of a condition, in whatever root."""

from tests.support.erasure_world import ErasureWorld


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
