"""Every row of the table of cases, planned by the fan-out (`tests/support/rows_by_engine.py`)."""

import pytest

from tests.support.fan_out import fan_out_plan, small_limits
from tests.support.rows_by_engine import plan_by, rows

globals().update(rows())


@pytest.fixture(autouse=True)
def _planned_apart(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    small_limits(monkeypatch, small_pages=False)
    plan_by(fan_out_plan, monkeypatch, request)
