"""The memory of large bodies: returned to the system as soon as a body is dropped.

The allocator of glibc keeps freed blocks of many megabytes for later, in an arena for each of many threads. Reading a
thousand manifests in 32 threads then takes 100 MiB more than what is held at any time.
"""

from functools import cache

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_LARGE_BYTES = 1 << 18
_ARENAS = 2


@cache
def return_large_blocks() -> None:
    """Let the allocator of this process return large blocks. Another allocator than that of glibc is left alone."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_M_ARENA_MAX, _ARENAS)
