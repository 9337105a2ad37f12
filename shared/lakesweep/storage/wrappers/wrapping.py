"""A store around another one. It passes on every call that a subclass does not implement itself."""

from collections.abc import Iterator, Sequence

from lakesweep.errors import StorageError
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


class WrappingStore:
    """Passes every call on."""

    def __init__(self, store: Store) -> None:
        """Wrap a store."""
        self._store = store
        self.reads_wait: bool = getattr(store, "reads_wait", True)

    @property
    def wrapped(self) -> Store:
        """Return the wrapped store."""
        return self._store

    @property
    def location(self) -> str:
        """Return the root."""
        return self._store.location

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects below a folder; see `Store.list`."""
        return self._store.list(prefix)

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Yield objects of a range in pages; see `Store.list_range`."""
        return self._store.list_range(prefix, after, until)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders in a folder; see `Store.folders`."""
        return self._store.folders(prefix)

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of `names` may be folders; see `Store.folders_among`."""
        return self._store.folders_among(names)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        return self._store.read(key, max_bytes)

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return a part of one object; see `Store.read_range`."""
        return self._store.read_range(key, start, length)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one object; see `Store.put`."""
        return self._store.put(key, data, if_absent=if_absent, if_match=if_match)

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete objects; see `Store.delete`."""
        return self._store.delete(requests)

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        """Remove delete markers; see `Store.undelete`."""
        return self._store.undelete(requests, only_check=only_check)

    def hidden(self, keys: Sequence[str]) -> Sequence[HiddenState]:
        """Tell whether deletions hide objects; see `Store.hidden`."""
        return self._store.hidden(keys)

    def read_deleted(self, request: UndeleteRequest, max_bytes: int | None = None) -> Body:
        """Return the object that a deletion hides; see `Store.read_deleted`."""
        return self._store.read_deleted(request, max_bytes)

    def now_ms(self) -> int:
        """Return the store's clock."""
        return self._store.now_ms()

    @property
    def clock_is_doubtful(self) -> bool:
        """Tell whether ages may be wrong; see `LocalStore.clock_is_doubtful`."""
        return getattr(self._store, "clock_is_doubtful", False)


class ReadOnlyStore(WrappingStore):
    """Refuses every change."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Refuse."""
        raise self._refusal("written")

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Refuse."""
        raise self._refusal("deleted")

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        """Refuse."""
        raise self._refusal("restored")

    def _refusal(self, what: str) -> StorageError:
        """Return the error for something that nobody may do."""
        raise NotImplementedError


def endpoint_of(store: Store) -> str:
    """Return the endpoint of an S3 store, in one spelling; empty for AWS and for all other stores."""
    return str(getattr(innermost(store), "endpoint", ""))


def innermost(store: Store) -> Store:
    """Return the innermost of the wrapped stores."""
    while isinstance(store, WrappingStore):
        store = store.wrapped
    return store
