"""A run dies at any call and the next one finishes its plan: what is listed and undone afterwards is the truth."""

import contextlib

import pytest

from lakesweep.api.stored import list_plans, list_runs
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder
from tests.support.world import World

DECOUPLED = {
    "changelog-producer": "input",
    "changelog.num-retained.max": "20",
    "changelog.num-retained.min": "15",
    "snapshot.num-retained.min": "1",
}


def _stage(options: dict[str, str]) -> World:
    stage = World()
    stage.store = MemoryStore("memory://bucket/t", clock=lambda: stage.now_ms, versioned=True)
    stage.table = TableBuilder(stage.store, options=options)
    stage.replace_each(4)
    return stage


def _contents(stage: World) -> dict[str, bytes]:
    return {found.key: stage.store.read(found.key).data for found in stage.store.list("")}


@pytest.mark.parametrize("mode", ["death", "death_after"])
@pytest.mark.parametrize("options", [{}, DECOUPLED], ids=["plain", "decoupled"])
def test_the_run_that_finishes_a_plan_can_be_undone(options: dict[str, str], mode: str) -> None:
    """It takes back what the dead run deleted too, also where it had nothing left to delete itself."""
    normal = _stage(options)
    before = _contents(normal)
    normal.maintainer().expire()
    undone = 0
    for at in range(1, len(normal.switch.calls) + 1):
        stage = _stage(options)
        stage.switch = Switch(at, mode)
        with contextlib.suppress(ProcessDeathError):  # some calls may be fewer than in the normal run
            stage.maintainer().expire()
        call, stage.switch = stage.switch.calls[-1], Switch()
        where = f"at call {at}, {call}"
        maintainer = Maintainer(stage.store, control=stage.control, sleep=stage.sleep)
        if before.keys() - _contents(stage).keys():
            plans = list_plans(maintainer.table, 9)["plans"]
            assert {plan["status"] for plan in plans} & {"partial", "done"}, where

        stage.wait()
        maintainer.expire()
        assert _contents(stage).keys() == _contents(normal).keys(), where
        runs = list_runs(maintainer.table, 9)["runs"]
        if not runs:  # it died when all was done and recorded, and the table had no plan to finish
            continue
        report = maintainer.run("undo", run_id=runs[0]["run_id"])
        assert (report.status == "done") == runs[0]["undoable"], where
        if report.status == "done":
            undone += 1
            assert _contents(stage) == before, where
        else:
            assert report.refusal is not None and report.refusal.code == "unknown_result", where
    assert undone > 30
