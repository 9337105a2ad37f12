"""A store that refuses further reads when the caller's time runs out.

If a function is killed while it reads, its reads were useless and nobody learns of it. A function that stops by itself
can hand the work over. Only reads stop here. A deletion that has begun is finished, and the ledger and the lease are
written to another store.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lakesweep.errors import OutOfTimeError
from lakesweep.model.safety import READ_RESERVE_MS
from lakesweep.storage.store import Body, Page, Store, StoredObject
from lakesweep.storage.wrappers.wrapping import WrappingStore


@dataclass(frozen=True, slots=True)
class Deadline:
    """The caller's time."""

    remaining_ms: Callable[[], int]

    def check(self, what: str, reserve_ms: int) -> None:
        """Make sure that there is enough time for a step.

        Raises:
            OutOfTimeError: There is not enough time.
        """
        left_ms = self.remaining_ms()
        if left_ms < reserve_ms:
            raise OutOfTimeError(f"{what}: expected at least {reserve_ms // 1000} s, found {max(left_ms, 0)} ms left")


class DeadlineStore(WrappingStore):
    """Reads while there is time."""

    def __init__(self, store: Store, deadline: Deadline) -> None:
        """Wrap a store for one call."""
        super().__init__(store)
        self._deadline = deadline

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield objects below a folder; see `Store.list`."""
        self._deadline.check(f"list {self.location}/{prefix}", READ_RESERVE_MS)
        return self._store.list(prefix)

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Yield objects of a range in pages, while there is time for one; see `Store.list_range`."""
        pages = self._store.list_range(prefix, after, until)
        while True:
            self._deadline.check(f"list {self.location}/{prefix}", READ_RESERVE_MS)
            page = next(pages, None)
            if page is None:
                return
            yield page

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders in a folder; see `Store.folders`."""
        self._deadline.check(f"list {self.location}/{prefix}", READ_RESERVE_MS)
        return self._store.folders(prefix)

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of `names` may be folders; see `Store.folders_among`."""
        self._deadline.check(f"list {self.location}", READ_RESERVE_MS)
        return self._store.folders_among(names)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        self._deadline.check(f"read {self.location}/{key}", READ_RESERVE_MS)
        return self._store.read(key, max_bytes)

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return a part of one object; see `Store.read_range`."""
        self._deadline.check(f"read {self.location}/{key}", READ_RESERVE_MS)
        return self._store.read_range(key, start, length)
