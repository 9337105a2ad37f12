"""Measure tables in several processes: one process of Python uses one core.

A process is a program of its own (`worker.py`) that gets tasks and returns what it found, through pipes. It ends with
the process that started it, however that ends. If one dies, for example since memory is short, its tasks are tried once
more in a new process, one at a time, so that only the table that is to blame stays without figures. If processes cannot
be started, this one measures.
"""

import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, cast

from lakesweep.errors import MaintenanceError
from lakesweep.operations.overview.frames import receive, send
from lakesweep.operations.overview.here import wait_for
from lakesweep.operations.overview.looking import Look, Task, failed, look_at
from lakesweep.operations.overview.opening import Opening

MOST = 4
"""Each process takes some 90 MiB of memory."""
WORTH = 16
"""For fewer tables no process is started: that takes half a second of a core."""
SLOTS = 6
"""Tables that a process measures at the same time, while others wait for answers."""
_MAIN = "import sys; sys.path[:] = sys.argv[1:]; from lakesweep.operations.overview.worker import main; main()"
"""Not `-m`, which looks for packages in fewer places than this process."""


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def can_travel(opening: Opening) -> bool:
    """Tell whether other processes can open tables by themselves."""
    try:
        pickle.dumps(opening)
    except (pickle.PicklingError, TypeError, AttributeError):
        return False
    return True


def looks_of(opening: Opening, tasks: Iterable[Task], processes: int) -> Iterator[Look]:
    """Yield what is found of each task, in the order in which the tables are measured.

    If the caller abandons this, the processes are ended.
    """
    team = _Team(opening, tasks)
    threads = [threading.Thread(target=team.work, name="overview", daemon=True) for _ in range(processes)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(team.count):
            yield team.looks.get()
    finally:
        team.end()
        wait_for(threads)


class _Team:
    """The processes, and what they share."""

    def __init__(self, opening: Opening, tasks: Iterable[Task]) -> None:
        self.looks: SimpleQueue[Look] = SimpleQueue()
        self._opening = opening
        self._tasks = deque(tasks)
        self.count = len(self._tasks)
        self._lock = threading.Lock()
        self._running: set[_Worker] = set()
        self._is_over = False
        self._has_answered = False
        """Some process has measured a table. Otherwise no process can, and not the tables are to blame."""

    def work(self) -> None:
        """Run one process, or several if it dies, until no task is left."""
        again: deque[Task] = deque()
        tried: set[int] = set()
        while not self._is_over:
            worker = self._start()
            if worker is None:
                self._measure_here(again)
                return
            left = self._serve(worker, again)
            self._end(worker)
            if not left and not again:
                return
            if not self._has_answered and left and tried.issuperset(task.number for task in left):
                again.extendleft(left)
                self._measure_here(again)
                return
            for task in reversed(left):
                if task.number in tried:
                    self._blame(task)
                else:
                    tried.add(task.number)
                    again.appendleft(task)

    def _serve(self, worker: "_Worker", again: deque[Task]) -> list[Task]:
        """Give a process its tasks. Return those that it left since it died; none if all is done.

        Tasks of a process that died come first, and one at a time.
        """
        under_way: dict[int, Task] = {}
        try:
            while True:
                if again and not under_way:
                    under_way = {again[0].number: again[0]}
                    worker.give(again.popleft())
                while not again and len(under_way) < SLOTS and (task := self._next()) is not None:
                    under_way[task.number] = task
                    worker.give(task)
                if not under_way:
                    return []
                look = worker.take()
                self._has_answered = True
                del under_way[look.number]
                self.looks.put(look)
        except (EOFError, OSError):
            return list(under_way.values())

    def _next(self) -> Task | None:
        with suppress(IndexError):
            return self._tasks.popleft()
        return None

    def _measure_here(self, again: deque[Task]) -> None:
        while not self._is_over:
            task = again.popleft() if again else self._next()
            if task is None:
                return
            self.looks.put(look_at(self._opening, task))

    def _start(self) -> "_Worker | None":
        with self._lock:
            if self._is_over:
                return None
            try:
                worker = _Worker(self._opening)
            except OSError:
                return None
            self._running.add(worker)
            return worker

    def _end(self, worker: "_Worker") -> None:
        with self._lock:
            self._running.discard(worker)
        worker.end()

    def _blame(self, task: Task) -> None:
        error = MaintenanceError(
            f"table {task.found.location}: expected a process to measure it, but the process died twice, maybe for "
            "lack of memory",
            code="process_died",
        )
        self.looks.put(Look(task.number, failed(task, error)))

    def end(self) -> None:
        """End all processes at once."""
        with self._lock:
            self._is_over = True
            self._tasks.clear()
            running = list(self._running)
        for worker in running:
            worker.end()


class _Worker:
    """One process."""

    def __init__(self, opening: Opening) -> None:
        """Start it.

        Raises:
            OSError: It cannot be started.
        """
        from subprocess import DEVNULL, PIPE, Popen

        self._process = Popen(
            [sys.executable, "-c", _MAIN, *sys.path],
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
            process_group=0,  # Ctrl-C on a terminal is for this process, which ends the others
        )  # fmt: skip
        self._tasks, self._looks = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        self._lock = threading.Lock()
        self._first: object = (opening, SLOTS)

    def give(self, task: Task) -> None:
        """Give it a task."""
        if self._first is not None:
            send(self._tasks, self._first)
            self._first = None
        send(self._tasks, task)

    def take(self) -> Look:
        """Return what it found of one of its tasks."""
        look = receive(self._looks)
        assert isinstance(look, Look)
        return look

    def end(self) -> None:
        """End it at once. It only reads, so nothing is left undone."""
        self._process.kill()
        with self._lock:
            self._process.wait()
            for pipe in (self._tasks, self._looks):
                with suppress(OSError):  # the last task may not have arrived
                    pipe.close()
