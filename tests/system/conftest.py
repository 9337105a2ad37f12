"""The functions as they are built, and with small limits, so that small tables meet all of them."""

import pytest

from tests.support.system.altered import SMALL, altered
from tests.support.system.build import Build, build_here


@pytest.fixture(scope="session")
def build() -> Build:
    return build_here()


@pytest.fixture(scope="session")
def small(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Several batches of deletions, and the larger plans in the larger executor."""
    return altered(build, tmp_path_factory.mktemp("small") / "build", SMALL)


@pytest.fixture(scope="session")
def batches(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Several batches of deletions, all in `expire`."""
    changes = {"execute/batches.py": SMALL["execute/batches.py"]}
    return altered(build, tmp_path_factory.mktemp("batches") / "build", changes)
