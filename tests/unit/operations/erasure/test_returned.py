"""Rows of an erasure that a rollback brings back, and a compaction copies into files that nobody has searched."""

import pytest

from lakesweep.storage.store import delete_all
from tests.support.row_world import as_latest
from tests.unit.operations.erasure.erasing import PERSON, WHERE, Erasing, erasure_of, found


@pytest.mark.parametrize("is_latest", [True, False])
def test_rows_that_a_rollback_brought_back(is_latest: bool) -> None:
    """Once the snapshot with the former files has expired, only the ids of snapshots and their times tell of it."""
    world = Erasing()
    erasure = erasure_of(world.erase())
    world.now_ms += 1
    if is_latest:
        as_latest(world, 3)
    else:
        world.run("rollback", snapshot=3, status="done")
    world.compact(*(name for name in world.live() if world.files[name].partition == ("d",)))
    for path in world.keys("tag/"):
        world.store.delete(delete_all([path]))
    world.later()
    planned = world.finish(erasure, execute=False)
    assert not planned.steps and any("rollback" in each for each in planned.warnings), "it plans what it would do"
    report = world.finish(erasure)
    assert PERSON in world.rows() and report.status == "partial", found(report).places
    assert any("rollback" in each for each in report.warnings)
    assert world.finish(erasure).status == "partial", "nothing expired that tells of it"
    again = world.finish(erasure, where=WHERE)
    assert PERSON not in world.rows() and again.status == "partial"
    world.later()
    world.finish(erasure)
    assert not world.showing()
