"""Many reads at a time, with a bound on the memory for waiting results."""

from collections import deque
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import get_ident

from lakesweep.errors import StorageError
from lakesweep.storage.allocator import return_large_blocks
from lakesweep.storage.pools import end
from lakesweep.storage.store import Body, Store

PARALLEL = 32
"""Concurrent requests: enough to hide a latency of tens of milliseconds."""
WINDOW_BYTES = 32 << 20
"""No read begins while this many bytes wait for the caller or are known to be on their way."""


def read_many(
    store: Store,
    keys: Iterable[str],
    *,
    parallel: int = PARALLEL,
    max_bytes: int | None = None,
    sizes: Mapping[str, int] | None = None,
    window_bytes: int = WINDOW_BYTES,
) -> Generator[tuple[str, Body | StorageError], None, None]:
    """Yield each key with its object or with the error of its read, in the order of `keys`.

    Reads are at most twice `parallel` keys ahead of the caller, and no read is added while `window_bytes` wait. So
    memory is limited to that plus twice `parallel` objects. Objects with a known size count from the beginning. A
    caller that stops early leaves no thread behind; see `pools.py`. What the store has in memory needs no thread. A
    caller that raises an error it was given closes the generator first: the error would keep it, and its threads.

    Args:
        store: The store to read. If its reads do not wait (`reads_wait` is false), it is read one by one, since threads
            made reads of local files two and a half times slower.
        keys: The objects; consumed while reading continues.
        parallel: Number of concurrent reads.
        max_bytes: As in `Store.read`.
        sizes: Sizes in bytes that objects should have, if known; a longer object is refused as with `max_bytes`.
        window_bytes: How many bytes may wait.
    """
    sizes = sizes or {}

    known = getattr(store, "known", None)

    def limit_of(key: str) -> int | None:
        limits = [limit for limit in (max_bytes, sizes.get(key)) if limit is not None]
        return min(limits, default=None)

    def read(key: str) -> Body | StorageError:
        return _read(store, key, limit_of(key))

    upcoming = iter(keys)
    if parallel < 2 or not getattr(store, "reads_wait", True):
        for key in upcoming:
            yield key, read(key)
        return
    ahead: list[str] = list(islice(upcoming, 2))
    if len(ahead) < 2:  # One key needs no pool.
        for key in ahead:
            yield key, read(key)
        return
    arrived: deque[int] = deque()
    threads: set[int] = set()

    def fetch(key: str) -> Body | StorageError:
        threads.add(get_ident())
        body = read(key)
        arrived.append(_size(body) - sizes.get(key, 0))
        return body

    if sum(sizes.values()) >= WINDOW_BYTES // 4:
        return_large_blocks()
    pool = ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="read")

    def begun(key: str) -> Body | Future[Body | StorageError]:
        body: Body | None = None if known is None else known(key, limit_of(key))
        return pool.submit(fetch, key) if body is None else body

    waiting: deque[tuple[str, Body | Future[Body | StorageError]]] = deque((key, begun(key)) for key in ahead)
    waiting_bytes = sum(sizes.get(key, 0) for key, found in waiting if isinstance(found, Future))
    try:
        while True:
            while not waiting or (len(waiting) < 2 * parallel and waiting_bytes < window_bytes):
                next_key = next(upcoming, None)
                if next_key is None:
                    break
                waiting.append((next_key, begun(next_key)))
                if isinstance(waiting[-1][1], Future):
                    waiting_bytes += sizes.get(next_key, 0)
            if not waiting:
                return
            key, found = waiting.popleft()
            if not isinstance(found, Future):
                yield key, found
                continue
            body = found.result()
            while arrived:
                waiting_bytes += arrived.popleft()
            waiting_bytes -= _size(body)
            yield key, body
    finally:
        end(pool, threads)


def _size(body: Body | StorageError) -> int:
    return len(body.data) if isinstance(body, Body) else 0


def _read(store: Store, key: str, max_bytes: int | None) -> Body | StorageError:
    try:
        return store.read(key, max_bytes)
    except StorageError as error:
        return error
