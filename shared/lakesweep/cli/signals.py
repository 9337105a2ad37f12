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


def end_quietly() -> None:
    """Let Ctrl-C end this process at once from here on: all is said, and only Python and its threads have yet to end.

    Python would show a traceback of its own shutdown instead.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _raise(number: int, frame: FrameType | None) -> None:
    raise TerminatedError(signal.Signals(number).name, number)
