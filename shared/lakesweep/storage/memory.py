"""A store in memory, for tests: every guarantee of `Store`, and a clock that a test turns."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from lakesweep.errors import ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.storage.keys import check_key, check_prefix
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Body, DeleteRequest, DeleteResult, StoredObject

PAGE_KEYS = 1000
MAX_DELETE_KEYS = 1000


def _wall_clock() -> int:
    return int(time.time() * 1000)


class MemoryStore:
    """Objects in a dictionary."""

    def __init__(
        self,
        location: str = "memory://store",
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
        self._counter.add("list", max(1, -(-len(found) // PAGE_KEYS)))
        for key, (data, etag, modified_ms) in found:
            yield StoredObject(key, len(data), etag, modified_ms)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        check_key(key, self._location)
        self._counter.add("get")
        with self._lock:
            entry = self._objects.get(key)
        if entry is None:
            raise ObjectNotFoundError(f"{self._location}/{key} does not exist")
        if max_bytes is not None and len(entry[0]) > max_bytes:
            raise StorageError(
                f"{self._location}/{key}: expected at most {max_bytes} bytes, found {len(entry[0])}", code="too_large"
            )
        return Body(entry[0], entry[1])

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object; see `Store.put`."""
        check_key(key, self._location)
        self._counter.add("put")
        with self._lock:
            entry = self._objects.get(key)
            if if_absent and entry is not None:
                raise PreconditionFailedError(f"{self._location}/{key}: expected nothing there, found an object")
            if if_match is not None and (entry is None or entry[1] != if_match):
                raise PreconditionFailedError(f"{self._location}/{key}: expected the object with ETag {if_match}")
            self._version += 1
            etag = f"{self._version:016x}"
            self._objects[key] = (bytes(data), etag, self._clock())
            return etag

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 keys; see `Store.delete`."""
        if len(requests) > MAX_DELETE_KEYS:
            raise StorageError(f"{self._location}: expected at most {MAX_DELETE_KEYS} keys, found {len(requests)}")
        for request in requests:
            check_key(request.key, self._location)
        if requests:
            self._counter.add("delete")
        with self._lock:
            return [DeleteResult(request.key, self._delete(request)) for request in requests]

    def _delete(self, request: DeleteRequest) -> str:
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
