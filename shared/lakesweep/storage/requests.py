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
        self._deleted_keys = 0
        self._read_bytes = 0
        self._throttled = 0

    def add(self, kind: str, count: int = 1) -> None:
        """Count `count` requests of one of `KINDS`."""
        with self._lock:
            self._counts[kind] += count

    def add_deleted_keys(self, count: int) -> None:
        """Count keys that a store reported as deleted, regardless of the number of requests."""
        with self._lock:
            self._deleted_keys += count

    def add_read_bytes(self, count: int) -> None:
        """Count the bytes of bodies that were read."""
        with self._lock:
            self._read_bytes += count

    def add_throttled(self) -> None:
        """Count an answer that demands fewer requests, whether or not the repeated request succeeded."""
        with self._lock:
            self._throttled += 1

    @property
    def throttled(self) -> int:
        """Answers so far that demanded fewer requests."""
        with self._lock:
            return self._throttled

    @property
    def deleted_keys(self) -> int:
        """Keys deleted so far."""
        with self._lock:
            return self._deleted_keys

    @property
    def read_bytes(self) -> int:
        """Bytes of bodies read so far."""
        with self._lock:
            return self._read_bytes

    def snapshot(self) -> dict[str, int]:
        """Return the requests so far, by kind."""
        with self._lock:
            return dict(self._counts)
