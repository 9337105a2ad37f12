"""Seconds that pass only as fast as the work of this process and of those that it started.

Other programs that run on this machine take its processors away. Linux says of each thread how long it ran, and how
long it was ready to run and waited for a processor. The time of waiting does not count here. So a second of this clock
is as much work as a second of a machine with nothing else to do, and a second in which nothing is ready to run is a
second. Where Linux does not say it, this is the machine's clock.
"""

import math
import mmap
import os
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

LOOK_S = 0.04
"""Between two looks at the threads; in between the clock goes on as it did."""
FAMILY_S = 0.4
"""Between two looks at which processes there are."""
SMOOTH_S = 1.0
"""What was longer ago is forgotten. Linux tells of waiting when it is over, so a moment alone says little."""
LEAST_RATE = 0.01
LEAST_WORK_S = 0.015 * SMOOTH_S
"""A thread that ran for less lately does no work: a server, for instance, that looks for somebody who calls it."""
_FORMAT = struct.Struct("<d")


class WorkClock:
    """Counts from 0 on. It never goes back, and all threads may ask it."""

    def __init__(self, pid: int | None = None) -> None:
        """Begin.

        Args:
            pid: The process whose work it is, with its descendants; this one if it is not stated.
        """
        self._family = Family(os.getpid() if pid is None else pid)
        self._lock = threading.Lock()
        self._looked_s = time.monotonic()
        self._now_s, self._rate = 0.0, 1.0
        self._told: mmap.mmap | None = None

    def now(self) -> float:
        """Return the seconds of work so far."""
        with self._lock:
            since_s = time.monotonic() - self._looked_s
            if since_s >= LOOK_S:
                self._now_s += self._rate * since_s
                self._rate = self._family.rate(since_s)
                self._looked_s += since_s
                since_s = 0.0
            now_s = self._now_s + self._rate * since_s
            if self._told is not None:
                self._told[:] = _FORMAT.pack(now_s)
            return now_s

    def tell(self, path: Path) -> None:
        """Write the time to a file from now on, whenever somebody asks for it: for processes with a `ToldClock`."""
        path.write_bytes(_FORMAT.pack(self.now()))
        with path.open("r+b") as file:
            self._told = mmap.mmap(file.fileno(), _FORMAT.size)

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Do no work in this thread inside the block: it looks whether others have done theirs."""
        path = f"/proc/{os.getpid()}/task/{threading.get_native_id()}"
        self._family.looking[path] += 1
        try:
            yield
        finally:
            self._family.looking[path] -= 1

    def wait(self, is_done: Callable[[float], bool], seconds: float) -> bool:
        """Wait until something is so, and tell whether it came within so many seconds of work.

        Args:
            is_done: Tells it, and waits for it up to as many real seconds as it is given.
            seconds: When to give up.
        """
        end_s = self.now() + seconds
        with self.looking():
            while not is_done(0.05):
                if self.now() >= end_s:
                    return False
        return True

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of work."""
        end_s = self.now() + seconds
        with self.looking():
            while (left_s := end_s - self.now()) > 0:
                time.sleep(min(left_s, 0.05))


class Family:
    """A process and its descendants, as /proc shows them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._pids: list[int] = []
        self._seen_s = -FAMILY_S
        self._threads: dict[str, _Thread] = {}
        self.looking: Counter[str] = Counter()
        """Paths of threads whose time is no work now."""
        self.rate(0.0)

    def rate(self, since_s: float) -> float:
        """Return how fast the work goes on: 1 if no thread waits for a processor, 0 if none gets one.

        Threads that run more count more. Those that only look for something to do, again and again, do not count.

        Args:
            since_s: Seconds since this was last called.
        """
        if time.monotonic() - self._seen_s >= FAMILY_S:
            self._seen_s = time.monotonic()
            self._pids = list(_descendants(self._pid))
        before, self._threads = self._threads, {}
        for path in (path for pid in self._pids for path in _threads(pid)):
            with suppress(OSError, ValueError):  # it has ended
                ran_ns, waited_ns, _ = map(int, _text(f"{path}/schedstat").split())
                known = before.get(path) or (_Thread() if since_s else _Thread(ran_ns, waited_ns))
                known = known.after(ran_ns, waited_ns, math.exp(-since_s / SMOOTH_S))
                self._threads[path] = _Thread(ran_ns, waited_ns) if self.looking[path] else known
        working = [each for each in self._threads.values() if each.ran_s >= LEAST_WORK_S]
        if not working:
            return 1.0
        ran_s = sum(each.ran_s for each in working)
        ready_s = ran_s + sum(each.waited_s for each in working)
        share = sum(each.ran_s**2 / (each.ran_s + each.waited_s) for each in working) / ran_s
        return max(LEAST_RATE, 1.0 - min(1.0, ready_s / SMOOTH_S) * (1.0 - share))


@dataclass(frozen=True, slots=True)
class _Thread:
    """What is known of a thread."""

    ran_ns: int = 0
    waited_ns: int = 0
    ran_s: float = 0.0
    """Lately; what was before counts less."""
    waited_s: float = 0.0

    def after(self, ran_ns: int, waited_ns: int, left: float) -> "_Thread":
        """Return it as it is now; of what was lately so much is left."""
        ran_s = self.ran_s * left + max(0, ran_ns - self.ran_ns) / 1e9
        return _Thread(ran_ns, waited_ns, ran_s, self.waited_s * left + max(0, waited_ns - self.waited_ns) / 1e9)


def _descendants(pid: int) -> Iterator[int]:
    yield pid
    for path in _threads(pid):
        with suppress(OSError):
            for child in _text(f"{path}/children").split():
                yield from _descendants(int(child))


def _threads(pid: int) -> list[str]:
    folder = f"/proc/{pid}/task"
    try:
        return [f"{folder}/{each}" for each in os.listdir(folder)]  # noqa: PTH208 (25 times a second)
    except OSError:
        return []


def _text(path: str) -> str:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096).decode()
    finally:
        os.close(file)


class ToldClock:
    """The clock of the process that started this one."""

    def __init__(self, path: Path) -> None:
        """Listen to it.

        Args:
            path: The file that `WorkClock.tell` writes to.
        """
        with path.open("rb") as file:
            self._told = mmap.mmap(file.fileno(), _FORMAT.size, access=mmap.ACCESS_READ)

    def __call__(self) -> float:
        """Return its time when it was last asked for."""
        seconds: float = _FORMAT.unpack(self._told[:])[0]
        return seconds
