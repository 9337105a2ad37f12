"""Many reads at a time, with a bound on how much waits in memory."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from lakesweep.errors import StorageError
from lakesweep.storage.store import Body, Store

PARALLEL = 32
"""Requests under way at once: enough to hide a latency of tens of milliseconds."""


def read_many(
    store: Store, keys: Iterable[str], *, parallel: int = PARALLEL, max_bytes: int | None = None
) -> Iterator[tuple[str, Body | StorageError]]:
    """Yield each key with its object, or with the error that its read raised, in the order of `keys`.

    At most `parallel` reads are under way or waiting to be taken, so memory is bounded by so many objects.

    Args:
        store: Where to read. A store whose reads take no waiting (`reads_wait = False`) is read one by one.
        keys: Which objects.
        parallel: How many reads at once.
        max_bytes: As in `Store.read`.
    """
    keys = list(keys)
    if len(keys) < 2 or not getattr(store, "reads_wait", True):
        for key in keys:
            yield key, _read(store, key, max_bytes)
        return
    with ThreadPoolExecutor(max_workers=min(parallel, len(keys)), thread_name_prefix="read") as pool:
        waiting: deque[tuple[str, Future[Body | StorageError]]] = deque()
        upcoming = iter(keys)
        try:
            for key in upcoming:
                waiting.append((key, pool.submit(_read, store, key, max_bytes)))
                if len(waiting) >= parallel:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


def _read(store: Store, key: str, max_bytes: int | None) -> Body | StorageError:
    try:
        return store.read(key, max_bytes)
    except StorageError as error:
        return error
