"""Many reads at a time."""

import threading
import time
from collections.abc import Iterator

import pytest

from lakesweep.errors import AccessDeniedError, ObjectNotFoundError, StorageError
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Body
from tests.support.memory_store import MemoryStore


class SlowStore(MemoryStore):
    """Reads take a while, as over a network, and are watched."""

    reads_wait = True

    def __init__(self, delay_s: float = 0.002) -> None:
        super().__init__()
        self.delay_s = delay_s
        self.started: list[str] = []
        self.under_way = self.most_under_way = 0
        self.watch = threading.Lock()

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        with self.watch:
            self.started.append(key)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            time.sleep(self.delay_s)
            if key == "denied":
                raise AccessDeniedError("no")
            if key == "broken":
                raise RuntimeError("a bug")
            return super().read(key, max_bytes)
        finally:
            with self.watch:
                self.under_way -= 1


@pytest.fixture(params=["threads", "one by one"])
def store(request: pytest.FixtureRequest) -> SlowStore:
    made = SlowStore()
    made.reads_wait = request.param == "threads"
    for number in range(200):
        made.put(f"k{number:03}", b"%d" % number)
    return made


def reader_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("read")]


def test_order_is_that_of_the_keys(store: SlowStore) -> None:
    keys = [f"k{number:03}" for number in reversed(range(200))]
    found = list(read_many(store, keys, parallel=8))
    assert [key for key, _ in found] == keys
    assert [body.data for _, body in found if isinstance(body, Body)] == [b"%d" % int(key[1:]) for key in keys]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_keys(store: SlowStore, count: int) -> None:
    keys = [f"k{number:03}" for number in range(count)]
    assert [key for key, _ in read_many(store, keys)] == keys
    assert reader_threads() == []


def test_errors_are_values(store: SlowStore) -> None:
    """One object that cannot be read hides no other, and looks like nothing else."""
    store.put("large", b"x" * 100)
    found = dict(read_many(store, ["k000", "missing", "denied", "large", "../bad", "k001"], max_bytes=10))
    assert isinstance(found["missing"], ObjectNotFoundError)
    assert isinstance(found["denied"], AccessDeniedError)
    assert isinstance(found["large"], StorageError) and found["large"].code == "too_large"
    assert isinstance(found["../bad"], StorageError) and found["../bad"].code == "bad_key"
    assert [isinstance(found[key], Body) for key in ("k000", "k001")] == [True, True]


def test_bugs_are_raised(store: SlowStore) -> None:
    with pytest.raises(RuntimeError):
        list(read_many(store, ["k000", "broken", "k001"]))
    assert reader_threads() == []


def test_at_most_so_many_at_once() -> None:
    store = SlowStore()
    list(read_many(store, [f"k{number}" for number in range(100)], parallel=4))
    assert 2 <= store.most_under_way <= 4


def test_runs_ahead_by_a_window_only() -> None:
    """A slow consumer holds up the reads, and the source of the keys."""
    store = SlowStore(0)
    asked: list[int] = []

    def keys() -> Iterator[str]:
        for number in range(1000):
            asked.append(number)
            yield f"k{number}"

    reading = read_many(store, keys(), parallel=4)
    for taken in range(1, 20):
        next(reading)
        time.sleep(0.003)
        assert len(asked) <= taken + 2 * 4
    reading.close()
    assert reader_threads() == []


def test_large_bodies_wait_in_small_number() -> None:
    """Fewer keys are read ahead when their bodies are large."""
    store = SlowStore(0)
    for number in range(100):
        store.put(f"k{number:02}", b"x" * 1000)
    reading = read_many(store, [f"k{number:02}" for number in range(100)], parallel=2, window_bytes=1)
    for taken in range(1, 50):
        next(reading)
        time.sleep(0.002)
        assert len(store.started) <= taken + 2 * 2
    assert len(list(reading)) == 51


def test_known_sizes_count_before_they_arrive() -> None:
    """Large objects are not even asked for together."""
    store = SlowStore()
    sizes = {f"k{number:02}": 1000 for number in range(40)}
    for key, size_bytes in sizes.items():
        store.put(key, b"x" * size_bytes)
    found = list(read_many(store, sizes, parallel=8, sizes=sizes, window_bytes=3000))
    assert [key for key, _ in found] == list(sizes)
    assert 2 <= store.most_under_way <= 3


def test_longer_than_stated_is_refused(store: SlowStore) -> None:
    """Whatever else may be loaded; a shorter one is for the caller to judge."""
    sizes = {"k000": 3, "k001": 1, "k002": 9}
    store.put("k000", b"four")
    for max_bytes in (None, 100):
        found = dict(read_many(store, ["k000", "k001", "k002", "k003"], max_bytes=max_bytes, sizes=sizes))
        refused = found.pop("k000")
        assert isinstance(refused, StorageError) and refused.code == "too_large"
        assert [body.data for body in found.values() if isinstance(body, Body)] == [b"1", b"2", b"3"]


def test_a_thread_of_its_own_may_end_it() -> None:
    """Garbage collection ends an abandoned one in whichever thread it runs, and none can wait for itself."""
    ended: list[BaseException | None] = []
    had_first = threading.Event()

    class Collecting(SlowStore):
        def read(self, key: str, max_bytes: int | None = None) -> Body:
            if key == "k3":
                had_first.wait()
                try:
                    reads.close()
                    ended.append(None)
                except BaseException as error:
                    ended.append(error)
            return super().read(key, max_bytes)

    store = Collecting()
    keys = [f"k{number}" for number in range(4)]
    for key in keys:
        store.put(key, b"x")
    reads = read_many(store, keys, parallel=4)
    assert next(reads)[0] == "k0"
    assert next(reads)[0] == "k1"
    had_first.set()
    deadline = time.monotonic() + 120
    while not ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended == [None]


def test_early_stop_leaves_no_thread() -> None:
    store = SlowStore()
    for _ in read_many(store, [f"k{number}" for number in range(1000)], parallel=8):
        break
    assert reader_threads() == []
    assert len(store.started) < 50


def test_error_of_the_caller_leaves_no_thread() -> None:
    store = SlowStore()
    reading = read_many(store, [f"k{number}" for number in range(1000)], parallel=8)
    with pytest.raises(KeyError):
        for key, _ in reading:
            raise KeyError(key)
    reading.close()
    assert reader_threads() == []


def test_failing_source_of_keys_leaves_no_thread() -> None:
    def keys() -> Iterator[str]:
        yield from ("k0", "k1", "k2")
        raise StorageError("the listing failed")

    with pytest.raises(StorageError):
        list(read_many(SlowStore(), keys(), parallel=2))
    assert reader_threads() == []
