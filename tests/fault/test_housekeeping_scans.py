"""Housekeeping before every message of a scan: the scan finds what it finds alone."""

from dataclasses import replace

import pytest

from lakesweep.model.control_retention import ControlRetention
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.plan import Plan
from lakesweep.operations.housekeeping.location import Call, house_of_table
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from tests.support.engines_compared import ask, differences
from tests.support.fan_out import small_limits
from tests.support.fan_out_stage import fan_out, stage
from tests.support.orphan_scene import DAY_MS


@pytest.mark.parametrize("days", [37, 39, 60])
def test_a_scan_beside_housekeeping(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    """It uses what a scan weeks ago remembered, or what is left of it."""
    small_limits(monkeypatch, LIST_PAGES=3, MATCH_ROWS=40)
    scene, table, arguments = stage()
    fan_out(scene, table, arguments, scan_id="first").run()
    scene.now_ms += days * DAY_MS
    arguments = replace(arguments, older_than_ms=scene.now_ms - DAY_MS)
    expected = ask(lambda: plan_remove_orphan_files(table, arguments), require_area(table))
    gone: set[str] = set()

    def tidy(body: str) -> None:
        call = Call(FleetPolicy("", (), control=ControlRetention()), execute=True)
        house = house_of_table(table, call).tables[0]
        assert house.status in ("done", "nothing_to_do"), house
        gone.update(each.kind for each in house.going)

    scan = fan_out(scene, table, arguments, scan_id="second", before=tidy)

    def planned() -> Plan:
        plan = scan.run().plan
        assert plan is not None
        return plan

    found = ask(planned, require_area(table))
    assert scan.failures == [] and differences(expected, found) == {}
    assert gone == ({"scan"} if days < 40 else {"scan", "segment"})
