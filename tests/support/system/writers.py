"""Writers, each a process of its own that commits to its tables while the system runs.

    with Writer("pypaimon", assignment, folder) as writer:
        for commit in writer: ...            # ends when the writer stopped
        writer.read("shop.orders", snapshot_id=3)

A writer gets credentials of the server here and nothing of the user's account.
"""

import json
import math
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from tests.support.system.work_clock import WorkClock
from tests.support.system.written import REGION, Assignment, Commit, Failure, Table, Tag

REPOSITORY = Path(__file__).resolve().parents[3]
KEY = "testing"
START_S, STOP_S, READ_S = 120.0, 120.0, 60.0
"""How long a writer may take to make its tables, to end its commit, and to read a table: seconds of work."""
_OF_THE_USER = ("AWS_", "LAKESWEEP_", "BOTO_CONFIG", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

Kind = Literal["pypaimon", "java"]


class WriterError(Exception):
    """A writer's process ended or was silent."""


class ReadError(Exception):
    """The engine could not read what it was asked to; the message says why."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader found."""

    rows: int
    digest: str


def engine_classpath() -> str | None:
    """Return the class path with which the Java engine reaches S3, where there is one."""
    stated, made = os.environ.get("LAKESWEEP_ENGINE_CLASSPATH"), REPOSITORY / "build" / "engine-classpath.txt"
    return stated or (made.read_text(encoding="utf-8").strip() if made.is_file() else None)


def java_is_missing() -> str | None:
    """Say why there can be no Java writer, or return `None`."""
    if shutil.which("java") is None or shutil.which("javac") is None:
        return "no JDK: the Java engine needs javac and java"
    classpath = engine_classpath()
    if classpath is None:
        return "no engine jars: run `make jars`"
    return None if "paimon-s3-" in classpath else "the engine's class path has no paimon-s3 jar; run `make jars` again"


def environment() -> dict[str, str]:
    """Return the environment of a writer."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(_OF_THE_USER)}
    return kept | {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "LAKESWEEP_ENGINE_CLASSPATH": engine_classpath() or "",
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "shared")]),
    }


class Writer:
    """The near side of a writer. It may be used from several threads, but read by one at a time."""

    def __init__(
        self, kind: Kind, assignment: Assignment, folder: Path, on_commit: Callable[[Commit], object] | None = None
    ) -> None:
        """Take an assignment; entering the context starts the process.

        Args:
            kind: The engine that writes.
            assignment: What it does.
            folder: For what it says beside its answers, and what the engine keeps.
            on_commit: Called in a thread of ours with each commit.
        """
        self.kind = kind
        self.assignment = assignment
        self.commits: list[Commit] = []
        self.tags: list[Tag] = []
        self.failures: list[Failure] = []
        self._folder = folder
        self._work = WorkClock()
        self._on_commit = on_commit
        self._ready, self._stopped = threading.Event(), threading.Event()
        self._waiting: queue.SimpleQueue[Commit | None] = queue.SimpleQueue()
        self._readings: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._process: subprocess.Popen[str] | None = None

    @property
    def name(self) -> str:
        """Return the writer's name."""
        return self.assignment.writer

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return its tables."""
        return self.assignment.tables

    def location(self, table: Table) -> str:
        """Return the URI of a table."""
        return f"{self.assignment.warehouse}/{table.folder}"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.log = self._folder / f"{self.name}.log"
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"tests.support.system.{self.kind}_writer", json.dumps(asdict(self.assignment))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=REPOSITORY,
                env=environment() | {"LAKESWEEP_WRITER_FOLDER": str(self._folder)},
            )
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Iterator[Commit]:
        """Return commits as they come, until the writer stopped. For one reader; all of them are in `commits`."""
        while (commit := self._waiting.get()) is not None:
            yield commit

    def wait_ready(self, seconds: float = START_S) -> None:
        """Wait until its tables exist and it begins to commit.

        Raises:
            WriterError: It ended before, or time is over.
        """
        if not self._work.wait(self._ready.wait, seconds) or (self.exit_code is not None and not self.commits):
            raise WriterError(f"writer {self.name} did not start: {self._said()}")

    def wait_stopped(self, seconds: float | None = None) -> None:
        """Wait until it makes no more commits because a limit of its assignment is reached.

        Raises:
            WriterError: It ended, or time is over.
        """
        if not self._work.wait(self._stopped.wait, math.inf if seconds is None else seconds):
            raise WriterError(f"writer {self.name} still commits after {seconds} s")
        if self.exit_code is not None:
            raise WriterError(f"writer {self.name} ended: {self._said()}")

    @property
    def stopped(self) -> bool:
        """Tell whether it makes no more commits."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Let it end the commit that it is at, and make no other. It can still read.

        Raises:
            WriterError: It ended, or does not stop.
        """
        if not self._stopped.is_set():
            self._send({"stop": True})
        self.wait_stopped(STOP_S)

    def read(self, table: str, *, snapshot_id: int | None = None, tag: str | None = None) -> Reading:
        """Read a table as it is, or as of a snapshot or tag, with the engine that wrote it; also between commits.

        Raises:
            ReadError: The engine could not.
            WriterError: The process ended or is silent.
        """
        self._send({"read": table, "snapshot_id": snapshot_id, "tag": tag})
        answers: list[dict[str, Any] | None] = []

        def has_answered(seconds: float) -> bool:
            with suppress(queue.Empty):
                answers.append(self._readings.get(timeout=seconds))
            return bool(answers)

        if not self._work.wait(has_answered, READ_S):
            raise WriterError(f"writer {self.name} read {table} for more than {READ_S} s")
        (answer,) = answers
        if answer is None:
            raise WriterError(f"writer {self.name} ended: {self._said()}")
        if "error" in answer:
            raise ReadError(answer["error"])
        return Reading(answer["rows"], answer["digest"])

    @property
    def exit_code(self) -> int | None:
        """Return how the process ended; `None` as long as it runs."""
        return None if self._process is None else self._process.poll()

    def close(self) -> None:
        """End the process: it leaves when its input ends, and is killed when it does not."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.close()
            process.wait(timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        self._listener.join(timeout=10)
        process.stdout.close()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                self._take(json.loads(line))
        finally:
            process.wait()
            self._ready.set()
            self._stopped.set()
            self._waiting.put(None)
            self._readings.put(None)

    def _take(self, said: dict[str, Any]) -> None:
        match said.pop("kind"):
            case "commit":
                commit = Commit(**said)
                self.commits.append(commit)
                self._waiting.put(commit)
                if self._on_commit is not None:
                    self._on_commit(commit)
            case "tag":
                self.tags.append(Tag(**said))
            case "failure":
                self.failures.append(Failure(**said))
            case "reading":
                self._readings.put(said)
            case "ready":
                self._ready.set()
            case "stopped":
                self._stopped.set()
                self._waiting.put(None)

    def _send(self, line: dict[str, Any]) -> None:
        if self._process is None:
            raise WriterError(f"writer {self.name} does not run")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WriterError(f"writer {self.name} ended: {self._said()}") from error

    def _said(self) -> str:
        tail = self.log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join([f"exit code {self.exit_code}; the end of {self.log}:", *tail])
