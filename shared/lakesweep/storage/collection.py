"""Garbage collection, held back while many values are made that stay.

Python looks at all values again and again as their number grows. For the entries of a hundred thousand files, this
takes as long as making them.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[None]:
    """Hold garbage collection back. Of threads that do so at a time, the one that began first lets it go on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
