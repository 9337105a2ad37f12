"""List everything below a folder, in several ranges at once.

S3 returns one page after another, and each takes its time. So an idle worker takes over a part of the range of another
worker. The range is split at a key that `split_point` guesses. Wherever this key is, the two ranges meet there, and no
key lies in both or in none. Objects that are written or deleted meanwhile do not change this: an object that exists all
the time is found once.

A guess takes no request of its own, since its first page is the first page of the new range. A range has at most one
request without a result. So the listing takes one request for each full page, and at most one more for each range.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Condition, get_ident

from lakesweep.storage.pools import end
from lakesweep.storage.split import shared_letters, split_point
from lakesweep.storage.store import Page, Store

PARALLEL = 8
"""Ranges at once. One thread parses at a time. With answers of 20 ms, four ranges gain nearly everything. Eight gain
more with slower answers; otherwise they cost some requests and a tenth of the CPU time."""
WINDOW_PAGES = 16
"""At most this many pages wait for the caller, in addition to one page of each worker."""
PAGES_BEFORE_SPLIT = 2
"""A range is split only after it has brought this many pages since its last split."""
FIRST_RANGES = 2
"""Ranges for each worker: enough to give each of them work soon, even if one guess for each fails."""
PAGES_OF_RANGE = 20
"""Later, one more range for each group of this many pages: a large listing takes at most 5 % more requests."""


@dataclass(frozen=True, slots=True)
class ListProgress:
    """The progress of a listing."""

    object_count: int = 0
    page_count: int = 0
    """Pages, empty ones included."""
    range_count: int = 1


@dataclass(slots=True, eq=False)
class _Range:
    """Keys that one worker lists. All fields change only under the listing's lock."""

    after: str
    until: str | None
    climb: int
    first: str | None = None
    last: str = ""
    fresh_pages: int = 0
    """Pages since the range began or was split."""
    left: "_Range | None" = None
    """The range from which this one was split off."""


def list_all(
    store: Store,
    prefix: str = "",
    *,
    parallel: int = PARALLEL,
    window_pages: int = WINDOW_PAGES,
    on_page: Callable[[ListProgress], None] | None = None,
) -> Generator[Page, None, None]:
    """Yield every object that `Store.list` yields, in pages that are not empty.

    Keys ascend within a page; pages come in any order. After the first page, workers continue to list while the caller
    does something else. `window_pages` and one page for each worker limit the memory. A caller that stops early closes
    the generator, which ends all threads.

    Args:
        store: The store to list. If its requests do not wait (`reads_wait` is false), the caller's thread lists alone.
        prefix: As in `Store.list`.
        parallel: Number of concurrent requests.
        window_pages: How many pages may wait for the caller.
        on_page: Called in the caller's thread before each page is yielded.

    Raises:
        StorageError: A page failed; the objects so far are not all.
    """
    if parallel < 2 or not getattr(store, "reads_wait", True):
        found = _one_by_one(store, prefix)
    else:
        found = _Listing(store, prefix, parallel, window_pages).pages()
    with closing(found) as pages:
        for page, progress in pages:
            if on_page is not None:
                on_page(progress)
            if page:
                yield page


def _one_by_one(store: Store, prefix: str) -> Generator[tuple[Page, ListProgress], None, None]:
    object_count = 0
    for page_count, page in enumerate(store.list_range(prefix), start=1):
        object_count += len(page)
        yield page, ListProgress(object_count, page_count)


class _Listing:
    """The workers, their ranges, and the pages that wait for the caller."""

    def __init__(self, store: Store, prefix: str, parallel: int, window_pages: int) -> None:
        self._store = store
        self._prefix = prefix
        self._parallel = parallel
        self._window_pages = window_pages
        self._changed = Condition()
        self._waiting: _Range | None = _Range("", None, climb=1)
        self._running: list[_Range] = []
        self._pages: deque[Page] = deque()
        self._error: BaseException | None = None
        self._is_over = False
        self._listed = ListProgress()
        self._threads: set[int] = set()

    def pages(self) -> Generator[tuple[Page, ListProgress], None, None]:
        """Yield pages as they arrive."""
        pool = ThreadPoolExecutor(max_workers=self._parallel, thread_name_prefix="list")
        taken = ListProgress()
        try:
            for _ in range(self._parallel):
                pool.submit(self._work)
            while (page := self._next_page()) is not None:
                taken = ListProgress(
                    taken.object_count + len(page), taken.page_count + 1, range_count=self._listed.range_count
                )
                yield page, taken
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            end(pool, self._threads)

    def _next_page(self) -> Page | None:
        with self._changed:
            self._changed.wait_for(lambda: self._error or self._pages or not (self._running or self._waiting))
            if self._error is not None:
                raise self._error
            self._changed.notify_all()
            return self._pages.popleft() if self._pages else None

    def _work(self) -> None:
        self._threads.add(get_ident())
        while (part := self._next_range()) is not None:
            error: BaseException | None = None
            try:
                self._list(part)
            except BaseException as found:  # noqa: BLE001 - the caller raises any error
                error = found
            with self._changed:
                self._running.remove(part)
                if part.first is None and part.left is not None:
                    _lower(part.left)
                self._error = self._error or error
                self._changed.notify_all()

    def _next_range(self) -> _Range | None:
        with self._changed:
            while not self._is_over and not self._error and (self._waiting or self._running):
                part, self._waiting = self._waiting or self._split(), None
                if part is not None:
                    self._running.append(part)
                    return part
                self._changed.wait()
            return None

    def _split(self) -> _Range | None:
        allowed = FIRST_RANGES * self._parallel + self._listed.page_count // PAGES_OF_RANGE
        if self._listed.range_count >= allowed:
            return None
        for part in sorted(self._running, key=_breadth):
            if part.first is None or part.fresh_pages < PAGES_BEFORE_SPLIT:
                continue
            key = split_point(part.first, part.last, part.until, climb=part.climb, fixed=len(self._prefix))
            if key is not None:
                right = _Range(key, part.until, part.climb + 1, left=part)
                part.until, part.fresh_pages = key, 0
                self._listed = replace(self._listed, range_count=self._listed.range_count + 1)
                return right
        return None

    def _list(self, part: _Range) -> None:
        for page in self._store.list_range(self._prefix, part.after, part.until):
            with self._changed:
                # The range may have been split while the page was requested.
                is_last = part.until is not None and bool(page) and page[-1].key >= part.until
                kept = page[: bisect_right(page, part.until or "", key=lambda found: found.key)] if is_last else page
                if kept:
                    part.first = part.first or kept[0].key
                    part.last = kept[-1].key
                part.fresh_pages += 1
                self._listed = replace(self._listed, page_count=self._listed.page_count + 1)
                self._changed.wait_for(lambda: self._is_over or self._error or len(self._pages) < self._window_pages)
                if self._is_over or self._error:
                    return
                self._pages.append(kept)
                self._changed.notify_all()
            if is_last:
                return


def _breadth(part: _Range) -> int:
    """Return how many leading letters all possible keys of the range share: the fewer, the more keys there may be."""
    return -1 if part.until is None else shared_letters(part.last, part.until)


def _lower(part: _Range) -> None:
    """Make the next guess in a range smaller, and soon: the last guess found nothing."""
    part.climb = max(part.climb - 1, 0)
    part.fresh_pages += PAGES_BEFORE_SPLIT
