"""A command that is started in a folder which somebody has deleted says so, or needs no folder."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["show", "orders"], 2),
        (["runs", "../orders"], 2),
        (["show", "/nonexistent/orders", "--json"], 3),
        (["maintain", "/nonexistent/orders", "--control", "control"], 2),
        (["maintain", "/nonexistent/orders", "--policy", "policy.json", "--execute"], 2),
    ],
)
def test_a_command_in_a_deleted_folder(words: list[str], code: int, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = "import os, sys; os.rmdir(os.getcwd()); from lakesweep.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, *words]
    found = subprocess.run(command, cwd=gone, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == code, found
    assert "Traceback" not in found.stderr
    assert "this is a bug" not in found.stderr
    if code == 2:
        assert "the working directory does not exist any more" in found.stderr
