"""The time of the running system: it waits for the work, may pass faster than that, and skips what nobody waits for.

As long as processes of the system wait for a processor it does not pass (`work_clock.py`), so whatever the system does
takes as long by this clock on a busy machine as on one with nothing else to do. S3 and the queues go by it. Functions
and writers are processes of their own, which are told how long they worked.
"""

import struct
import threading
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from tests.support.system.work_clock import WorkClock


class Clock:
    """Seconds since the epoch, from now on `speed` times as fast as the work."""

    def __init__(self, speed: float = 1.0, began_s: float | None = None) -> None:
        """Begin now, or at another time."""
        self.speed = speed
        self._began_s = time.time() if began_s is None else began_s
        self.work = WorkClock()
        """What limits go by that are there for the work: nobody skips or jumps over them."""
        self._skipped_s = 0.0
        self._told: Path | None = None
        self._lock = threading.Lock()

    def now(self) -> float:
        """Return the time."""
        with self._lock:
            return self._began_s + self.work.now() * self.speed + self._skipped_s

    def tell(self, path: Path) -> None:
        """Write what a process needs beside `WorkClock.tell` to know this time: the time of 0, and the speed."""
        with self._lock:
            self._told = path
            self._tell()

    def _tell(self) -> None:
        if self._told is not None:
            new = self._told.with_suffix(".new")
            new.write_bytes(struct.pack("<dd", self._began_s + self._skipped_s, self.speed))
            new.replace(self._told)

    def sleep(self, seconds: float) -> None:
        """Wait so long by this clock, or until somebody skips the time."""
        end_s = self.now() + seconds
        with self.work.looking():
            while (left_s := end_s - self.now()) > 0:
                time.sleep(min(left_s / self.speed, 0.05))

    def skip_to(self, at_s: float) -> None:
        """Let the time until then be over; earlier times change nothing."""
        left_s = at_s - self.now()
        with self._lock:
            self._skipped_s += max(0.0, left_s)
            self._tell()

    def jump(self, seconds: float) -> None:
        """Show another time from now on, an earlier one where `seconds` are below 0: somebody set the clock."""
        with self._lock:
            self._skipped_s += seconds
            self._tell()

    def datetime(self) -> datetime:
        """Return the time as a date in UTC, without its zone."""
        return datetime.fromtimestamp(self.now(), UTC).replace(tzinfo=None)

    def http_date(self) -> str:
        """Return the time as a Date header says it, in whole seconds."""
        return format_datetime(datetime.fromtimestamp(int(self.now()), UTC), usegmt=True)


class ManualClock(Clock):
    """Stands still unless it is told to go on."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        super().__init__()
        self._now_s = now_s

    def now(self) -> float:
        """Return the time."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Go on."""
        self._now_s += seconds

    def sleep(self, seconds: float) -> None:
        """Go on; nobody waits."""
        self.advance(seconds)

    def skip_to(self, at_s: float) -> None:
        """Go on to a time."""
        self._now_s = max(self._now_s, at_s)
