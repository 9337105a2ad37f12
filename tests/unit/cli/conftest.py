"""A table in a folder, and a control location that the environment names."""

from pathlib import Path

import pytest

from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import write_table

RULES = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return write_table(tmp_path / "orders", options=RULES)


@pytest.fixture
def folder(table: TableBuilder, tmp_path: Path) -> Path:
    return tmp_path / "orders"


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    return tmp_path / "control"
