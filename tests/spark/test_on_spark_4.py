"""What is marked `spark4` also holds on Spark 4.0: in a process of its own, as one process imports one Spark."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.support.sampling import is_sampled

REPOSITORY = Path(__file__).resolve().parent.parent.parent
INSTALLED = REPOSITORY / "build" / "spark4"


def _files() -> list[str]:
    """Return the modules that have marked tests; importing the others takes seconds."""
    return [str(path) for path in sorted(Path(__file__).parent.glob("test_*.py")) if ".spark4" in path.read_text()]


@pytest.mark.slow
def test_the_marked_tests_pass_on_spark_4() -> None:
    if pyspark.__version__.startswith("4."):
        pytest.skip(f"these tests are on Spark {pyspark.__version__} already")
    if not (INSTALLED / ".installed").exists():
        pytest.skip("no Spark 4.0: run `make spark4-env`")

    path = os.pathsep.join(filter(None, [str(INSTALLED), os.environ.get("PYTHONPATH")]))
    # Not one of this run's workers: it has plugins, options and a count of its own.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    marked = "spark4 and not slow and not long" if is_sampled() else "spark4"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *_files(), "-m", marked, "-p", "no:cacheprovider"],
        cwd=REPOSITORY,
        env={**variables, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"\d+ passed", run.stdout), run.stdout
