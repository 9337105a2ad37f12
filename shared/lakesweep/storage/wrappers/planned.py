"""A store as it will be after some actions, so that a dry run can plan the next steps."""

from collections.abc import Iterator, Sequence
from heapq import merge

from lakesweep.errors import ObjectNotFoundError, StorageError
from lakesweep.storage.keys import part_of
from lakesweep.storage.store import Body, Page, Store, StoredObject, pages_of
from lakesweep.storage.wrappers.wrapping import ReadOnlyStore


class PlannedStore(ReadOnlyStore):
    """Shows a store without the objects that a plan deletes, and with the documents that it writes.

    It refuses to write or delete. A document that does not exist yet gets an ETag that no store returns. So a plan made
    from it would count as stale if anybody executed it.
    """

    def __init__(self, store: Store, going: frozenset[str], written: dict[str, bytes]) -> None:
        """Wrap a store.

        Args:
            store: The store as it is now.
            going: Keys of the objects that will be deleted.
            written: Key -> body of the documents that will be written.
        """
        super().__init__(store)
        self._going = going
        self._written = written

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects below a folder; see `Store.list`."""
        return self._with_written(prefix, self._store.list(prefix))

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Yield objects of a range in pages; see `Store.list_range`."""
        found = (entry for page in self._store.list_range(prefix, after, until) for entry in page)
        return pages_of(self._with_written(prefix, found, after, until))

    def _with_written(
        self, prefix: str, stored: Iterator[StoredObject], after: str = "", until: str | None = None
    ) -> Iterator[StoredObject]:
        now_ms = self._store.now_ms()
        coming = (
            StoredObject(key, len(body), _etag(key), now_ms)
            for key, body in sorted(self._written.items())
            if key.startswith(prefix) and key > after and (until is None or key <= until)
        )
        hidden = self._going | self._written.keys()
        staying = (found for found in stored if found.key not in hidden)
        return merge(coming, staying, key=lambda found: found.key)

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of `names` may be folders; see `Store.folders_among`."""
        written = frozenset(key.split("/", 1)[0] for key in self._written)
        return self._store.folders_among(names) | written.intersection(names)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        if key in self._written:
            return Body(self._written[key], _etag(key))
        if key in self._going:
            raise ObjectNotFoundError(f"{self.location}/{key} does not exist after the planned deletions")
        return self._store.read(key, max_bytes)

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return a part of one object; see `Store.read_range`."""
        if key not in self._written and key not in self._going:
            return self._store.read_range(key, start, length)
        return part_of(self.read(key), start, length, f"{self.location}/{key}")

    def _refusal(self, what: str) -> StorageError:
        return StorageError(f"{self.location}: expected nothing to be {what} in a dry run", code="planned")


def _etag(key: str) -> str:
    return f"planned {key}"
