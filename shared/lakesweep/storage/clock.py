"""The clocks of this machine: only this module, the command line and the demo read them (a rule of ruff).

Whether a table's files are old is asked of the store (`Store.now_ms`), never of these. They tell how long something
takes, also while a process or its machine is suspended.

The monotonic clock of Linux stops while a machine sleeps. A sandbox that was frozen may wake with all its clocks where
they were, except for the wall clock, which is set right again. So Lakesweep reads two clocks and believes the larger
value. A caller that counts how long it may continue then stops too early, never too late.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


def wall_ns() -> int:
    """Return the time of this machine, in epoch nanoseconds. It may jump either way when it is set."""
    return time.time_ns()


def wall_ms() -> int:
    """Return the time of this machine, in epoch milliseconds."""
    return int(time.time() * 1000)


def monotonic_s() -> float:
    """Return seconds since some moment; they stop while the machine sleeps."""
    return time.monotonic()


def steady_ns() -> int:
    """Return nanoseconds since some moment, including the time that the machine slept."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _boot_s() -> float:
    """Return seconds since some moment, including the time that the machine slept.

    If there is no such clock, return the monotonic clock.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks, in seconds."""

    boot_s: Callable[[], float] = _boot_s
    """Never goes back."""
    wall_s: Callable[[], float] = time.time
    """May jump either way when it is set."""


CLOCKS = Clocks()


class Stopwatch:
    """Counts from the moment of its creation."""

    def __init__(self, clocks: Clocks = CLOCKS) -> None:
        self._clocks = clocks
        self._boot_s = clocks.boot_s()
        self._wall_s = clocks.wall_s()

    def elapsed_ms(self) -> int:
        """Return the time since then, by the clock with the larger value."""
        boot_s = self._clocks.boot_s() - self._boot_s
        wall_s = self._clocks.wall_s() - self._wall_s
        return int(max(boot_s, wall_s) * 1000)
