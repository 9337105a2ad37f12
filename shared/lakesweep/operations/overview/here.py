"""Measure tables in this process, in some threads."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue

from lakesweep.control.area import ControlArea
from lakesweep.errors import OutOfTimeError
from lakesweep.model.progress import Progress
from lakesweep.operations.overview.looking import Look, Task, look_at
from lakesweep.operations.overview.opening import Opening
from lakesweep.runs.session import Table
from lakesweep.storage.clock import monotonic_s
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Body, Page, Store, StoredObject
from lakesweep.storage.wrappers.wrapping import WrappingStore

PATIENCE_S = 5.0
"""For requests under way when an overview is stopped."""


def looks_here(opening: Opening, tasks: Sequence[Task], threads: int) -> Iterator[Look]:
    """Measure tables in this process. Yield what is found of each task, in the order in which they end.

    If the caller abandons this, no further table and no further request is begun.
    """
    waiting = deque(tasks)
    looks: SimpleQueue[Look] = SimpleQueue()
    is_over = threading.Event()
    stopping = _Stopping(opening, is_over)

    def work() -> None:
        while not is_over.is_set():
            try:
                task = waiting.popleft()
            except IndexError:
                return
            looks.put(look_at(stopping, task))

    working = [threading.Thread(target=work, name="overview", daemon=True) for _ in range(min(threads, len(tasks)))]
    for thread in working:
        thread.start()
    try:
        for _ in tasks:
            yield looks.get()
    finally:
        is_over.set()
        waiting.clear()
        wait_for(working)


def wait_for(threads: Iterable[threading.Thread]) -> None:
    """Wait some seconds for threads to end. What Python does at its end must not meet them at work."""
    end_s = monotonic_s() + PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, end_s - monotonic_s()))


@dataclass(frozen=True, slots=True)
class _Stopping:
    """Opens tables whose stores send no request any more once the overview is over."""

    opening: Opening
    is_over: threading.Event

    def store(self, location: str, counter: RequestCounter) -> Store:
        return self.opening.store(location, counter)

    def table(self, location: str, counter: RequestCounter, progress: Progress) -> Table:
        table = self.opening.table(location, counter, progress)
        return replace(table, store=_StoppingStore(table.store, self.is_over))

    def area(self, folder: str, counter: RequestCounter) -> ControlArea | None:
        return self.opening.area(folder, counter)

    def control(self, place: str) -> str | None:
        return self.opening.control(place)


class _StoppingStore(WrappingStore):
    """Refuses what an overview asks for once the overview is over."""

    def __init__(self, store: Store, is_over: threading.Event) -> None:
        super().__init__(store)
        self._is_over = is_over

    def _check(self) -> None:
        if self._is_over.is_set():
            raise OutOfTimeError("the overview was stopped")

    def list(self, prefix: str) -> Iterator[StoredObject]:
        for page in self.list_range(prefix):
            yield from page

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        self._check()
        for page in super().list_range(prefix, after, until):
            yield page
            self._check()

    def folders(self, prefix: str) -> Iterator[str]:
        self._check()
        return super().folders(prefix)

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        self._check()
        return super().folders_among(names)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        self._check()
        return super().read(key, max_bytes)

    def read_range(self, key: str, start: int, length: int) -> Body:
        self._check()
        return super().read_range(key, start, length)
