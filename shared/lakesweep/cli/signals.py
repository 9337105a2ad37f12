"""Signals that ask this process to end. They stop a command like Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lakesweep.errors import TerminatedError

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopping() -> Iterator[None]:
    """Let a signal raise `TerminatedError`, so that a run stores what it did and releases its lease.

    A signal that the process already handles or ignores, as with `nohup`, is not changed.
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
