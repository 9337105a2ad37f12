"""`make system` and `make invoke`, as they are called: the last line, the exit code, and what they say of nonsense."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sampling import is_sampled
from tests.support.system.altered import altered
from tests.support.system.build import REPOSITORY, Build
from tests.support.system.verdict import Verdict
from tests.system import __main__ as command
from tests.system import invoke


def call(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_system_runs_and_every_row_is_there() -> None:
    done = call("tests.system", "--seconds", "4" if is_sampled() else "8", "--speed", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    found = re.fullmatch(
        r"make system: ok: (\d+) rows of (\d+) snapshots and tags in (\d+) tables verified, (\d+) objects deleted "
        r"after (\d+) commits in (\d+) passes with [\d.]+ requests a commit, DLQ depth 0, 0 problems",
        lines[-1],
    )
    assert found is not None, lines[-1]
    rows, snapshots, tables, deleted, commits, passes = map(int, found.groups())
    assert rows > snapshots >= tables >= 3
    assert deleted > 0
    assert commits > passes > 0
    assert any(re.match(r"pypaimon\.db/plain +\d+ .*Expire$", line) for line in lines), done.stdout


@pytest.mark.long
@pytest.mark.slow
def test_tables_are_scanned_while_writers_commit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "java_is_missing", lambda: "left out")
    monkeypatch.setattr(command, "own_environment", lambda: None)
    code = command.main(["--scan", "--objects", "3000", "--seconds", "8", "--speed", "20"])
    said = capsys.readouterr()
    assert code == 0, said.out + said.err
    lines = said.out.splitlines()
    found = re.search(r" (\d+) scans, (\d+) orphans deleted, 0\.\d+ USD, 0 problems$", lines[-1])
    assert found is not None, lines[-1]
    scans, deleted = map(int, found.groups())
    assert scans >= 3 + 1 + 2 * 3, "each by hand, the large one too, and twice by the schedule"
    assert deleted >= 3 * 30 + 30
    assert sum(bool(re.match(r"  requests to S3: \d+, \d+ by its own count", line)) for line in lines) == 4


WRONG = {
    "a file that is needed": (
        "operations/retention/rules/expire_snapshots.py",
        ("why = references.reason_to_keep(file)", "why = None"),
        "is missing",
    ),
    "a file that nobody needs": (
        "operations/retention/rules/expire_snapshots.py",
        ("return tuple(deletes), KeptFiles(", "return (), KeptFiles("),
        "files are left that nobody needs",
    ),
    "no lease": (
        "control/lease.py",
        (
            "        document = {\n",
            "        self._token, self._expires_ms = self._token + 1, expires_ms\n"
            "        return\n"
            "        document = {\n",
        ),
        "the lease is None",
    ),
    "an event that is lost": (
        "aws/commits.py",
        ("        if found.is_due:\n", "        if False:\n"),
        "a sweep deleted",
    ),
}
"""What the product does wrong -> file, what stands there instead, and what is said of it."""
_ALWAYS = ("a file that is needed",)
"""Those of `make test`; the others come with `make system-long`."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong",
    [name if name in _ALWAYS else pytest.param(name, marks=pytest.mark.long) for name in WRONG],
)
def test_what_the_functions_do_wrong_is_noticed(
    wrong: str, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, change, said = WRONG[wrong]
    changed = altered(build, tmp_path / "build", {file: change})
    monkeypatch.setattr(command, "build_here", lambda: changed)
    monkeypatch.setattr(command, "SWEEP", "rate(1 day)")  # but for the one in the end
    monkeypatch.setattr(command, "java_is_missing", lambda: "left out")
    monkeypatch.setattr(command, "own_environment", lambda: None)
    assert command.main(["--seconds", "4" if is_sampled() else "8", "--speed", "20"]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_wrong_ends_it_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "judge", lambda *_: Verdict(problems=("a row is gone",)))
    monkeypatch.setattr(command, "java_is_missing", lambda: "left out")
    monkeypatch.setattr(command, "own_environment", lambda: None)  # the tests' own is as empty
    assert command.main(["--seconds", "1", "--speed", "50", "--json"]) == 1
    said = capsys.readouterr()
    assert said.err.splitlines() == ["The Java engine does not write: left out", "wrong: a row is gone"]
    *passes, last = said.out.splitlines()
    assert last.startswith("make system: FAILED: 0 rows of 0 snapshots and tags in 0 tables verified, ")
    assert {"table", "commit", "objects", "commit_s", "event_s", "end_s"} <= set(json.loads(passes[0]))


@pytest.mark.long
@pytest.mark.slow
def test_a_run_without_rows_is_no_success(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "judge", lambda *_: Verdict(failed_commits=3))
    monkeypatch.setattr(command, "java_is_missing", lambda: "left out")
    monkeypatch.setattr(command, "own_environment", lambda: None)
    assert command.main(["--seconds", "1", "--speed", "50"]) == 1
    assert "wrong: no row was written and read again" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", ["--seconds=0", "--speed=0", "--latency=-1", "--speed=fast"])
def test_a_run_that_cannot_be(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main([arguments])
    assert "make system: error: " in capsys.readouterr().err


def test_one_function_runs_on_one_event() -> None:
    done = call("tests.system.invoke", "expire", "events/sqs_expire.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  DeleteObjects 200 lake" in done.stdout
    assert "botocore" not in done.stdout, "a log line that says nothing"
    assert done.stdout.endswith('{\n "batchItemFailures": []\n}\n')
    failed = call("tests.system.invoke", "on_snapshot_written", "events/sqs_commits_poison.json")
    assert failed.returncode == 1
    assert json.loads(failed.stdout[failed.stdout.rindex("\n{\n") :])["batchItemFailures"] != []


def test_a_notification_of_s3_comes_in_a_message() -> None:
    done = call("tests.system.invoke", "on_snapshot_written", "events/s3_snapshot_put.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(
        r'^sent to lakesweep-expire\.fifo: .*"table":"s3://lake/warehouse/sales\.db/orders"', done.stdout, re.M
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("nobody", "events/sqs_expire.json"),
        ("expire", "events/none.json"),
        ("expire", "README.md"),
        ("expire", "events"),
    ],
)
def test_nonsense_is_named(
    arguments: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(invoke, "own_environment", lambda: None)
    assert invoke.main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("make invoke: ")
    assert len(said.splitlines()) == 1
