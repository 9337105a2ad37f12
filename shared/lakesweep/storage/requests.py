"""Counts requests by kind, exactly: what a bill would show."""

import threading

KINDS = ("get", "head", "list", "put", "delete")


class RequestCounter:
    """Requests of any number of stores, counted from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(KINDS, 0)

    def add(self, kind: str, count: int = 1) -> None:
        """Count `count` requests of one of `KINDS`."""
        with self._lock:
            self._counts[kind] += count

    def snapshot(self) -> dict[str, int]:
        """Return the counts so far."""
        with self._lock:
            return dict(self._counts)
