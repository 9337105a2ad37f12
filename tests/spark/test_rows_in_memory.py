"""Every row of the table of cases, planned by the Spark engine without a Spark (`tests/support/rows_by_engine.py`)."""

from functools import partial

import pytest

from tests.support.rows_by_engine import plan_by, rows
from tests.support.spark_stand_in import stand_in_plan

globals().update(rows())


@pytest.fixture(autouse=True)
def _planned_apart(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    plan_by(partial(stand_in_plan, monkeypatch), monkeypatch, request)
