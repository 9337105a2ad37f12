"""A sorted run as a stream of rows that waits for its turn."""

from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Executor, Future
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

from lakesweep.model.keyed import KeyedFile
from lakesweep.operations.keyed.merging.codes import Part, RowKey, count_below, row_key


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of one file, ascending by key."""

    file: KeyedFile
    keys: Sequence[Part]
    batch: Any
    """Their columns as a record batch; `None`: only keys count."""
    is_strict: bool
    """Each has a larger key than the row before, also the first one."""
    size_bytes: int
    positions: Any = None
    """Where each lies in its file, if only keys count."""

    @property
    def count(self) -> int:
        """How many."""
        return len(self.keys[0])

    def part(self, start: int, stop: int) -> "Rows":
        """Return some of them."""
        return replace(
            self,
            keys=[part[start:stop] for part in self.keys],
            batch=None if self.batch is None else self.batch.slice(start, stop - start),
            size_bytes=self.size_bytes * (stop - start) // self.count,
            positions=None if self.positions is None else self.positions[start:stop],
        )


class Stream:
    """The rows of one run. A few are in memory, and a thread of the executor reads those that follow."""

    def __init__(
        self, rows: Generator[Rows, None, None], most_rows: int, most_bytes: int, executor: Executor | None, place: int
    ) -> None:
        self.place = place
        """The number of the run."""
        self._rows, self._most_rows, self._most_bytes, self._executor = rows, most_rows, most_bytes, executor
        self._held: deque[Rows] = deque()
        self._next: Future[Rows | None] | None = None
        self.is_ended = False
        """No rows follow those in memory."""

    @property
    def first(self) -> RowKey | None:
        """The smallest key in memory."""
        return row_key(self._held[0].keys, 0) if self._held else None

    @property
    def last(self) -> RowKey | None:
        """The largest key in memory."""
        return row_key(self._held[-1].keys, -1) if self._held else None

    def start(self) -> None:
        """Begin to read."""
        if self._executor is not None and self._next is None and not self.is_ended:
            # The copy carries the guard of this thread.
            self._next = self._executor.submit(copy_context().run, self._following)

    def _following(self) -> Rows | None:
        return next(self._rows, None)

    def fill(self) -> None:
        """Read until there are some rows, and two different keys."""
        while not self.is_ended and (self._is_low() or self.first == self.last):
            self._read()

    def _is_low(self) -> bool:
        rows, size = sum(rows.count for rows in self._held), sum(rows.size_bytes for rows in self._held)
        return 2 * rows < self._most_rows and 2 * size < self._most_bytes

    def skip(self, key: RowKey) -> None:
        """Drop rows with a smaller key."""
        while self._held and row_key(self._held[0].keys, -1) < key:
            self._held.popleft()
            if not self._held and not self.is_ended:
                self._read()

    def _read(self) -> None:
        self.start()
        found = next(self._rows, None) if self._next is None else self._next.result()
        self._next = None
        if found is None:
            self.is_ended = True
            return
        self._held.append(found)
        self.start()

    def take(self, key: RowKey | None) -> list[Rows]:
        """Take the rows with a smaller key out of memory; `None`: all of them."""
        found = []
        while self._held:
            rows = self._held.popleft()
            below = rows.count if key is None else count_below(rows.keys, key)
            if below:
                found.append(rows.part(0, below) if below < rows.count else rows)
            if below < rows.count:
                self._held.appendleft(rows.part(below, rows.count))
                break
        return found

    def close(self) -> None:
        """Read no more. The executor has ended."""
        self._held.clear()
        self._rows.close()
        self.is_ended = True
