"""The wheel has every file of the package, and `pip install 'lakesweep[cli]'` of it works in a clean environment."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.support.wheel import WHEELS, built_wheel, clean_environment, install_cli
from tests.unit.cli.command_line import write_table

PROGRAM = """
from datetime import timedelta

from lakesweep import Document, LeaseHeldError, MaintenanceError, Report, RunError, Table


def tidy(place: str) -> int:
    table = Table(place, control="s3://ops/lakesweep", progress=lambda what, done, total: None)
    try:
        plan: Report = table.plan("expire-snapshots", older_than=timedelta(days=3), retain_min=5)
        report = table.execute(plan, grace="10 min")
    except LeaseHeldError:
        return 0
    except RunError as error:
        return error.report.deleted
    shown: Document = table.show(pinned=True, tag="month-end")
    print(shown["snapshots"], table.files(snapshot=3)["files"], report.status, report.refusal)
    for batch in table.read_batches(columns=["id"], where="id > 5"):
        print(batch.num_rows)
    return report.deleted


failures: tuple[type[Exception], ...] = (MaintenanceError,)
"""
WRONG = {
    "table.files(snapshott=3)": "call-arg",
    "table.show(tag=5)": "arg-type",
    "table.execute(5)": "arg-type",
    "table.plan(5)": "arg-type",
    "table.runs().nothing": "attr-defined",
    "table.run('maintain').deleted.upper()": "attr-defined",
    "import lakesweep; lakesweep.Tables": "attr-defined",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    """Also those that are no modules: the mark of types, and templates of pages."""
    names = subprocess.run(
        ["git", "ls-files", "shared/lakesweep"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    with zipfile.ZipFile(wheel) as archive:
        found = set(archive.namelist())
    expected = {name.removeprefix("shared/") for name in names if (REPOSITORY / name).exists()}
    assert "lakesweep/py.typed" in expected
    assert expected <= found
    assert {name.partition("/")[0] for name in found} == {"lakesweep", "lakesweep-0.1.0.dist-info"}


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a clean environment with the command line."""
    if not WHEELS.is_dir():
        pytest.skip("no wheels of the command line's packages: run `make wheels`")
    python = clean_environment(tmp_path_factory.mktemp("clean") / "environment")
    install_cli(python, wheel)
    return python


def test_the_commands_run_where_nothing_else_is_installed(python: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "orders", options={"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"})

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        own = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        program = str(python.with_name("lakesweep"))
        return subprocess.run(
            [program, *map(str, words)], env=own, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    shown = run("--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "maintain" in shown.stdout
    planned = run("maintain", "orders", "--json")
    assert planned.returncode == 0
    plan = json.loads(planned.stdout)
    assert (plan["status"], len(plan["steps"])) == ("planned", 1)
    done = run("maintain", "orders", "--execute", "--json")
    assert json.loads(done.stdout)["status"] == "done"
    checked = run("check", "orders", "--json")
    assert (checked.returncode, json.loads(checked.stdout)["status"]) == (0, "healthy")
    code = "from lakesweep import Table; print(Table('orders').show()['snapshots']['count'])"
    counted = subprocess.run([str(python), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert counted.stdout == "2\n"


def test_reading_rows_without_the_extra_says_what_to_install(python: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "orders")
    code = """
from lakesweep import Table, MaintenanceError
try:
    Table("orders").read()
except MaintenanceError as error:
    print(error)
"""
    said = subprocess.run([str(python), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "lakesweep[read]" in said.stdout


def test_a_program_is_checked_against_the_installed_types(python: Path, tmp_path: Path) -> None:
    """Strictly, as somebody who uses the package would; and mistakes are found."""
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(PROGRAM)
    lines = "\n".join(f"    {line}" for line in WRONG)
    wrong.write_text(f"from lakesweep import Table\n\n\ndef call(table: Table) -> None:\n{lines}\n")

    def check(path: Path) -> list[str]:
        words = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--python-executable={python}"]
        words += ["--cache-dir", str(tmp_path / "cache"), "--no-error-summary", "--hide-error-context", str(path)]
        own = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
        return subprocess.run(
            words, cwd=tmp_path, env=own, capture_output=True, text=True, check=False
        ).stdout.splitlines()

    assert check(right) == []
    found = [line for line in check(wrong) if ": error:" in line]
    for number, code in enumerate(WRONG.values(), 5):
        assert any(line.startswith(f"wrong.py:{number}:") and f"[{code}]" in line for line in found), (number, found)
