"""Requests of several at one store, in an order that a test decides.

What the product does in one call is told of each request before it is made (`InterleavedStore`), and whoever is told
lets others act. Two calls of the product at a time take turns (`Turns`): one of them is a generator to the test.
"""

import threading
from collections.abc import Callable, Iterator, Sequence

from lakesweep.storage.store import (
    Body,
    DeleteRequest,
    DeleteResult,
    Page,
    StoredObject,
    UndeleteRequest,
    UndeleteResult,
)
from tests.support.table_world import WatchedStore


class InterleavedStore:
    """Tells of each request before it is made; a page of a listing is one, and so is each deletion.

    A listing of several pages is none of one moment: each page shows what is there when it is asked for.
    """

    reads_wait = False

    def __init__(
        self,
        store: WatchedStore,
        before: Callable[[str], object],
        *,
        page_keys: int = 3,
        deletes_together: bool = False,
    ) -> None:
        """Wrap a store.

        Args:
            store: Where requests go.
            before: Told what is about to be asked for.
            page_keys: Of a folder's listing; pages of the whole table are ten times as long.
            deletes_together: Deletions in one call are one request.
        """
        self._store = store
        self._before = before
        self._page_keys = page_keys
        self._deletes_together = deletes_together

    @property
    def location(self) -> str:
        return self._store.location

    def list(self, prefix: str) -> Iterator[StoredObject]:
        for page in self.list_range(prefix):
            yield from page

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        first = True
        while True:
            self._before(f"list {prefix}" if first else f"list on {prefix}")
            count = self._page_keys if prefix else 10 * self._page_keys
            page, first = self._store.page(prefix, after, until, count), False
            yield page
            if len(page) < count:
                return
            after = page[-1].key

    def folders(self, prefix: str) -> Iterator[str]:
        self._before(f"folders {prefix}")
        yield from list(self._store.folders(prefix))

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        self._before("folders")
        return self._store.folders_among(names)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        self._before(f"read {key}")
        return self._store.read(key, max_bytes)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        self._before(f"put {key}")
        return self._store.put(key, data, if_absent=if_absent, if_match=if_match)

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        if self._deletes_together:
            self._before("delete")
            return self._store.delete(requests)
        results: list[DeleteResult] = []
        for request in requests:
            self._before("delete")
            results += self._store.delete([request])
        return results

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        self._before("undelete")
        return self._store.undelete(requests, only_check=only_check)

    def read_deleted(self, request: UndeleteRequest, max_bytes: int | None = None) -> Body:
        self._before(f"read deleted {request.key}")
        return self._store.read_deleted(request, max_bytes)

    def now_ms(self) -> int:
        return self._store.now_ms()


class LeftBehindError(BaseException):
    """Ends a call in the middle: nobody lets it go on any more."""


class Turns(Iterator[None]):
    """A call in a thread of its own that goes on only when it is told to, up to its next `pause`."""

    def __init__(self, call: Callable[["Turns"], object]) -> None:
        """Prepare a call; it is given this object, and calls `pause` before each request."""
        self._call = call
        self._go = threading.Semaphore(0)
        self._back = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._is_over = False
        self._is_left = False

    def pause(self) -> None:
        """Wait for the next turn."""
        self._back.release()
        self._go.acquire()
        if self._is_left:
            raise LeftBehindError

    def __next__(self) -> None:
        if self._is_over:
            raise StopIteration
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._go.release()
        self._back.acquire()
        if self._is_over:
            self._thread.join()
            if self._error is not None:
                raise self._error
            raise StopIteration

    def close(self) -> None:
        """Let the call end where it is."""
        if self._thread is not None and not self._is_over:
            self._is_left = True
            self._go.release()
            self._back.acquire()
            self._thread.join()
        self._is_over = True

    def _run(self) -> None:
        try:
            self._call(self)
        except LeftBehindError:
            pass
        except BaseException as error:
            self._error = error
        self._is_over = True
        self._back.release()
