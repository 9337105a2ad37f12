"""Sixteen processes at one gate.

Starting Python and importing what a command needs takes half a second, in which the processes drift apart. So one
process imports everything, without a thread, and for each race it forks as many as are wanted and opens the gate.

    with Racers() as racers:
        finishes = racers.race([["expire-snapshots", ...]] * 16)
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.s3.store import S3Store

REPOSITORY = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Finish:
    """How one process ended."""

    exit_code: int
    printed: str
    messages: str
    deletes: tuple[tuple[float, float], ...] = ()
    """Begin and end of each call that deletes in the table, by the clock that all processes share."""

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.printed)
        return document


class Racers:
    """The process that forks."""

    def __init__(self, folder: Path, settings: StoreSettings | None = None) -> None:
        """Start it.

        Args:
            folder: For what the racers print.
            settings: Of the S3 that they will use; its client is made once, before the forks.
        """
        self._folder = folder
        self._races = 0
        words = json.dumps([settings.endpoint_url, settings.region] if settings else None)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.racing", words],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that `close` reaches the forks too
        )

    def race(self, lines: Sequence[Sequence[str]]) -> list[Finish]:
        """Run one command line in each of as many processes, all at once."""
        assert self._process.stdin and self._process.stdout
        self._races += 1
        folder = self._folder / f"race-{self._races}"
        folder.mkdir(parents=True)
        self._process.stdin.write(json.dumps({"folder": str(folder), "lines": [list(line) for line in lines]}) + "\n")
        self._process.stdin.flush()
        codes = json.loads(self._process.stdout.readline())
        return [
            Finish(
                code,
                (folder / f"{number}.out").read_text(),
                (folder / f"{number}.err").read_text(),
                tuple((begin, end) for begin, end in json.loads((folder / f"{number}.deletes").read_text())),
            )
            for number, code in enumerate(codes)
        ]

    def __enter__(self) -> "Racers":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


def main(settings: Sequence[str | None] | None) -> None:
    """Fork for each line of the standard input, until it ends."""
    from lakesweep.cli.main import main as lakesweep  # with all that its commands import when they run
    from lakesweep.cli.operation import run_named

    assert run_named
    if settings:
        open_store("s3://bucket", settings=StoreSettings(endpoint_url=settings[0], region=settings[1]))
    for line in sys.stdin:
        asked = json.loads(line)
        ready, gate = os.pipe()
        forks = []
        for number, words in enumerate(asked["lines"]):
            pid = os.fork()
            if pid == 0:
                os.close(gate)
                os.read(ready, 1)  # nothing comes; it returns when the gate is closed
                _run(lakesweep, words, Path(asked["folder"]), number)
            forks.append(pid)
        os.close(ready)
        os.close(gate)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in forks]
        print(json.dumps(codes), flush=True)


def _run(lakesweep: Callable[[list[str]], int], words: list[str], folder: Path, number: int) -> None:
    """Run a command line in a fork, and end the fork."""
    code = 70
    try:
        for name, descriptor in (("out", 1), ("err", 2)):
            os.dup2(os.open(folder / f"{number}.{name}", os.O_CREAT | os.O_WRONLY), descriptor)
        deletes: list[tuple[float, float]] = []
        for kind in (LocalStore, S3Store):
            _note(kind, words[1], deletes)
        code = lakesweep(words)
        (folder / f"{number}.deletes").write_text(json.dumps(deletes))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)  # not the way out of the process that was forked


def _note(kind: Any, location: str, deletes: list[tuple[float, float]]) -> None:
    delete = kind.delete

    def noted(store: Any, requests: Any) -> Any:
        begin = time.monotonic()
        try:
            return delete(store, requests)
        finally:
            if store.location == location:
                deletes.append((begin, time.monotonic()))

    kind.delete = noted


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
