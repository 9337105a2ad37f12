"""One JVM for all differential tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.engine import Engine


@pytest.fixture(scope="session")
def engine(engine_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The Java engine, warm after the first table."""
    with Engine(tmp_path_factory.mktemp("engine"), engine_classpath) as engine:
        yield engine
