"""Count requests by kind, exactly as a bill would."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.storage.clock import Stopwatch

KINDS = ("get", "head", "list", "put", "delete")


@dataclass(frozen=True, slots=True)
class Used:
    """What a call used in a part of its time."""

    requests: Mapping[str, int]
    """To S3, by kind. Those to local folders cost nothing and are not among them."""
    ms: int


class RequestCounter:
    """Requests of any number of stores, counted from any thread.

    For S3, the counter counts all requests, retries included. For local and memory stores, it counts the requests that
    S3 would need without retries: a page of up to 1 000 names, one request for all unconditional deletes of a call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(KINDS, 0)
        self._free = dict.fromkeys(KINDS, 0)
        self._begun = Stopwatch()
        self._taken: dict[str, Used] = {}
        """Taker -> what was used before its next share begins."""
        self.deleted_keys = 0
        """Keys deleted so far."""
        self.read_bytes = 0
        """Bytes of bodies read so far."""
        self.throttled = 0
        """Answers so far that demanded fewer requests."""

    def add(self, kind: str, count: int = 1, *, free: int = 0) -> None:
        """Count `count` requests of one of `KINDS`, of which `free` went to no S3."""
        with self._lock:
            self._counts[kind] += count
            self._free[kind] += free

    def add_deleted_keys(self, count: int) -> None:
        """Count keys that a store reported as deleted, regardless of the number of requests."""
        with self._lock:
            self.deleted_keys += count

    def add_read_bytes(self, count: int) -> None:
        """Count the bytes of bodies that were read."""
        with self._lock:
            self.read_bytes += count

    def add_throttled(self) -> None:
        """Count an answer that demands fewer requests, whether or not the repeated request succeeded."""
        with self._lock:
            self.throttled += 1

    def free(self) -> dict[str, int]:
        """Return the requests so far that went to no S3, by kind."""
        with self._lock:
            return dict(self._free)

    def used(self) -> Used:
        """Return what was used so far, since the counter was made."""
        with self._lock:
            return Used({kind: self._counts[kind] - self._free[kind] for kind in KINDS}, self._begun.elapsed_ms())

    def take(self, taker: str, puts: int = 0) -> Used:
        """Return what was used since the last call with this taker; at first, since the counter was made.

        Args:
            taker: Who takes. Each request is in one of the shares of a taker.
            puts: So many puts to S3 are about to follow. They are in this share, and not in the next one.
        """
        now = self.used()
        until = Used({**now.requests, "put": now.requests["put"] + puts}, now.ms)
        with self._lock:
            before = self._taken.get(taker, Used(dict.fromkeys(KINDS, 0), 0))
            self._taken[taker] = until
        # A put that was foretold and not sent must not make the next share negative.
        share = {kind: max(0, until.requests[kind] - before.requests[kind]) for kind in KINDS}
        return Used(share, max(0, until.ms - before.ms))

    def snapshot(self) -> dict[str, int]:
        """Return the requests so far, by kind."""
        with self._lock:
            return dict(self._counts)
