"""The inside of a writer's process: commits in turn, and answers to whoever started it.

It takes an assignment as its argument, and lines of JSON on standard input: `{"stop": true}` ends the commits,
`{"read": "db.t", "snapshot_id": 3}` (or `"tag"`) asks for the rows that are there. The end of the input ends the
process, so none outlives the one that started it. It says what it did in lines of JSON on standard output.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests.support.system.work_clock import ToldClock
from tests.support.system.written import Assignment, Commit, Failure, Table, Tag

BREATH_S = 0.2
"""After a commit that failed."""
LEAVE_S = 15.0
"""After the end of the input, at the latest."""
LAST_TRIES = 10
"""To find out what came of a failed commit, before the writer says that it stopped."""


class Made(NamedTuple):
    """What a commit made."""

    snapshot_id: int
    at: float
    rows: int
    digest: str


class DivergedError(Exception):
    """A table holds something else than what was written to it."""


class Engine(Protocol):
    """What writes and reads."""

    def create(self, table: Table) -> None: ...

    def commit(self, table: Table) -> Made | None:
        """Make the table's next commit, or return `None` when there was nothing to commit."""
        ...

    def settle(self, table: Table) -> Made | None:
        """Find out what came of a commit that failed, which may have come through all the same.

        Returns:
            What the commit made, or `None` when it did not come through.

        Raises:
            DivergedError: The table holds something else.
        """
        ...

    def tag(self, table: Table, name: str, snapshot_id: int) -> None: ...

    def read(self, table: Table, snapshot_id: int | None, tag: str | None) -> tuple[int, str]:
        """Return how many rows there are, and their digest."""
        ...

    def close(self) -> None: ...


def run(make_engine: Callable[[Assignment], Engine]) -> None:
    """Work an assignment off."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries may print; only lines of ours go out
    assignment = Assignment.from_json(json.loads(sys.argv[1]))
    engine = make_engine(assignment)
    try:
        Loop(assignment, engine, lambda line: print(json.dumps(line), file=out, flush=True), _input(engine)).run()
    finally:
        engine.close()


def _input(engine: Engine) -> Iterator[str]:
    yield from sys.stdin
    # An engine goes on for long with a server that has died together with whoever started this process.
    leave = threading.Timer(LEAVE_S, _leave, (engine,))
    leave.daemon = True
    leave.start()


def _leave(engine: Engine) -> None:
    """End this process, and that of the engine if it has one, whatever they are at."""
    try:
        engine.close()
    finally:
        os._exit(1)


class Loop:
    """One engine at work; `say` gets what would be printed, `lines` are what would be standard input."""

    def __init__(
        self, assignment: Assignment, engine: Engine, say: Callable[[dict[str, Any]], object], lines: Iterable[str]
    ) -> None:
        self._assignment = assignment
        self._clock_s = time.monotonic if assignment.clock is None else ToldClock(Path(assignment.clock))
        self._engine = engine
        self._say = say
        self._input = lines
        self._by_name = {table.name: table for table in assignment.tables}
        self._active = list(assignment.tables)
        self._made = dict.fromkeys(self._by_name, 0)
        self._doubtful: set[str] = set()
        """Tables whose last commit failed."""
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._stopping = False
        self._ended = False

    def run(self) -> None:
        """Make the tables, commit to them in turn, and answer until the input ends."""
        for table in self._active:
            self._engine.create(table)
        threading.Thread(target=self._listen, daemon=True).start()
        self._say({"kind": "ready"})
        self._commit_in_turn()
        self._say({"kind": "stopped"})
        while not self._ended:
            self._obey(None)

    def _listen(self) -> None:
        for line in self._input:
            self._lines.put(line)
        self._lines.put(None)

    def _commit_in_turn(self) -> None:
        order = self._assignment
        began = due = self._clock_s()
        turn = 0
        while self._active and turn != order.commits:
            self._obey_until(due)
            now = self._clock_s()
            if self._stopping or (order.seconds is not None and now - began >= order.seconds):
                break
            due = max(due, now) + order.pace_s
            self._commit(self._active[turn % len(self._active)])
            turn += 1
        for _ in range(LAST_TRIES):
            for table in [table for table in self._active if table.name in self._doubtful]:
                self._commit(table)

    def _obey_until(self, due: float) -> None:
        self._obey(0)
        while not self._stopping and (left := due - self._clock_s()) > 0:
            self._obey(left)

    def _obey(self, seconds: float | None) -> None:
        """Wait for one line, for ever or so long, and do what it says."""
        try:
            line = self._lines.get(timeout=seconds) if seconds != 0 else self._lines.get_nowait()
        except queue.Empty:
            return
        if line is None:
            self._stopping = self._ended = True
            return
        asked = json.loads(line)
        if "read" in asked:
            self._say(self._read(asked))
        else:
            self._stopping = True

    def _read(self, asked: dict[str, Any]) -> dict[str, Any]:
        table = self._by_name[asked["read"]]
        try:
            rows, digest = self._engine.read(table, asked.get("snapshot_id"), asked.get("tag"))
        except Exception as error:
            return {"kind": "reading", "error": _line(error)}
        return {"kind": "reading", "rows": rows, "digest": digest}

    def _commit(self, table: Table) -> None:
        """Make a commit; where the last one failed, find out what came of it instead."""
        doubtful = table.name in self._doubtful
        self._doubtful.add(table.name)
        try:
            made = self._engine.settle(table) if doubtful else self._engine.commit(table)
        except DivergedError as error:
            self._active.remove(table)
            self._tell(self._failure(table, str(error), abandoned=True))
            return
        except Exception as error:
            self._tell(self._failure(table, _line(error)))
            self._obey(BREATH_S)
            return
        self._doubtful.remove(table.name)
        if made is None:
            return
        self._tell(Commit(self._assignment.writer, table.name, *made))
        self._made[table.name] += 1
        if self._assignment.tag_every and self._made[table.name] % self._assignment.tag_every == 0:
            self._tag(table, made)

    def _tag(self, table: Table, made: Made) -> None:
        name = f"at-{made.snapshot_id}"
        try:
            self._engine.tag(table, name, made.snapshot_id)
        except Exception as error:
            self._tell(self._failure(table, f"tag {name}: {_line(error)}"))
            return
        writer = self._assignment.writer
        self._tell(Tag(writer, table.name, name, made.snapshot_id, time.time(), made.rows, made.digest))

    def _failure(self, table: Table, error: str, *, abandoned: bool = False) -> Failure:
        return Failure(self._assignment.writer, table.name, error, abandoned)

    def _tell(self, what: Commit | Tag | Failure) -> None:
        self._say({"kind": type(what).__name__.lower(), **asdict(what)})


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
