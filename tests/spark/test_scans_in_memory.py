"""Scans that the local engine is tested with, planned by Spark's part without a Spark (`scans_by_engine.py`)."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.support.scans_by_engine import planned_by, scans
from tests.support.spark_stand_in import stand_in_plan

globals().update(scans())


@pytest.fixture(autouse=True)
def _planned_apart(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    with planned_by(partial(stand_in_plan, monkeypatch), monkeypatch, request):
        yield
