"""Runs that deleted, expired or renamed tags are undone: files, then tags; or nothing changes."""

from contextlib import suppress
from typing import Any

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.storage.store import DeleteRequest
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.reader import assert_all_readable
from tests.support.world import World


class TaggedWorld(World):
    def __init__(self, *, versioned: bool = True) -> None:
        super().__init__(versioned=versioned, options={"tag.create-success-file": "true"})
        table = self.table
        table.commit("+A", statistics="s1", extra={"A": ("x.index",)}, index={"i1": {"A": (1,)}})
        table.commit("-A", "+B", index={"i2": {"B": (1,)}})
        table.commit("-B", "+C")
        for name, snapshot_id in (("t1", 1), ("t2", 2), ("there", 3)):
            table.tag(name, snapshot=snapshot_id)
            self.store.put(f"tag/tag-success-file/{name}_SUCCESS", b"{}")
        self.expire()
        for snapshot_id in (1, 2):
            self.store.put(f"snapshot/snapshot-{snapshot_id}", b"")
            table.remove(f"snapshot/snapshot-{snapshot_id}")


RUNS: dict[str, dict[str, Any]] = {
    "delete-tag": {"tag": ["t1", "there", "t2"]},
    "rename-tag": {"tag": "t1", "target_tag": "u1"},
    "expire-tags": {"pattern": "t*", "keep_last": "1"},
}


@pytest.mark.parametrize("operation", RUNS)
def test_all_comes_back(operation: str) -> None:
    world = TaggedWorld()
    before = world.bodies()
    run_id = world.run_id(operation, **RUNS[operation])
    assert world.bodies() != before
    dry = world.undo(run_id, execute=False)
    assert dry.status == "planned"
    assert world.undo(run_id).status == "done"
    assert world.bodies() == before
    assert_all_readable(world.table)
    assert world.undo(run_id).status == "nothing_to_do"


@pytest.mark.parametrize("operation", RUNS)
@pytest.mark.parametrize("mode", ["death", "death_after", "before", "after"])
def test_an_undo_may_break_at_any_call(operation: str, mode: str) -> None:
    """A tag that is back reads completely, and a second undo does the rest."""
    probe = TaggedWorld()
    before = probe.bodies()
    run_id = probe.run_id(operation, **RUNS[operation])
    switch = Switch()
    assert probe.undo(run_id, switch=switch).status == "done"
    for number in range(1, len(switch.calls) + 1):
        world = TaggedWorld()
        run_id = world.run_id(operation, **RUNS[operation])
        with suppress(ProcessDeathError, MaintenanceError):
            world.undo(run_id, switch=Switch(number, mode))
        assert_all_readable(world.table)
        if operation == "rename-tag":
            assert {"tag/tag-t1", "tag/tag-u1"} & world.bodies().keys()
        world.wait()
        report = world.undo(run_id)
        assert report.status in ("done", "nothing_to_do"), (number, switch.calls[number - 1], report)
        assert world.bodies() == before, (number, switch.calls[number - 1])


@pytest.mark.parametrize("operation", RUNS)
def test_another_tag_has_the_name(operation: str) -> None:
    world = TaggedWorld()
    run_id = world.run_id(operation, **RUNS[operation])
    world.table.tag("t1", snapshot=3)
    before = world.bodies()
    for execute in (False, True):
        report = world.undo(run_id, execute=execute)
        assert report.status == "refused"
        assert report.refusal is not None
        assert report.refusal.code == "tag_exists"
        assert "tag/tag-t1 is another tag now" in report.refusal.message
    assert world.bodies() == before


def test_a_file_that_would_stay_away_refuses() -> None:
    world = TaggedWorld()
    run_id = world.run_id("delete-tag", tag=["t1", "t2"])
    path = world.table.path("A")
    world.store.put(path, b"other")
    before = world.bodies()
    report = world.undo(run_id)
    assert report.status == "refused"
    assert world.bodies() == before


def test_without_versions_nothing_comes_back() -> None:
    world = TaggedWorld(versioned=False)
    run_id = world.run_id("delete-tag", tag=["t1"])
    report = world.undo(run_id)
    assert report.refusal is not None
    assert report.refusal.code == "not_versioned"


def test_a_success_file_that_was_not_there_is_no_matter() -> None:
    world = TaggedWorld()
    world.store.delete([DeleteRequest("tag/tag-success-file/t1_SUCCESS")])
    run_id = world.run_id("delete-tag", tag=["t1"])
    assert world.undo(run_id).status == "done"
    assert "tag/tag-t1" in world.bodies()


def test_the_new_name_stays_where_it_is_another_tag_by_now() -> None:
    world = TaggedWorld()
    run_id = world.run_id("rename-tag", tag="t1", target_tag="u1")
    world.table.tag("u1", snapshot=3)
    mine = world.bodies()["tag/tag-u1"]
    assert world.undo(run_id).status == "done"
    assert world.bodies()["tag/tag-u1"] == mine
    assert "tag/tag-t1" in world.bodies()
