"""Count requests by kind, exactly as a bill would."""

import threading

KINDS = ("get", "head", "list", "put", "delete")


class RequestCounter:
    """Requests of any number of stores, counted from any thread.

    For S3, the counter counts all requests, retries included. For local and memory stores, it counts the requests that
    S3 would need without retries: a page of up to 1 000 names, one request for all unconditional deletes of a call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(KINDS, 0)
        self.deleted_keys = 0
        """Keys deleted so far."""
        self.read_bytes = 0
        """Bytes of bodies read so far."""
        self.throttled = 0
        """Answers so far that demanded fewer requests."""

    def add(self, kind: str, count: int = 1) -> None:
        """Count `count` requests of one of `KINDS`."""
        with self._lock:
            self._counts[kind] += count

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

    def snapshot(self) -> dict[str, int]:
        """Return the requests so far, by kind."""
        with self._lock:
            return dict(self._counts)
