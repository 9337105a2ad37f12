"""Scans that the local engine is tested with, planned by the fan-out (`tests/support/scans_by_engine.py`)."""

from collections.abc import Iterator
from itertools import count

import pytest

from lakesweep.model.plan import Plan
from lakesweep.model.scans import OrphanArguments
from lakesweep.runs.session import Table
from tests.support.fan_out import fan_out_plan, small_limits
from tests.support.scans_by_engine import planned_by, scans

_WITHOUT = frozenset(
    {
        # The message of a worker that failed comes again; `tests/fault/test_fan_out.py` breaks requests.
        "test_a_request_that_fails",
    }
)
_LONG = frozenset(
    {
        "test_a_branch_becomes_main_and_goes",
        "test_a_manifest_of_many_roots_is_read_once",
        "test_a_table_that_keeps_one_snapshot",
        "test_a_tag_is_moved_while_roots_are_collected",
    }
)
globals().update(scans(_WITHOUT, _LONG))


@pytest.fixture(autouse=True)
def _planned_apart(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    small_limits(monkeypatch, small_pages=False)
    numbers = count(1)

    def plan(table: Table, arguments: OrphanArguments) -> Plan:
        """Plan by a scan with an id of its own: one that has ended is not made again."""
        return fan_out_plan(table, arguments, scan_id=f"scan-{next(numbers)}")

    with planned_by(plan, monkeypatch, request):
        yield
