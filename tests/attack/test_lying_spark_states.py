"""The stored state of a scan on Spark says that manifests were read, but lacks the names in them."""

from dataclasses import replace

import pytest

from lakesweep.control.ndjson import pack, unpack
from lakesweep.model.plan import Plan
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.scan import OPERATION
from lakesweep.runs.execution import require_area
from lakesweep.runs.run import execute_stored, plan_and_execute, plan_only
from lakesweep.runs.session import Table
from lakesweep.spark.state import scans_of
from tests.support.orphan_scene import OrphanScene
from tests.support.spark_stand_in import stand_in_plan

STATE = "s/state.ndjson.gz"


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("kept", [0, 1])
def test_no_live_file_is_deleted(kept: int, is_stored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan names live files. The run asks all present roots before the first deletion, and refuses the plan."""
    scene = OrphanScene()
    scene.table.commit("+A", "+B")
    scene.table.commit("+C", "-A")
    scene.orphan("o")
    scene.age()

    def table() -> Table:
        return replace(scene.maintainer().table, sleep=lambda _: None)

    area = scans_of(require_area(table()))
    stand_in_plan(monkeypatch, table(), OrphanArguments(), "s")
    rows = list(unpack(area.read(STATE).data, STATE))
    live = [row for row in rows if "live" in row]
    assert len(live) == 2
    area.put(STATE, pack([row for row in rows if row not in live[kept:]]))
    before = scene.listed()

    def planner(found: Table) -> Plan:
        return stand_in_plan(monkeypatch, found, OrphanArguments(), "s")

    if is_stored:
        planned = plan_only(table(), OPERATION, planner).plan
        assert planned is not None
        assert planned.header.action_count > 1
        report = execute_stored(table(), planned.header.plan_id)
    else:
        report = plan_and_execute(table(), OPERATION, planner)

    assert report.refusal is not None
    assert report.refusal.code == "names_live_files"
    assert scene.listed() == before
