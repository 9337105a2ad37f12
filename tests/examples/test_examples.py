"""The files of examples/ run, in an environment of their own, with Lakesweep from its wheel."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lakesweep import Table
from tests.conftest import REPOSITORY
from tests.support.wheel import built_wheel, unpacked
from tests.unit.api.calls import write_lake

PYTHON = REPOSITORY / "build" / "examples" / "bin" / "python"
EXAMPLES = REPOSITORY / "examples"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="no environment of the examples: run `make examples-env`"),
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as its wheel has it."""
    folder = tmp_path_factory.mktemp("package")
    return unpacked(built_wheel(folder / "wheel"), folder / "site")


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Two tables that have something to expire."""
    written = write_lake(tmp_path, 3)
    for name in ("orders", "items"):
        shutil.copytree(tmp_path / "first" / "lake" / "orders", tmp_path / "wh" / "sales.db" / name)
    shutil.rmtree(written.control)
    return tmp_path / "wh"


def run(script: str, *words: object, package: Path, home: Path, **environment: object) -> dict[str, Any]:
    """Run a script in the environment of the examples and return what it printed last."""
    own = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": f"{package}:{EXAMPLES}",
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: str(value) for name, value in environment.items()},
    }
    done = subprocess.run(
        [str(PYTHON), str(Path(__file__).parent / script), *map(str, words)],
        env=own, cwd=home, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_notebook(package: Path, warehouse: Path, tmp_path: Path) -> None:
    """Every cell runs, also the one that executes the plan."""
    table, control = warehouse / "sales.db" / "orders", tmp_path / "control"
    found = run(
        "run_notebook.py", EXAMPLES / "notebook.ipynb",
        package=package, home=tmp_path, TABLE=table, LAKESWEEP_CONTROL=control,
    )  # fmt: skip
    assert not found["errors"]
    here = Table(table, control=control)
    (run_id,) = {row["run_id"] for row in here.runs()["runs"]}
    assert any(run_id in text for text in found["cells"])
    assert "id: int64" in found["cells"][-1]
    assert here.check(all_roots=True)["status"] in ("healthy", "findings")


def test_the_assets_of_dagster(package: Path, warehouse: Path, tmp_path: Path) -> None:
    """Both tables are maintained; the one whose lease was held, after another attempt."""
    control = tmp_path / "control"
    found = run("run_dagster.py", warehouse, control, package=package, home=tmp_path, DAGSTER_HOME="")
    assert found["ok"]
    assert found["retries"] == 1
    assert found["tried"] == [str(warehouse / "sales.db" / "orders")]
    assert found["assets"].keys() == {"sales/items/maintained", "sales/orders/maintained"}
    assert found["assets"]["sales/items/maintained"] == "done"
    assert Table(warehouse / "sales.db" / "items", control=control).runs()["runs"]


@pytest.mark.long
def test_the_dag_of_airflow(package: Path, warehouse: Path, tmp_path: Path) -> None:
    """Both tasks succeed."""
    control = tmp_path / "control"
    settings = {
        "AIRFLOW_HOME": tmp_path / "airflow",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": EXAMPLES,
        "WAREHOUSE": warehouse,
        "LAKESWEEP_CONTROL": control,
    }
    found = run("run_airflow.py", package=package, home=tmp_path, **settings)
    assert found["state"].endswith("success")
    assert len(found["tasks"]) == 2
    for name in ("orders", "items"):
        assert Table(warehouse / "sales.db" / name, control=control).runs()["runs"]
