"""Scans that the local engine is tested with, planned by the fan-out (`tests/support/scans_by_engine.py`)."""

import pytest

from tests.support.fan_out import fan_out_plan, small_limits
from tests.support.scans_by_engine import plan_by, scans

globals().update(scans())


@pytest.fixture(autouse=True)
def _planned_apart(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    small_limits(monkeypatch, small_pages=False)
    plan_by(fan_out_plan, monkeypatch, request)
