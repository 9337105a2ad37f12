"""Requests that need not wait for each other.

Each caller says why the order of its requests is no safety argument.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from lakesweep.storage.store import Store

First = TypeVar("First")
Second = TypeVar("Second")


def waits(store: Store) -> bool:
    """Tell whether requests of a store take long enough for threads to pay."""
    return getattr(store, "reads_wait", True)


def both(first: Callable[[], First], second: Callable[[], Second], *, at_once: bool = True) -> tuple[First, Second]:
    """Make two calls at the same time, `first` in a thread of its own, and return both results.

    Both have ended when this returns or raises. If both fail, the error of `first` is raised, as if the calls had
    followed each other.

    Args:
        first: The call that comes first if they follow each other.
        second: The other call.
        at_once: If false, they follow each other, and an error of `first` prevents `second`.
    """
    if not at_once:
        return first(), second()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="both") as pool:
        # The copy carries the guard of this thread.
        future = pool.submit(copy_context().run, first)
        try:
            answer = second()
        except Exception:
            future.result()
            raise
        return future.result(), answer


def begun(pool: ThreadPoolExecutor | None, call: Callable[[], First]) -> Callable[[], First]:
    """Begin a call in a pool, and return what gives its result. Without a pool, it begins when that is asked for."""
    # The copy carries the guard of this thread.
    return call if pool is None else pool.submit(copy_context().run, call).result
