"""The command line in processes that may be killed at any moment, while somebody else works on the same table.

One process imports everything and forks a child for each command line, as in `tests/support/racing.py`. A child's
requests to the table take as long as one is told, as those to a bucket do. Its control location's clock may be ahead,
so that the lease of a child that was killed has run out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from lakesweep.storage.local.store import LocalStore
from tests.differential.engine import PROJECT

_STEP_S = 0.001
_CRASHED = 70
"""The exit code of a child that ended with an exception."""


@dataclass(frozen=True, slots=True)
class Line:
    """One command line and how it runs."""

    words: Sequence[str]
    table: str
    control: str
    ahead_ms: int = 0
    """The clock of the control location is ahead by so much."""
    wait_s: float = 0.0
    """A request to the table takes so long on average."""
    seed: int = 0
    """Of how long each one takes."""
    kill_after_s: float | None = None
    once_begun: bool = False
    """That time counts from when the lease says what is being done, not from the start."""


@dataclass(frozen=True, slots=True)
class End:
    """How a child ended."""

    status: int
    """Its exit code, or minus the signal."""
    printed: str
    messages: str
    seconds: float

    @property
    def was_killed(self) -> bool:
        """Tell whether it did not come to its end."""
        return self.status == -signal.SIGKILL

    @property
    def has_crashed(self) -> bool:
        """Tell whether it ended otherwise than with an answer."""
        return self.status == _CRASHED or (not self.was_killed and "Traceback" in self.messages)

    @property
    def document(self) -> dict[str, Any]:
        """Return what `--json` printed; empty when it did not come to that."""
        return dict(json.loads(self.printed)) if self.printed.strip() and not self.was_killed else {}


class Forks:
    """The process that forks, one child at a time."""

    def __init__(self, folder: Path) -> None:
        """Start it.

        Args:
            folder: For what the children print.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.differential.live_cli", str(folder)],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), *sys.path])},
        )

    def run(self, line: Line) -> End:
        """Run one command line to its end."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(asdict(line)) + "\n")
        self._process.stdin.flush()
        status, seconds = json.loads(self._process.stdout.readline())
        printed, messages = ((self._folder / name).read_text() for name in ("out", "err"))
        return End(status, printed, messages, seconds)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _serve(folder: Path) -> None:
    from lakesweep.cli.main import main
    from lakesweep.cli.operation import run_named

    assert run_named  # with all that it imports
    for asked in sys.stdin:
        line = Line(**json.loads(asked))
        start = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _run(main, line, folder)
        status = os.waitstatus_to_exitcode(_wait(pid, start, line))
        print(json.dumps([status, time.monotonic() - start]), flush=True)


def _run(main: Callable[[list[str]], int], line: Line, folder: Path) -> None:
    """Run a command line in a fork, and end the fork."""
    code = _CRASHED
    try:
        for name, descriptor in (("out", 1), ("err", 2)):
            os.dup2(os.open(folder / name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), descriptor)
        _slow_down(line)
        code = main(list(line.words))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)  # not the way out of the process that was forked


def _wait(pid: int, start: float, line: Line) -> int:
    """Wait for a child, or kill it in time; return its wait status."""
    begun = None if line.once_begun else start
    while line.kill_after_s is not None:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        if begun is None and is_begun(line.control):
            begun = time.monotonic()
        left = _STEP_S if begun is None else begun + line.kill_after_s - time.monotonic()
        if left <= 0:
            os.kill(pid, signal.SIGKILL)
            break
        time.sleep(min(left, _STEP_S))
    return os.waitpid(pid, 0)[1]


def is_begun(control: str) -> bool:
    """Tell whether a lease says that something is being done, or was when its holder died."""
    return any(b'"intent": {' in lease.read_bytes() for lease in Path(control).glob("tables/*/lease.json"))


def _slow_down(line: Line) -> None:
    random, now_ms = Random(line.seed), LocalStore.now_ms
    os.fsync = lambda descriptor: None  # the death of a process loses no page of the kernel

    def ahead(store: LocalStore) -> int:
        return now_ms(store) + (line.ahead_ms if store.location.startswith(line.control) else 0)

    def slow(call: Any) -> Any:
        def slowly(store: LocalStore, *given: Any, **more: Any) -> Any:
            if line.wait_s and store.location.startswith(line.table):
                time.sleep(random.expovariate(1 / line.wait_s))
            return call(store, *given, **more)

        return slowly

    LocalStore.now_ms = ahead  # type: ignore[method-assign]
    for name in ("put", "delete", "list", "read"):
        setattr(LocalStore, name, slow(getattr(LocalStore, name)))


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
