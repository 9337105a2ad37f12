"""Garbage collection ends generators that somebody abandoned, in the midst of any other work."""

import gc
import threading
from collections.abc import Callable, Generator, Iterator

import pytest

from lakesweep.storage.listing import list_all
from lakesweep.storage.pools import threads
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Body, Page
from tests.support.memory_store import MemoryStore

HELD_S = 3
"""How long a thread is held that nobody lets go on."""


class Gate:
    """Lets the first request pass, and holds the others."""

    def __init__(self) -> None:
        self.is_open, self.is_held = threading.Event(), threading.Event()
        self.asked = 0

    def hold(self) -> None:
        self.asked += 1
        if self.asked > 1:
            self.is_held.set()
            self.is_open.wait(HELD_S)


class GatedStore(MemoryStore):
    """Its requests go through a gate."""

    reads_wait = True

    def __init__(self, gate: Gate, count: int) -> None:
        super().__init__()
        for number in range(count):
            self.put(f"k{number:04}", b"x")
        self.gate = gate

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        self.gate.hold()
        return super().read(key, max_bytes)

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        for page in super().list_range(prefix, after, until):
            self.gate.hold()
            yield page


def reads(gate: Gate) -> Iterator[object]:
    return read_many(GatedStore(gate, 8), [f"k{number:04}" for number in range(8)], parallel=2)


def pages(gate: Gate) -> Iterator[object]:
    return list_all(GatedStore(gate, 1500))


def tasks(gate: Gate) -> Generator[None, None, None]:
    with threads(2, "tasks") as pool:
        yield from pool.map(lambda _: gate.hold(), range(8))


@pytest.mark.parametrize("make", [reads, pages, tasks])
def test_garbage_collection_waits_for_no_thread(make: Callable[[Gate], Iterator[object]]) -> None:
    """The thread in which it runs may hold what the others need in order to end. It did: a thread that had just begun
    held the lock under which threads begin and end, and both waited for ever."""
    gate = Gate()
    abandoned = make(gate)
    next(abandoned)
    assert gate.is_held.wait(HELD_S)
    cycle: list[object] = [abandoned]
    cycle.append(cycle)
    before = [each for each in threading.enumerate() if each.name.startswith(("read", "list", "tasks"))]
    del abandoned, cycle
    gc.collect()
    left = [each for each in before if each.is_alive()]
    gate.is_open.set()
    assert left, "it waited until they had ended"
    for each in left:
        each.join(HELD_S)
        assert not each.is_alive()


def test_a_caller_that_stops_waits() -> None:
    """It goes on when no request is on its way any more."""
    gate = Gate()
    begun = tasks(gate)
    next(begun)
    assert gate.is_held.wait(HELD_S)
    threading.Timer(0.05, gate.is_open.set).start()
    begun.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("tasks")]
