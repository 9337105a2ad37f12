"""A store whose listings take a request for every few names, so that much can happen in the middle of one.

Each page shows what is there when it is asked for, as S3 does: the pages of one listing are of different moments.
"""

from collections.abc import Callable, Iterator, Sequence

from lakesweep.storage.store import Body, DeleteRequest, DeleteResult, Page, Store, StoredObject
from lakesweep.storage.wrappers.wrapping import WrappingStore


class PagedStore(WrappingStore):
    """Tells of every request right before it is made."""

    def __init__(self, store: Store, before: Callable[[str], None], keys: int = 3) -> None:
        """Wrap a store.

        Args:
            store: In memory: its listings are taken apart.
            before: Called with the name of each request.
            keys: Names in a page.
        """
        super().__init__(store)
        self.reads_wait = False
        self._before = before
        self._keys = keys

    def list(self, prefix: str) -> Iterator[StoredObject]:
        for page in self.list_range(prefix):
            yield from page

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        while True:
            self._before(f"list {prefix}")
            page = next(iter(self._store.list_range(prefix, after, until)), ())[: self._keys]
            yield page
            if len(page) < self._keys:
                return
            after = page[-1].key

    def folders(self, prefix: str) -> Iterator[str]:
        self._before(f"folders {prefix}")
        return super().folders(prefix)

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        self._before("folders")
        return super().folders_among(names)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        self._before(f"read {key}")
        return super().read(key, max_bytes)

    def read_range(self, key: str, start: int, length: int) -> Body:
        self._before(f"read {key} from {start}")
        return super().read_range(key, start, length)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        self._before(f"put {key}")
        return super().put(key, data, if_absent=if_absent, if_match=if_match)

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        self._before(f"delete {len(requests)}")
        return super().delete(requests)
