"""A store as it will be after some deleted objects are restored."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from lakesweep.errors import ObjectNotFoundError, StorageError
from lakesweep.storage.keys import part_of
from lakesweep.storage.store import Body, Page, Store, StoredObject, UndeleteRequest
from lakesweep.storage.wrappers.wrapping import ReadOnlyStore


class ReturningStore(ReadOnlyStore):
    """Reads a store together with the objects that will be restored; changes nothing."""

    def __init__(
        self, store: Store, returning: Mapping[str, str], written: Mapping[str, bytes] = MappingProxyType({})
    ) -> None:
        """Show `store` as if `returning` (key -> delete marker) and `written` (key -> body) were restored."""
        super().__init__(store)
        self._returning = returning
        self._written = written

    def keys(self) -> frozenset[str]:
        """Return every key that exists or will be restored."""
        return frozenset(self._returning).union(self._written, (entry.key for entry in self._store.list("")))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Refuse: sizes and ETags of the restored objects are unknown."""
        raise self._refusal("listed")

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Refuse, as `list` does."""
        raise self._refusal("listed")

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Refuse, as `list` does."""
        raise self._refusal("listed")

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        if key in self._written:
            return Body(self._written[key], "")
        version_id = self._returning.get(key)
        if version_id is None:
            return self._store.read(key, max_bytes)
        try:
            return self._store.read_deleted(UndeleteRequest(key, version_id), max_bytes)
        except ObjectNotFoundError:
            return self._store.read(key, max_bytes)  # It has been restored meanwhile.

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return a part of one object; see `Store.read_range`."""
        if key not in self._returning and key not in self._written:
            return self._store.read_range(key, start, length)
        return part_of(self.read(key), start, length, f"{self.location}/{key}")

    def _refusal(self, what: str) -> StorageError:
        return StorageError(f"{self.location}: nothing can be {what} in a future state of a table", code="unsupported")
