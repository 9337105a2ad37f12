"""Each exit code that `--help` names is what a user gets in a scene of it."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import reference
from tests.unit.cli.command_line import call, write_table

RETENTION = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
LAKESWEEP = (sys.executable, "-m", "lakesweep")
EPILOG = call("--help").printed.split("Exit codes:", 1)[1].split("\n\n", 1)[0]
TOLD = {int(code) for code in re.findall(r"(?<![\w-])(\d+)(?= [a-z]|, \d)", " ".join(EPILOG.split()))}


def done(folder: Path) -> int:
    """A plan is executed."""
    return call("maintain", folder, "--execute").exit_code


def unwritten(folder: Path) -> int:
    """The disk of the output is full."""
    with Path("/dev/full").open("w") as full:
        return subprocess.run(
            [*LAKESWEEP, "show", str(folder)], stdout=full, stderr=subprocess.DEVNULL, check=False
        ).returncode


def mistyped(folder: Path) -> int:
    """A number is a word."""
    return call("expire-snapshots", folder, "--retain-max", "nine").exit_code


def refused(folder: Path) -> int:
    """The schema states no retention."""
    write_table(folder.parent / "silent")
    return call("maintain", folder.parent / "silent", "--execute").exit_code


def damaged(folder: Path) -> int:
    """A list that readers of a tag need cannot be read."""
    table = write_table(folder.parent / "damaged", options=RETENTION)
    table.tag("broken", snapshot=1)
    table.corrupt(f"manifest/{table.document('tag/tag-broken')['deltaManifestList']}")
    return call("maintain", folder.parent / "damaged", "--execute").exit_code


def busy(folder: Path) -> int:
    """Another run waits for readers, and holds the lease."""
    with waiting(folder):
        return call("maintain", folder, "--execute").exit_code


def findings(folder: Path) -> int:
    """Snapshots are due, and nobody expires them."""
    return call("check", folder).exit_code


def stopped_by(number: signal.Signals) -> Callable[[Path], int]:
    """A signal comes while a run waits for readers."""

    def stop(folder: Path) -> int:
        with waiting(folder) as process:
            process.send_signal(number)
            printed, _ = process.communicate(timeout=60)
            code = json.loads(printed)["refusal"]["code"]
            assert code == ("interrupted" if number == signal.SIGINT else "terminated")
            return process.returncode

    return stop


@contextmanager
def waiting(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run an expiry that waits an hour for readers before it deletes files."""
    line = [*LAKESWEEP, "expire-snapshots", str(folder), "--grace", "1 h", "--execute", "--json"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while (folder / "snapshot" / "snapshot-3").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


SCENES: dict[int, Callable[[Path], int]] = {
    0: done,
    1: unwritten,
    2: mistyped,
    3: refused,
    4: damaged,
    5: busy,
    6: findings,
    129: stopped_by(signal.SIGHUP),
    130: stopped_by(signal.SIGINT),
    143: stopped_by(signal.SIGTERM),
}


@pytest.mark.parametrize("code", sorted(TOLD | SCENES.keys()))
def test_a_scene_ends_with_its_exit_code(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code of `--help` without a scene fails here, too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LAKESWEEP_CONTROL", raising=False)
    write_table(tmp_path / "orders", options=RETENTION)
    assert SCENES[code](tmp_path / "orders") == code


def test_a_branch_called_main_is_refused(tmp_path: Path) -> None:
    """Its documents could be taken for those of the table."""
    table = write_table(tmp_path / "orders", options=RETENTION)
    table.store.put("branch/branch-main/schema/schema-0", b"{}")
    answer = call("show", tmp_path / "orders", "--json")
    assert (answer.exit_code, answer.document["error"]["code"]) == (3, "two_main_branches")


def test_help_and_page_name_the_same_codes() -> None:
    """`docs/cli_json.md` describes each code of `--help`, and no other."""
    rows = reference.words()["exit_codes"]["rows"]
    assert {int(code) for codes in rows for code in codes.split(", ")} == TOLD == SCENES.keys()
