"""Round trips in sequence: how many requests of a call had to wait for one another, whatever the machine does.

Each thread has a clock that only requests move, by one trip each. A task begins at the clock of the thread that submits
it, and who takes its result goes on no earlier than the task ended. So requests that are sent together count once, and
the number does not depend on how threads happen to run.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from lakesweep.storage.store import Body, DeleteRequest, DeleteResult, Page, Store, StoredObject
from lakesweep.storage.wrappers.wrapping import WrappingStore


class Trips:
    """The requests of some stores, each with the trip in which it was sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Follow the tasks of every pool from now on."""
        self._local = threading.local()
        self._lock = threading.Lock()
        self._ends: dict[int, int] = {}
        self.requests: list[tuple[int, str]] = []
        submit, result = ThreadPoolExecutor.submit, Future.result

        def submitted(pool: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **words: Any) -> Any:
            begin, end = self._now(), [0]

            def task() -> Any:
                self._local.now = begin
                try:
                    return call(*args, **words)
                finally:
                    end[0] = self._now()

            future = submit(pool, task)
            future.trips = end  # type: ignore[attr-defined]
            return future

        def taken(future: Any, timeout: float | None = None) -> Any:
            try:
                return result(future, timeout)
            finally:
                self._local.now = max(self._now(), getattr(future, "trips", [0])[0])

        monkeypatch.setattr(ThreadPoolExecutor, "submit", submitted)
        monkeypatch.setattr(Future, "result", taken)

    def _now(self) -> int:
        return getattr(self._local, "now", 0)

    def send(self, what: str) -> None:
        """Note a request of this thread."""
        self._local.now = self._now() + 1
        with self._lock:
            self.requests.append((self._now(), what))

    def forget(self) -> None:
        """Count from the beginning."""
        self._local.now = 0
        self.requests.clear()

    def timeline(self) -> list[list[str]]:
        """Return what each trip sent, sorted."""
        last = max((trip for trip, _ in self.requests), default=0)
        return [sorted(what for trip, what in self.requests if trip == number) for number in range(1, last + 1)]


class TripStore(WrappingStore):
    """Notes the requests to a store that answers at once, as if it waited for each."""

    def __init__(self, store: Store, trips: Trips, name: str) -> None:
        """Wrap a store; its requests are noted with `name`."""
        super().__init__(store)
        self.reads_wait = True
        self._trips = trips
        self._name = name

    def _send(self, kind: str, key: str) -> None:
        self._trips.send(f"{self._name} {kind} {key}")

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects below a folder; see `Store.list`."""
        self._send("list", prefix)
        return self._store.list(prefix)

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Yield objects of a range in pages; see `Store.list_range`."""
        for page in self._store.list_range(prefix, after, until):
            self._send("list", prefix)
            yield page

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders in a folder; see `Store.folders`."""
        self._send("list", prefix)
        return self._store.folders(prefix)

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of `names` may be folders; see `Store.folders_among`."""
        self._send("list", "/")
        return self._store.folders_among(names)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        self._send("read", key)
        return self._store.read(key, max_bytes)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object; see `Store.put`."""
        self._send("put", key)
        return self._store.put(key, data, if_absent=if_absent, if_match=if_match)

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete objects; see `Store.delete`. The requests of one call are sent together."""
        self._send("delete", f"{len(requests)} objects")
        return self._store.delete(requests)
