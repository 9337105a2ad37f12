"""A store in memory, for tests: every guarantee of `Store`, and a clock that a test turns."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from lakesweep.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.storage.keys import PAGE_KEYS, check_key, check_prefix, count_deletes, is_key
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Body, DeleteRequest, DeleteResult, StoredObject


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


class MemoryStore:
    """Objects in a dictionary."""

    reads_wait = False

    def __init__(
        self,
        location: str = "memory://x",
        counter: RequestCounter | None = None,
        clock: Callable[[], int] = _wall_clock,
    ) -> None:
        self._location = location.rstrip("/")
        self._counter = counter or RequestCounter()
        self._clock = clock
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, str, int]] = {}
        self._version = 0

    @property
    def location(self) -> str:
        """Return the root."""
        return self._location

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects below a folder; see `Store.list`."""
        check_prefix(prefix, self._location)
        with self._lock:
            found = sorted((key, entry) for key, entry in self._objects.items() if key.startswith(prefix))
        if not found:
            self._counter.add("list")
        for index, (key, (data, etag, modified_ms)) in enumerate(found):
            if index % PAGE_KEYS == 0:
                self._counter.add("list")
            yield StoredObject(key, len(data), etag, modified_ms)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        check_key(key, self._location)
        self._counter.add("get")
        with self._lock:
            entry = self._objects.get(key)
        if entry is None:
            raise ObjectNotFoundError(f"{self._location}/{key} does not exist")
        data, etag, _ = entry
        if max_bytes is not None and len(data) > max_bytes:
            raise StorageError(
                f"{self._location}/{key}: expected at most {max_bytes} bytes, found {len(data)}", code="too_large"
            )
        self._counter.add_read_bytes(len(data))
        return Body(data, etag)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object; see `Store.put`."""
        check_key(key, self._location)
        self._counter.add("put")
        with self._lock:
            entry = self._objects.get(key)
            if if_absent and entry is not None:
                raise PreconditionFailedError(f"{self._location}/{key}: expected nothing there, found an object")
            if if_match is not None and (entry is None or entry[1] != if_match):
                found = "nothing" if entry is None else entry[1]
                raise PreconditionFailedError(f"{self._location}/{key}: expected ETag {if_match}, found {found}")
            self._version += 1
            etag = f"{self._version:016x}"
            self._objects[key] = (bytes(data), etag, self._clock())
            return etag

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 keys; see `Store.delete`."""
        self._counter.add("delete", count_deletes(requests, self._location))
        with self._lock:
            results = [DeleteResult(request.key, self._delete(request)) for request in requests]
        self._counter.add_deleted_keys(sum(result.code == "deleted" for result in results))
        return results

    def _delete(self, request: DeleteRequest) -> str:
        if not is_key(request.key):
            return "bad_key"
        entry = self._objects.get(request.key)
        if entry is None:
            return "already_gone"
        if request.etag is not None and entry[1] != request.etag:
            return "precondition_failed"
        del self._objects[request.key]
        return "deleted"

    def now_ms(self) -> int:
        """Return the clock."""
        return self._clock()

    def set_modified(self, key: str, modified_ms: int) -> None:
        """Back-date an object."""
        with self._lock:
            data, etag, _ = self._objects[key]
            self._objects[key] = (data, etag, modified_ms)
