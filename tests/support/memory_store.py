"""A store in memory for tests: every guarantee of `Store`, and a clock that the test sets."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from lakesweep.errors import LeaseLostError, ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.storage.guard import LateDeleteError, ask_guard
from lakesweep.storage.keys import check_count, check_key, check_prefix, check_range, count_deletes, is_key, part_of
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import (
    Body,
    DeleteRequest,
    DeleteResult,
    HiddenState,
    Page,
    StoredObject,
    UndeleteRequest,
    UndeleteResult,
    pages_of,
)
from lakesweep.storage.versions import ObjectVersion

Entry = tuple[bytes, str, int]
"""Body, ETag and time of an object."""


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
        *,
        versioned: bool = False,
    ) -> None:
        """Build an empty store; a `versioned` one keeps deleted and replaced objects, as a versioned bucket does."""
        self._location = location.rstrip("/")
        self._counter = counter or RequestCounter()
        self._clock = clock
        self._lock = threading.Lock()
        self._objects: dict[str, Entry] = {}
        self._versioned = versioned
        self._versions: dict[str, list[tuple[str, Entry | None]]] = {}
        """Key -> version id and object, oldest first; a delete marker has no object."""
        self._version = 0

    @property
    def location(self) -> str:
        """Return the root."""
        return self._location

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects below a folder; see `Store.list`."""
        for page in self.list_range(prefix):
            yield from page

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Yield objects of a range in pages; see `Store.list_range`."""
        check_prefix(prefix, self._location)
        with self._lock:
            found = sorted(
                (key, entry)
                for key, entry in self._objects.items()
                if key.startswith(prefix) and key > after and (until is None or key <= until)
            )
        if not found:
            self._counter.add("list")
        for page in pages_of(StoredObject(key, len(data), etag, time_ms) for key, (data, etag, time_ms) in found):
            self._counter.add("list")
            yield page

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders in a folder; see `Store.folders`."""
        check_prefix(prefix, self._location)
        self._counter.add("list")
        with self._lock:
            below = [key.removeprefix(prefix) for key in self._objects if key.startswith(prefix)]
        yield from sorted({key.split("/", 1)[0] for key in below if "/" in key}, key=lambda name: f"{name}/")

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of `names` are folders; see `Store.folders_among`."""
        self._counter.add("list")
        with self._lock:
            return frozenset(key.split("/", 1)[0] for key in self._objects if "/" in key).intersection(names)

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

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return a part of one object; see `Store.read_range`."""
        where = f"{self._location}/{check_key(key, self._location)}"
        check_range(start, length, where)
        self._counter.add("get")
        with self._lock:
            entry = self._objects.get(key)
        if entry is None:
            raise ObjectNotFoundError(f"{where} does not exist")
        body = part_of(Body(entry[0], entry[1]), start, length, where)
        self._counter.add_read_bytes(length)
        return body

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
            ask_guard()
            etag = self._next()
            self._objects[key] = (bytes(data), etag, self._clock())
            self._note(key, etag, self._objects[key])
            return etag

    def _next(self) -> str:
        self._version += 1
        return f"{self._version:016x}"

    def _note(self, key: str, version_id: str, entry: Entry | None) -> None:
        if self._versioned:
            self._versions.setdefault(key, []).append((version_id, entry))

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 keys; see `Store.delete`."""
        self._counter.add("delete", count_deletes(requests, self._location))
        late: LeaseLostError | None = None
        results: list[DeleteResult] = []
        with self._lock:
            for request in requests:
                try:
                    results.append(self._delete(request))
                except LeaseLostError as error:
                    late = error
                    results.append(DeleteResult(request.key, "not_tried"))
        self._counter.add_deleted_keys(sum(result.code == "deleted" for result in results))
        if late is not None:
            raise LateDeleteError(late, results)
        return results

    def _delete(self, request: DeleteRequest) -> DeleteResult:
        if not is_key(request.key):
            return DeleteResult(request.key, "bad_key")
        entry = self._objects.get(request.key)
        if entry is None:
            return DeleteResult(request.key, "already_gone")
        if request.etag is not None and entry[1] != request.etag:
            return DeleteResult(request.key, "precondition_failed")
        ask_guard()
        del self._objects[request.key]
        marker = self._next()
        self._note(request.key, marker, None)
        return DeleteResult(request.key, "deleted", marker if self._versioned else None)

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        """Remove delete markers; see `Store.undelete`. Counts requests as S3 does: a list for each key, one delete."""
        self._check_versioned()
        check_count(requests, self._location)
        self._counter.add("list", len(requests))
        if not only_check:
            self._counter.add("delete")
        with self._lock:
            return [self._undelete(request, only_check) for request in requests]

    def _undelete(self, request: UndeleteRequest, only_check: bool) -> UndeleteResult:
        if not is_key(request.key):
            return UndeleteResult(request.key, "bad_key")
        marker = request.version_id or self._newest_marker(request.key)
        code, entry = self._below(UndeleteRequest(request.key, marker))
        if code == "restorable" and not only_check and entry is not None:
            ask_guard()
            self._versions[request.key].pop()
            self._objects[request.key] = entry
            code = "restored"
        return UndeleteResult(request.key, code, entry[1] if entry is not None else None, marker)

    def _newest_marker(self, key: str) -> str | None:
        version_id, entry = self._versions.get(key, [("", None)])[-1]
        return version_id if version_id and entry is None else None

    def _below(self, request: UndeleteRequest) -> tuple[str, Entry | None]:
        versions = self._versions.get(request.key, [])
        if (request.version_id, None) not in versions:
            entry = self._objects.get(request.key)
            return ("marker_gone" if entry is None else "already_there"), entry
        if versions[-1] != (request.version_id, None):
            return "marker_not_current", None
        entry = versions[-2][1] if len(versions) > 1 else None
        return ("nothing_below" if entry is None else "restorable"), entry

    def object_versions(self, below: str = "") -> Iterator[Sequence[ObjectVersion]] | None:
        """Return all versions of all objects; see `KeepsVersions`."""
        if not self._versioned:
            return None
        self._counter.add("list")
        with self._lock:
            found = [
                ObjectVersion(key, len(entry[0]), entry[2], self._objects.get(key) == entry)
                for key, versions in sorted(self._versions.items())
                for _, entry in versions
                if entry is not None and key.startswith(below)
            ]
        return iter([found])

    def hidden(self, keys: Sequence[str]) -> Sequence[HiddenState]:
        """Say whether deletions hide objects; see `Store.hidden`."""
        if not self._versioned:
            return [HiddenState("unknown") for _ in keys]
        self._counter.add("list", len(keys))
        with self._lock:
            return [self._hidden(key) for key in keys]

    def _hidden(self, key: str) -> HiddenState:
        versions = self._versions.get(key, [])
        if key in self._objects:
            older = versions[-2][1] if len(versions) > 1 else None
            return HiddenState("there", below="" if len(versions) < 2 else "object" if older else "marker")
        below = versions[-2][1] if len(versions) > 1 else None
        if below is None:
            return HiddenState("other" if versions else "unknown")
        # The time of the marker is not stored. The present time is late enough for every caller.
        return HiddenState("hidden", versions[-1][0], below[1], self._clock())

    def read_deleted(self, request: UndeleteRequest, max_bytes: int | None = None) -> Body:
        """Return the object that `undelete` would restore; see `Store.read_deleted`."""
        self._check_versioned()
        check_key(request.key, self._location)
        self._counter.add("list")
        self._counter.add("get")
        with self._lock:
            code, entry = self._below(request)
        if code != "restorable" or entry is None:
            raise ObjectNotFoundError(f"{self._location}/{request.key}: expected a deleted object ({code})")
        if max_bytes is not None and len(entry[0]) > max_bytes:
            raise StorageError(
                f"{self._location}/{request.key}: expected at most {max_bytes} bytes, found {len(entry[0])}",
                code="too_large",
            )
        return Body(entry[0], entry[1])

    def _check_versioned(self) -> None:
        if not self._versioned:
            raise StorageError(f"{self._location}: expected a versioned store", code="not_versioned")

    def now_ms(self) -> int:
        """Return the clock."""
        return self._clock()

    def set_modified(self, key: str, modified_ms: int) -> None:
        """Back-date an object."""
        with self._lock:
            data, etag, _ = self._objects[key]
            self._objects[key] = (data, etag, modified_ms)
            if self._versioned:
                self._versions[key][-1] = (self._versions[key][-1][0], self._objects[key])
