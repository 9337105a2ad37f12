"""From errors and reports to sentences and exit codes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lakesweep.api.outcome import exit_code_of
from lakesweep.cli.terminal import output
from lakesweep.errors import LeaseLostError, MaintenanceError, StorageError
from lakesweep.model.outcome import Outcome
from lakesweep.model.report import RunReport, Status
from lakesweep.storage.local.store import LocalStore
from tests.unit.cli.command_line import call, without_notice, write_table

RULES = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    write_table(tmp_path / "orders", options=RULES)
    return tmp_path / "orders"


def failing(error: BaseException, after: int = 0) -> Callable[..., object]:
    """Return a method that works `after` times and fails from then on."""
    calls = 0
    works = LocalStore.delete if after else None

    def method(self: LocalStore, *args: object) -> object:
        nonlocal calls
        calls += 1
        if works is not None and calls <= after:
            return works(self, *args)  # type: ignore[arg-type]
        raise error

    return method


@pytest.mark.parametrize(
    ("status", "outcome", "exit_code"),
    [
        ("planned", None, 0),
        ("done", Outcome(deleted=3), 0),
        ("nothing_to_do", None, 0),
        ("refused", None, 3),
        ("partial", Outcome(deleted=1), 4),
        ("stale", None, 3),
        ("stale", Outcome(), 3),
        ("stale", Outcome(deleted=1), 4),
    ],
)
def test_exit_codes(status: Status, outcome: Outcome | None, exit_code: int) -> None:
    """Every status has its exit code."""
    assert exit_code_of(RunReport("expire-snapshots", "/t", "main", status, outcome=outcome)) == exit_code


@pytest.mark.parametrize(
    ("error", "exit_code", "code"),
    [
        (StorageError("list /t: it is slow today"), 1, "storage"),
        (MaintenanceError("something", code="odd"), 1, "odd"),
        (ValueError("two\nlines"), 1, "internal"),
        (RecursionError("deep"), 1, "internal"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_are_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exit_code: int, code: str
) -> None:
    """No traceback, one line, and with --json a document all the same."""
    monkeypatch.setattr(LocalStore, "list", failing(error))
    maintained = call("expire-snapshots", folder, "--json", "--execute")
    assert (maintained.exit_code, maintained.document["refusal"]["code"]) == (exit_code, code)
    assert (maintained.document["status"], maintained.document["executed"]) == ("refused", False)
    read = call("show", folder, "--json")
    assert (read.exit_code, read.document["error"]["code"]) == (exit_code, code)
    for answer in (maintained, read):
        (sentence,) = answer.sentences
        assert sentence.startswith("lakesweep: ")
        assert ("this is a bug" in sentence) == (code == "internal")
    text = call("show", folder)
    assert (text.printed, len(text.sentences)) == ("", 1)


def test_debug_shows_the_traceback(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LAKESWEEP_DEBUG=1 is for those who look for the bug."""
    monkeypatch.setenv("LAKESWEEP_DEBUG", "1")
    monkeypatch.setattr(LocalStore, "list", failing(ValueError("bug")))
    assert "Traceback" in call("show", folder).messages


@pytest.mark.parametrize(
    ("error", "exit_code"), [(StorageError("it broke"), 4), (LeaseLostError("gone"), 4), (KeyboardInterrupt(), 130)]
)
def test_an_execution_that_dies_is_no_refusal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exit_code: int
) -> None:
    """Something is gone, so the answer says partial; the next run finishes."""
    with monkeypatch.context() as broken:
        broken.setattr(LocalStore, "delete", failing(error, after=1))
        answer = call("expire-snapshots", folder, "--json", "--execute")
    assert answer.exit_code == exit_code
    assert (answer.document["status"], answer.document["executed"]) == ("partial", True)
    assert len(answer.sentences) == 1
    assert not (folder / "snapshot" / "snapshot-1").exists()
    assert call("plans", folder, "--json").document["plans"][0]["status"] == "partial"
    assert call("expire-snapshots", folder, "--json", "--execute").exit_code == 0
    assert len(list((folder / "bucket-0").iterdir())) == 2


def test_a_failed_delete_is_partial(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be deleted is named, with exit code 4; the plan can be executed again."""
    dry = call("expire-snapshots", folder, "--json").document
    stuck = next(folder / action["path"] for action in dry["actions"] if action["kind"] == "data")
    body = stuck.read_bytes()
    stuck.unlink()
    stuck.mkdir()
    answer = call("execute", folder, dry["plan_id"], "--json")
    assert (answer.exit_code, answer.document["status"]) == (4, "partial")
    assert answer.document["outcome"]["failed"] == [{"path": str(stuck.relative_to(folder)), "code": "is_directory"}]
    stuck.rmdir()
    stuck.write_bytes(body)
    again = call("execute", folder, dry["plan_id"], "--json")
    assert (again.exit_code, again.document["status"]) == (0, "done")
    assert not stuck.exists()


def test_a_reader_that_has_seen_enough(folder: Path) -> None:
    """A closed pipe is no error and prints nothing."""
    script = f"{sys.executable} -m lakesweep show {folder} | true; exit ${{PIPESTATUS[0]}}"
    for _ in range(3):
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "")
        assert "BrokenPipe" not in done.stderr
        assert "Traceback" not in done.stderr


def test_help_into_a_closed_pipe() -> None:
    """Nobody listens, nobody complains."""
    script = f"{sys.executable} -m lakesweep --help | true"
    assert subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stderr == ""


def test_a_closed_pipe_keeps_the_exit_code() -> None:
    """What was done is done, whoever reads about it."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stream:
        output._write(stream, "x" * 100_000)
        output._write(stream, "more")


def shell(words: str) -> subprocess.CompletedProcess[str]:
    """Run a command line with redirections that only a shell can make; `lakesweep` stands for the command."""
    script = words.replace("lakesweep ", f"{sys.executable} -m lakesweep ", 1)
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words", ["maintain {}", "maintain {} --execute --json", "show {} --json", "--help", "--version"]
)
def test_a_full_disk_is_one_sentence(folder: Path, words: str) -> None:
    """Standard output takes nothing: no traceback, exit code 1, and what was asked for is done all the same."""
    done = shell(f"lakesweep {words.format(folder)} > /dev/full")
    assert done.returncode == 1
    assert without_notice(done.stderr) == "lakesweep: cannot write to standard output: No space left on device\n"
    assert (folder / "snapshot" / "snapshot-1").exists() != ("--execute" in words)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("words", "exit_code"), [("show {}/none", 3), ("show {}", 0), ("no-such-command", 2), ("", 2), ("show {} >&-", 0)]
)
@pytest.mark.parametrize("stream", ["2>/dev/full", "2>&-"])
def test_nowhere_to_complain(folder: Path, words: str, exit_code: int, stream: str) -> None:
    """The exit code says it all."""
    done = shell(f"lakesweep {words.format(folder)} {stream}")
    assert (done.returncode, done.stderr) == (exit_code, "")


@pytest.mark.parametrize("words", ["maintain {}", "maintain {} --json", "maintain --help"])
def test_the_first_line_is_enough(folder: Path, words: str) -> None:
    """`| head -1` prints one line and nothing else."""
    done = shell(f"lakesweep {words.format(folder)} | head -1; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, without_notice(done.stderr), done.stdout.count("\n")) == (0, "", 1)
