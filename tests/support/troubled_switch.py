"""Switches for `FaultyStore` that trouble a run in this process: errors, throttling, latency."""

import threading
from collections.abc import Callable

from lakesweep.errors import StorageError
from tests.support.faulty_store import Switch

SLOW_DOWN = "SlowDown"


class ErrorSwitch(Switch):
    """Fails calls.

    `mode`: `before` fails call `at` without effect; `after` fails it although it took effect; `slow_down_for_ever`
    fails it and every later one, as a store of S3 does once all attempts of a request were throttled.
    """

    def _run(self, name: str, call: Callable[[], object]) -> object:
        self.calls.append(name)
        number = len(self.calls)
        if self.mode == "slow_down_for_ever" and self.at is not None and number >= self.at:
            raise StorageError(f"{name}: Please reduce your request rate. ({SLOW_DOWN})", code=SLOW_DOWN)
        if number != self.at:
            return call()
        if self.mode == "after":
            try:
                call()
            except StorageError:
                pass  # nothing there, say: the answer is lost all the same
        raise StorageError(f"{name}: broken on purpose", code="broken")


class SlowSwitch:
    """Lets the clock run on in calls; at call `at` the run stands still while somebody else has a turn.

    Each call takes `each_ms`. At call `at`, `still_ms` pass as well and `meanwhile` is called: before the call takes
    effect, or (`effect_first`) after.
    """

    def __init__(
        self,
        at: int,
        advance: Callable[[int], None],
        *,
        each_ms: int = 0,
        still_ms: int = 0,
        effect_first: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self.calls: list[str] = []
        self._at = at
        self._advance = advance
        self._each_ms = each_ms
        self._still_ms = still_ms
        self._effect_first = effect_first
        self._meanwhile = meanwhile
        self._lock = threading.Lock()

    def run(self, name: str, call: Callable[[], object]) -> object:
        """Make one call, slowly."""
        with self._lock:
            self.calls.append(name)
            hit = len(self.calls) == self._at
            self._advance(self._each_ms)
            if hit and not self._effect_first:
                self._stand_still()
            try:
                return call()
            finally:
                if hit and self._effect_first:
                    self._stand_still()

    def _stand_still(self) -> None:
        self._advance(self._still_ms)
        self._meanwhile()
