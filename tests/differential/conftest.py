"""One JVM for all differential tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesweep.operations.writing import options
from tests.differential.engine import Engine


@pytest.fixture(scope="session")
def engine(engine_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The Java engine, warm after the first table."""
    with Engine(tmp_path_factory.mktemp("engine"), engine_classpath) as engine:
        yield engine


@pytest.fixture(autouse=True)
def _few_rows_make_several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target of a few bytes is one, so that small tables show what happens with many files."""
    monkeypatch.setattr(options, "LEAST_TARGET_BYTES", 1)
