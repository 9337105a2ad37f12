"""Threads that work for a generator, which its caller may abandon.

Garbage collection ends an abandoned generator in whichever thread it runs, in the midst of that thread's work. That
thread may hold a lock without which the threads of the generator cannot end. So garbage collection waits for none of
them: they end by themselves, after the requests that are on their way.
"""

import gc
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import get_ident

_collecting = 0
"""The thread that collects garbage; 0: none does."""


def _note(phase: str, _: object) -> None:
    global _collecting  # noqa: PLW0603 - there is one garbage collection in a process
    _collecting = get_ident() if phase == "start" else 0


gc.callbacks.append(_note)


@contextmanager
def threads(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Provide a generator with threads until it ends."""
    pool = ThreadPoolExecutor(max_workers=count, thread_name_prefix=name)
    try:
        yield pool
    finally:
        end(pool)


def end(pool: ThreadPoolExecutor, own: Container[int] = ()) -> None:
    """End a pool, and wait for its threads unless garbage collection or one of them ends it.

    Args:
        pool: The pool. What it has not begun is not begun any more.
        own: Its threads, as far as they run code that may drop the generator; none can wait for itself.
    """
    pool.shutdown(wait=get_ident() != _collecting and get_ident() not in own, cancel_futures=True)
