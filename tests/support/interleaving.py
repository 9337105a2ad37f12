"""Requests of several at one store, in an order that a test decides.

What the product does in one call is told of each request before it is made (`InterleavedStore`), and whoever is told
lets others act. Two calls of the product at a time take turns (`Turns`): one of them is a generator to the test.
"""

import threading
from collections.abc import Callable, Iterator, Sequence

from lakesweep.storage.store import DeleteRequest, DeleteResult, Page
from tests.support.paged_store import PagedStore
from tests.support.table_world import WorldStore


class InterleavedStore(PagedStore):
    """Tells of each request before it is made; each deletion is one, unless they come together."""

    def __init__(
        self, store: WorldStore, before: Callable[[str], None], *, keys: int = 3, deletes_together: bool = False
    ) -> None:
        """Wrap a store.

        Args:
            store: Where requests go.
            before: Told what is about to be asked for. A further page of a listing is `list on`.
            keys: In a page of a folder's listing; pages of the whole table are ten times as long.
            deletes_together: Deletions in one call are one request.
        """
        super().__init__(store, before, keys)
        self._world_store = store
        self._deletes_together = deletes_together

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        count, words = self._keys if prefix else 10 * self._keys, "list"
        while True:
            self._before(f"{words} {prefix}")
            page, words = self._world_store.page(prefix, after, until, count), "list on"
            yield page
            if len(page) < count:
                return
            after = page[-1].key

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        if self._deletes_together:
            return super().delete(requests)
        return [result for request in requests for result in super(InterleavedStore, self).delete([request])]


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
