"""Read several splits at a time, and yield their rows in the order of the splits; or make one thing ahead of its user.

Only stores whose requests wait are read in threads. A thread that is ahead of the caller waits, so memory has a bound:
for each thread a few batches, and what its reader of a file holds.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from lakesweep.model.reading.plan import Split

PARALLEL = 6
_BATCHES = 4
"""A thread reads so many batches ahead."""
_LOOK_S = 0.1
"""So often a thread that waits looks whether the caller has stopped."""

Read = Callable[[Split], Iterator[Any]]


def one_ahead(items: Generator[Any, None, None]) -> Generator[Any, None, None]:
    """Yield the items of a generator, while a thread makes the next one. There are never more than two.

    Args:
        items: None of them is `None`. It is closed with this generator.
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:

        def following() -> Any:
            return next(items, None)

        def begin() -> Future[Any]:
            # The copy carries the guard of the caller's thread.
            return pool.submit(copy_context().run, following)

        found = begin()
        while (item := found.result()) is not None:
            found = begin()
            yield item


def read_ahead(
    splits: Sequence[Split], read: Read, *, in_threads: bool, most_bytes: int | None = None
) -> Generator[tuple[int, Any], None, None]:
    """Yield the number of each split with each of its batches.

    A caller that stops early closes the generator: then the threads end after their present batch.

    Args:
        splits: The splits.
        read: Reads one of them.
        in_threads: If false, one is read after another.
        most_bytes: Splits that are read at a time are no larger together, unless it is one.
    """
    if not in_threads:
        for number, split in enumerate(splits):
            for batch in read(split):
                yield number, batch
        return
    running, begun = deque[_Reader](), 0

    def is_room() -> bool:
        if begun == len(splits) or len(running) == PARALLEL:
            return False
        size = sum(split.size_bytes for split in splits[begun - len(running) : begun + 1])
        return not running or most_bytes is None or size <= most_bytes

    try:
        for number in range(len(splits)):
            while is_room():
                running.append(_Reader(read, splits[begun]))
                begun += 1
            for batch in running[0].batches():
                yield number, batch
            running.popleft()
    finally:
        for each in running:
            each.stop()


class _Reader:
    """One split that a thread reads."""

    def __init__(self, read: Read, split: Split) -> None:
        self._found: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(_BATCHES)
        self._stopped = threading.Event()
        # The copy carries the guard of the caller's thread.
        run = partial(copy_context().run, self._run, read, split)
        threading.Thread(target=run, name="rows", daemon=True).start()

    def batches(self) -> Iterator[Any]:
        """Yield the batches; raise the error of the thread."""
        while True:
            batch, error = self._found.get()
            if error is not None:
                raise error
            if batch is None:
                return
            yield batch

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped.set()

    def _run(self, read: Read, split: Split) -> None:
        error: BaseException | None = None
        try:
            for batch in read(split):
                if not self._put(batch, None):
                    return
        except BaseException as found:  # noqa: BLE001 - the caller raises it
            error = found
        self._put(None, error)

    def _put(self, batch: Any, error: BaseException | None) -> bool:
        """Hand a batch on. Return whether the caller still takes any."""
        while not self._stopped.is_set():
            with suppress(queue.Full):
                self._found.put((batch, error), timeout=_LOOK_S)
                return True
        return False
