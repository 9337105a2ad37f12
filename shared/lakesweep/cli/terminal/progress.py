"""What a person sees while a command works: a line on a terminal, or plain lines if $LAKESWEEP_PROGRESS asks for them.

The command only notes how far it is. A thread shows it after a moment, so a quick command shows nothing. Without a
terminal there is nothing by default, so that a scheduled job sends no mail.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

from lakesweep.cli.terminal.output import say, show_status
from lakesweep.cli.text import counted, human_bytes
from lakesweep.errors import UsageError
from lakesweep.model.progress import Progress, no_progress
from lakesweep.storage import stops
from lakesweep.storage.requests import RequestCounter

_FIRST_S = 0.7
_AGAIN_S = 0.25
_BAR = 10
_VARIABLE = "LAKESWEEP_PROGRESS"


class _Work:
    """How far the work is."""

    def __init__(self, title: str, counter: RequestCounter) -> None:
        self.title = title
        self.over = threading.Event()
        self.count: tuple[str, int, int | None] | None = None
        self._counter = counter
        self._began = time.monotonic()
        self.stops = stops.count

    def note(self, what: str, done: int, total: int | None) -> None:
        """Note what is counted, how many so far, and of how many."""
        self.count = (what, done, total)

    def text(self) -> str:
        """Return the numbers as a person reads them."""
        parts = [str(timedelta(seconds=int(time.monotonic() - self._began)))]
        if self.count is not None:
            what, done, total = self.count
            parts.insert(0, f"{_grouped(done)}{'' if total is None else f' of {_grouped(total)}'} {what}")
        parts.append(counted(sum(self._counter.snapshot().values()), "request"))
        if self._counter.read_bytes:
            parts.append(f"{human_bytes(self._counter.read_bytes)} read")
        if self._counter.throttled:
            parts.append(f"slowed down by S3 {counted(self._counter.throttled, 'time')}")
        return ", ".join(parts)


@contextmanager
def shown_progress(title: str, counter: RequestCounter) -> Iterator[Progress]:
    """Show the progress of the block on standard error, and erase the line at its end.

    Raises:
        UsageError: $LAKESWEEP_PROGRESS is no number.
    """
    work, every_s = _Work(title, counter), _seconds()
    if every_s == 0 or (every_s is None and not _is_terminal()):
        yield no_progress
        return
    show = partial(_show_bar, work) if every_s is None else partial(_show_lines, work, every_s)
    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield work.note
    finally:
        work.over.set()
        thread.join()


def _show_lines(work: _Work, every_s: float) -> None:
    while not work.over.wait(every_s):
        say(f"{work.title}: {work.text()}")


def _show_bar(work: _Work) -> None:
    wait_s = _FIRST_S
    while not work.over.wait(wait_s):
        wait_s = _AGAIN_S
        _, done, total = work.count or ("", 0, None)
        length = min(_BAR, _BAR * done // total) if total else 0
        bar = f"[{'#' * length}{'.' * (_BAR - length)}] " if total else ""
        show_status(
            bar + work.text() if work.stops == stops.count else "stopping when the requests under way have ended"
        )
    show_status("")


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def _seconds() -> float | None:
    """Return the seconds between plain lines; 0 for no progress at all, `None` for a line on a terminal."""
    text = os.environ.get(_VARIABLE) or None
    if text is not None and not (text.isascii() and text.isdigit()):
        raise UsageError(f"${_VARIABLE}: expected seconds between lines of progress, or 0 for none, found {text!r}")
    return None if text is None else float(text)


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")
