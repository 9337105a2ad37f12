"""A table at random for a module of tests."""

import pytest

from tests.unit.api.calls import Lake, write_lake


@pytest.fixture(scope="package")
def written(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return write_lake(tmp_path_factory.mktemp("lake"), 7)


@pytest.fixture
def lake(written: Lake) -> Lake:
    """A table as it was written."""
    written.reset()
    return written
