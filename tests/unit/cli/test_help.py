"""Help is quick, complete, and needs nothing that a command does not use."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from lakesweep import __version__
from lakesweep.cli.main import COMMANDS, GROUPS
from tests.unit.cli.command_line import call, write_table

NAMES = [
    *(each.name for each in COMMANDS),
    *(f"{group} {each.name}" for group, (_, commands) in GROUPS.items() for each in commands),
]
HEAVY = ("boto3", "botocore", "fastavro", "pyarrow", "pypaimon", "pyspark", "rich")
OTHERS = tuple(f"lakesweep.operations.{name}" for name in ("branches", "maintenance", "orphans", "tags", "undo"))
"""The capabilities that an expiry of snapshots does not need."""
CPU_SECONDS = 0.3


def run_python(code: str) -> str:
    """Run Python code in a process of its own, as a shell would start `lakesweep`."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_help_costs_little_cpu() -> None:
    """`lakesweep --help` stays below 0.3 s of CPU, the interpreter included."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "lakesweep", "--help"], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) <= CPU_SECONDS


@pytest.mark.parametrize("argv", [["--help"], ["expire-snapshots", "--help"]])
def test_help_imports_nothing_heavy(argv: list[str]) -> None:
    """Help needs no store, no metadata reader, no colours."""
    code = f"""
import json, sys
from lakesweep.cli.main import main
main({argv!r})
print()
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))
"""
    assert json.loads(run_python(code).splitlines()[-1]) == []


def test_the_retention_path_imports_no_cloud_and_no_cluster() -> None:
    """What a worker imports to expire snapshots is small."""
    code = """
import json, sys
import lakesweep.operations.registered.retention, lakesweep.operations.registry
print(json.dumps([name for name in ("boto3", "pyarrow", "pyspark", "rich", "typer") if name in sys.modules]))
"""
    assert json.loads(run_python(code)) == []


def test_a_local_table_needs_no_cloud(tmp_path: Path) -> None:
    """Maintaining a local table imports the metadata reader, and nothing for S3, ORC, terminals or other operations."""
    write_table(tmp_path / "orders")
    code = f"""
import json, sys
from lakesweep.cli.main import main
code = main(["expire-snapshots", {str(tmp_path / "orders")!r}, "--retain-min", "1", "--retain-max", "2", "--execute"])
print(json.dumps([code, *(name for name in {(*HEAVY, *OTHERS)!r} if name in sys.modules)]))
"""
    assert json.loads(run_python(code).splitlines()[-1]) == [0]


def test_show_imports_nothing_that_changes_a_table(tmp_path: Path) -> None:
    write_table(tmp_path / "orders")
    code = f"""
import json, sys
from lakesweep.cli.main import main
code = main(["show", {str(tmp_path / "orders")!r}])
print(json.dumps([code, *{{".".join(name.split(".")[:2]) for name in sys.modules}}]))
"""
    code, *packages = json.loads(run_python(code).splitlines()[-1])
    assert code == 0
    assert set(packages).isdisjoint({"lakesweep.aws", "lakesweep.execute", "lakesweep.spark"})


@pytest.mark.parametrize("command", NAMES)
def test_every_command_has_help_with_examples(command: str) -> None:
    """Each command says what it does, and shows how it is called."""
    answer = call(*command.split(), "--help")
    assert answer.exit_code == 0
    assert f"Usage: lakesweep {command} " in answer.printed
    assert "Examples:" in answer.printed
    assert f"  lakesweep {command}" in answer.printed
    assert not answer.messages


def test_help_lists_every_command() -> None:
    """`--help` names all commands and the exit codes."""
    answer = call("--help")
    assert all(f"\n  {command} " in answer.printed for command in [each.name for each in COMMANDS] + list(GROUPS))
    assert "Exit codes" in answer.printed


def test_version() -> None:
    """`--version` is one line."""
    assert call("--version").printed == f"lakesweep {__version__}\n"


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_no_command_is_a_usage_error(group: str) -> None:
    """Without a command there is the help, on standard error, in its own lines."""
    answer = call(*group.split())
    assert (answer.exit_code, answer.printed) == (2, "")
    assert answer.messages.startswith(f"Usage: lakesweep {group}".rstrip())
    assert "\nCommands:\n" in answer.messages


@pytest.mark.parametrize(
    "argv",
    [
        ["no-such-command"],
        ["show"],
        ["show", "a", "b"],
        ["show", "a", "--no-such-option"],
        ["expire-snapshots"],
        ["expire-snapshots", "a", "--retain-max"],
        ["files", "a", "--snapshot", "latest"],
        ["plans", "a", "--limit", "many"],
        ["execute", "a"],
        ["demo", "--commits", "x"],
    ],
)
def test_wrong_words_are_one_sentence(argv: list[str]) -> None:
    """The parser's errors exit with 2, and print one line."""
    answer = call(*argv)
    assert (answer.exit_code, answer.printed) == (2, "")
    (sentence,) = answer.sentences
    assert sentence.startswith("lakesweep: ")
    assert sentence.endswith("--help")


def test_the_module_is_the_command() -> None:
    """`python -m lakesweep` exits with the exit code of `main`."""
    done = subprocess.run(
        [sys.executable, "-m", "lakesweep", "show", os.devnull + "/none", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert json.loads(done.stdout)["error"]["code"] == "not_a_table"
