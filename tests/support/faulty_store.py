"""A store that counts its calls and breaks at the one a test names."""

import threading
from collections.abc import Callable, Iterator, Sequence

from lakesweep.errors import StorageError
from lakesweep.storage.open import object_versions
from lakesweep.storage.store import (
    Body,
    DeleteRequest,
    DeleteResult,
    HiddenState,
    Page,
    Store,
    StoredObject,
    UndeleteRequest,
    UndeleteResult,
)
from lakesweep.storage.versions import ObjectVersion


class ProcessDeathError(BaseException):
    """Stands for the end of the process: nothing catches it on the way out."""


class Switch:
    """Counts calls over several stores; at call number `at` it breaks.

    `mode`: `before` fails without effect, `after` fails although the call took effect, `death` ends the process before
    the call, `death_after` right after it. Once a process is dead every later call of it is dead too.
    """

    def __init__(self, at: int | None = None, mode: str = "before") -> None:
        self.at = at
        self.mode = mode
        self.calls: list[str] = []
        self._dead = False
        self._lock = threading.RLock()  # an act within a request may make requests

    def run(self, name: str, call: Callable[[], object]) -> object:
        """Make one call, or break it. Calls of several threads come one after another."""
        with self._lock:
            return self._run(name, call)

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if self._dead:
            raise ProcessDeathError(name)
        self.calls.append(name)
        hit = self.at is not None and len(self.calls) == self.at
        if hit and self.mode in ("before", "death"):
            raise self._error(name)
        result = call()
        if hit:
            raise self._error(name)
        return result

    def _error(self, name: str) -> BaseException:
        if self.mode.startswith("death"):
            self._dead = True
            return ProcessDeathError(name)
        return StorageError(f"{name}: broken on purpose", code="broken")


class Interleaved(Switch):
    """Tells of every request before it is made."""

    def __init__(self, before: Callable[[int], None]) -> None:
        super().__init__()
        self._before = before

    def _run(self, name: str, call: Callable[[], object]) -> object:
        self._before(len(self.calls) + 1)
        return super()._run(name, call)


class FaultyStore:
    """Wraps a store; every call goes through a switch."""

    reads_wait = False

    def __init__(self, store: Store, switch: Switch, name: str) -> None:
        self._store = store
        self._switch = switch
        self._name = name

    @property
    def location(self) -> str:
        return self._store.location

    def list(self, prefix: str) -> Iterator[StoredObject]:
        found = self._switch.run(f"{self._name} list {prefix}", lambda: list(self._store.list(prefix)))
        yield from found  # type: ignore[misc]

    def object_versions(self, below: str = "") -> Iterator[Sequence[ObjectVersion]] | None:
        return self._switch.run(  # type: ignore[return-value]
            f"{self._name} list versions", lambda: object_versions(self._store, below)
        )

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        pages = self._store.list_range(prefix, after, until)
        while True:
            page = self._switch.run(f"{self._name} list page of {prefix}", lambda: next(pages, None))
            if page is None:
                return
            yield page  # type: ignore[misc]

    def folders(self, prefix: str) -> Iterator[str]:
        found = self._switch.run(f"{self._name} folders {prefix}", lambda: list(self._store.folders(prefix)))
        yield from found  # type: ignore[misc]

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        return self._switch.run(f"{self._name} folders", lambda: self._store.folders_among(names))  # type: ignore[return-value]

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        return self._switch.run(f"{self._name} read {key}", lambda: self._store.read(key, max_bytes))  # type: ignore[return-value]

    def read_range(self, key: str, start: int, length: int) -> Body:
        return self._switch.run(  # type: ignore[return-value]
            f"{self._name} read {key} from {start}", lambda: self._store.read_range(key, start, length)
        )

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        return self._switch.run(  # type: ignore[return-value]
            f"{self._name} put {key}", lambda: self._store.put(key, data, if_absent=if_absent, if_match=if_match)
        )

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        return self._switch.run(  # type: ignore[return-value]
            f"{self._name} delete {len(requests)}", lambda: self._store.delete(requests)
        )

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        name = f"{self._name} {'check' if only_check else 'undelete'} {len(requests)}"
        return self._switch.run(name, lambda: self._store.undelete(requests, only_check=only_check))  # type: ignore[return-value]

    def hidden(self, keys: Sequence[str]) -> Sequence[HiddenState]:
        return self._switch.run(f"{self._name} hidden {len(keys)}", lambda: self._store.hidden(keys))  # type: ignore[return-value]

    def read_deleted(self, request: UndeleteRequest, max_bytes: int | None = None) -> Body:
        return self._switch.run(  # type: ignore[return-value]
            f"{self._name} read deleted {request.key}", lambda: self._store.read_deleted(request, max_bytes)
        )

    def now_ms(self) -> int:
        return self._store.now_ms()


class DyingSwitch(Switch):
    """Ends the process at the first call that `when` knows."""

    def __init__(self, when: Callable[[str], bool], mode: str = "death") -> None:
        super().__init__(mode=mode)
        self._when = when

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if self.at is None and self._when(name):
            self.at = len(self.calls) + 1
        return super()._run(name, call)


MODES = ("before", "after", "death", "death_after")
