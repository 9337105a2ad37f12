"""Ctrl-C while a call of the API runs."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lakesweep.storage import stops


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end the requests under way in other threads, too, which would else be sent again for minutes.

    It raises `KeyboardInterrupt` as ever. A handler of the caller's own is not replaced.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(number: int, frame: FrameType | None) -> None:
    stops.stop()
    raise KeyboardInterrupt
