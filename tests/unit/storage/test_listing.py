"""Listing in parallel ranges: every object once, bounded in requests and memory, and never a part for the whole."""

import random
import threading
import time
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from lakesweep.errors import OutOfTimeError, StorageError
from lakesweep.model.safety import READ_RESERVE_MS
from lakesweep.storage import listing
from lakesweep.storage.listing import WINDOW_PAGES, ListProgress, list_all
from lakesweep.storage.store import Page, StoredObject
from lakesweep.storage.wrappers.deadline import Deadline, DeadlineStore
from lakesweep.storage.wrappers.planned import PlannedStore
from tests.support.memory_store import MemoryStore

PAGE = 10
THREAD_NAME = "list"


class PagedStore(MemoryStore):
    """Lists as S3 does: each page shows what is there when it is asked for, and takes its time."""

    reads_wait = True

    def __init__(self, keys: list[str], latency_s: float = 0.0) -> None:
        super().__init__()
        self.keys = sorted(keys)
        self.latency_s = latency_s
        self.on_request: Callable[[int], None] = lambda _: None
        self.requests = 0
        self.under_way = 0
        self.most_under_way = 0
        self.lock = threading.Lock()

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        last, is_first = max(after, prefix), not after
        while True:
            with self.lock:
                self.requests += 1
                number = self.requests
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)
            time.sleep(self.latency_s)
            with self.lock:
                self.under_way -= 1
                self.on_request(number)
                begin = bisect_right(self.keys, last) - (is_first and last in self.keys)
                found = list(islice(self.keys, begin, begin + PAGE + 1))
            here = [key for key in found[:PAGE] if key.startswith(prefix) and (until is None or key <= until)]
            yield tuple(StoredObject(key, 1, "e", 0) for key in here)
            if len(here) < PAGE or len(found) <= PAGE:
                return
            last, is_first = here[-1], False


def keys_of(pages: Iterator[Page]) -> list[str]:
    return [entry.key for page in pages for entry in page]


def workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(f"{THREAD_NAME}_")]


def one_writer(_: random.Random, count: int) -> list[str]:
    return [f"t/bucket-0/data-29cdb60b-032f-a7c7-5bb5-d7a354934328-{n}.orc" for n in range(count)]


def many_writers(rng: random.Random, count: int) -> list[str]:
    return [f"t/bucket-0/data-{rng.getrandbits(64):016x}-{n % 7}.orc" for n in range(count)]


def days(rng: random.Random, count: int) -> list[str]:
    return [f"t/dt=2026-{n // 56 + 1:02}-{n // 2 % 28 + 1:02}/data-{rng.getrandbits(32):08x}.orc" for n in range(count)]


def partitions(rng: random.Random, count: int) -> list[str]:
    return [f"t/p={n}/bucket-{n % 3}/data-{rng.getrandbits(32):08x}.orc" for n in range(count)]


def words(rng: random.Random, count: int) -> list[str]:
    return [f"t/city={''.join(rng.choices('abcdexyz', k=5))}/f{n}" for n in range(count)]


def strange(rng: random.Random, count: int) -> list[str]:
    letters = "é日🙂 %+&\x01~0123/-_aZ"
    return [f"t/{''.join(rng.choices(letters, k=rng.randint(1, 9))).strip('/')}x{n}" for n in range(count)]


def long(rng: random.Random, count: int) -> list[str]:
    return [f"t/{'d/' * 300}{'n' * rng.randint(300, 400)}{n:05}" for n in range(count)]


def few_letters(rng: random.Random, count: int) -> list[str]:
    return [f"t/{bin(rng.getrandbits(20) | 1 << 20)[2:]}/{n}" for n in range(count)]


KINDS = [one_writer, many_writers, days, partitions, words, strange, long, few_letters]
NAMESAKES = ["t", "t-/a", "t.x", "s/a", "t0", "t2/a", "t2/dt=2026-01-01/a", "u/a"]


@pytest.mark.parametrize("parallel", [2, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_every_object_once(kind: Callable[[random.Random, int], list[str]], parallel: int) -> None:
    """And nothing of a namesake, in as many requests as pages and ranges."""
    for count in (0, 1, PAGE, PAGE + 1, 650):
        wanted = sorted(set(kind(random.Random(count), count)))
        store = PagedStore([*wanted, *NAMESAKES], latency_s=0.0005)
        seen: list[ListProgress] = []
        pages = list(list_all(store, "t/", parallel=parallel, on_page=seen.append))
        assert sorted(keys_of(iter(pages))) == wanted
        assert all(page and list(page) == sorted(page, key=lambda entry: entry.key) for page in pages)
        ranges = seen[-1].range_count
        assert seen[-1].object_count == len(wanted)
        assert seen[-1].page_count <= store.requests <= count // PAGE + ranges
        assert ranges <= 2 * parallel + store.requests // 20
        assert not workers()


@pytest.mark.parametrize("kind", [one_writer, many_writers, days, partitions, words])
def test_all_workers_get_work(kind: Callable[[random.Random, int], list[str]]) -> None:
    """Whatever the keys count through, there is enough to take over."""
    store = PagedStore(kind(random.Random(1), 600), latency_s=0.005)
    assert len(keys_of(list_all(store, "t/", parallel=4))) == 600
    assert store.most_under_way == 4


@pytest.mark.parametrize("seed", range(12))
def test_what_comes_and_goes_hides_nothing(seed: int) -> None:
    """Between any two pages objects come and go; those that stay are seen once, and none is seen twice."""
    rng = random.Random(seed)
    names = sorted(set(rng.choice(KINDS)(rng, 500)) | set(days(rng, 300)))
    staying = set(rng.sample(names, len(names) // 2))
    passing = [name for name in names if name not in staying]
    store = PagedStore([name for name in names if name in staying or rng.random() < 0.5], latency_s=0.0005)

    def change(_: int) -> None:
        for name in rng.sample(passing, 20):
            if name in store.keys:
                store.keys.remove(name)
            else:
                insort(store.keys, name)

    store.on_request = change
    found = keys_of(list_all(store, "t/", parallel=6))
    assert len(found) == len(set(found))
    assert staying <= set(found) <= set(names)


@pytest.mark.parametrize("parallel", [1, 5])
def test_an_error_on_any_page_is_the_end(parallel: int) -> None:
    """Never a shorter list, whichever range it is in."""
    names = days(random.Random(1), 400)
    total = len(names) // PAGE
    for broken in range(1, total + 1):
        store = PagedStore(names, latency_s=0.0002)

        def fail(number: int, broken: int = broken) -> None:
            if number == broken:
                raise StorageError("broken on purpose", code="broken")

        store.on_request = fail
        with pytest.raises(StorageError) as error:
            keys_of(list_all(store, "t/", parallel=parallel))
        assert error.value.code == "broken"
        assert not workers()


def test_a_fault_of_our_own_is_no_end_of_a_list() -> None:
    store = PagedStore(days(random.Random(1), 300))

    def fail(number: int) -> None:
        if number == 7:
            raise KeyError(number)

    store.on_request = fail
    with pytest.raises(KeyError):
        keys_of(list_all(store, "t/", parallel=3))
    assert not workers()


@pytest.mark.parametrize("taken", [1, 5, 20])
def test_caller_may_stop(taken: int) -> None:
    """No thread stays, and nothing more is asked for."""
    store = PagedStore(days(random.Random(1), 600), latency_s=0.001)
    pages = list_all(store, "t/", parallel=4)
    assert len(list(islice(pages, taken))) == taken
    pages.close()
    assert not workers()
    requests = store.requests
    time.sleep(0.02)
    assert store.requests == requests


def test_caller_that_fails_leaves_no_thread() -> None:
    def fail(_: ListProgress) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        keys_of(list_all(PagedStore(days(random.Random(1), 600)), "t/", on_page=fail))
    assert not workers()


def test_nothing_is_asked_for_before_the_first_page_is_wanted() -> None:
    store = PagedStore(["t/a"])
    list_all(store, "t/")
    assert store.requests == 0
    assert not workers()


@pytest.mark.parametrize("parallel", [2, 8])
def test_pages_in_memory_are_bounded(parallel: int) -> None:
    """A slow caller holds the workers back, whatever the table's size."""
    store = PagedStore(many_writers(random.Random(1), 2000))
    seen: list[ListProgress] = []
    pages = list_all(store, "t/", parallel=parallel, on_page=seen.append)
    for _ in range(30):
        next(pages)
        time.sleep(0.01)
        assert store.requests <= seen[-1].page_count + WINDOW_PAGES + parallel
    assert WINDOW_PAGES < store.requests < 100
    pages.close()


@pytest.mark.parametrize("window_pages", [1, 40])
def test_pages_come_while_the_caller_does_something_else(window_pages: int) -> None:
    """From the first page on, as many as may wait."""
    store = PagedStore(many_writers(random.Random(1), 2000))
    pages = list_all(store, "t/", parallel=2, window_pages=window_pages)
    taken = len(next(pages))
    for _ in range(500):
        if store.requests > window_pages:
            break
        time.sleep(0.01)
    assert window_pages < store.requests <= window_pages + 3
    assert taken + len(keys_of(pages)) == 2000


def test_one_thread_where_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store in memory or a folder is listed by the caller."""
    monkeypatch.setattr(listing, "ThreadPoolExecutor", None)
    store = MemoryStore()
    for number in range(2001):
        store.put(f"t/{number:04}", b"x")
    store.put("t2/a", b"x")
    seen: list[ListProgress] = []
    assert keys_of(list_all(store, "t/", on_page=seen.append)) == [f"t/{number:04}" for number in range(2001)]
    assert seen == [ListProgress(1000, 1), ListProgress(2000, 2), ListProgress(2001, 3)]


def test_time_runs_out_between_pages() -> None:
    """The deadline is looked at before each page, by whichever thread."""
    left = iter([READ_RESERVE_MS] * 12)
    store = PagedStore(days(random.Random(1), 400))
    with pytest.raises(OutOfTimeError):
        keys_of(list_all(DeadlineStore(store, Deadline(lambda: next(left, 0))), "t/", parallel=3))
    assert 0 < store.requests <= 12  # a range that has come to its end asks for time, and then for nothing
    assert not workers()


def test_planned_store_lists_what_will_be() -> None:
    """Also by ranges: what goes is not there, and what will be written is there once."""
    store = PagedStore([f"t/{number:03}" for number in range(300)], latency_s=0.0005)
    going = frozenset(f"t/{number:03}" for number in range(0, 300, 3))
    planned = PlannedStore(store, going, {"t/005": b"new", "t/150x": b"new", "t/zz": b"new", "u": b"new"})
    expected = sorted(({*store.keys} - going) | {"t/150x", "t/zz"})
    found = keys_of(list_all(planned, "t/", parallel=4))
    assert sorted(found) == expected
    sizes = {entry.key: entry.size_bytes for page in planned.list_range("t/", "t/004", "t/151") for entry in page}
    assert list(sizes) == [key for key in expected if "t/004" < key <= "t/151"]
    assert (sizes["t/005"], sizes["t/150x"], sizes["t/007"]) == (3, 3, 1)
