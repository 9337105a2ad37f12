"""Signals that ask this process to end: they stop a command as Ctrl-C does."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lakesweep.errors import TerminatedError

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopping() -> Iterator[None]:
    """Have a signal raise `TerminatedError`, so that a run writes down what it did and gives its lease back.

    Signals that somebody else handles or ignores, as `nohup` does, stay as they are.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    changed = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in changed:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int, frame: FrameType | None) -> None:
    raise TerminatedError(signal.Signals(number).name, number)
