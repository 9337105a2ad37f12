"""Time that goes on while a process or its machine stands still.

The monotonic clock of Linux stops while a machine sleeps, and a sandbox that was frozen may wake with all its clocks
where they were, but for the wall clock, which is set right again. So two clocks are asked, and the one that says more
is believed: whoever counts how long something may still be done then stops too early, never too late.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


def _boot_s() -> float:
    """Return seconds since some moment, those included for which the machine slept.

    Where there is no such clock, the monotonic one.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where the time comes from, in seconds."""

    boot_s: Callable[[], float] = _boot_s
    """Never goes back."""
    wall_s: Callable[[], float] = time.time
    """May jump either way when somebody sets it."""


CLOCKS = Clocks()


class Stopwatch:
    """Counts from the moment at which it is made."""

    def __init__(self, clocks: Clocks = CLOCKS) -> None:
        self._clocks = clocks
        self._boot_s = clocks.boot_s()
        self._wall_s = clocks.wall_s()

    def elapsed_ms(self) -> int:
        """Return how long ago that was, by the clock that says more."""
        boot_s = self._clocks.boot_s() - self._boot_s
        wall_s = self._clocks.wall_s() - self._wall_s
        return int(max(boot_s, wall_s) * 1000)
