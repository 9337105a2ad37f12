"""Parts of objects, through the stores that stand around another one."""

from collections.abc import Callable

import pytest

from lakesweep.errors import ObjectNotFoundError, OutOfTimeError, StorageError
from lakesweep.model.safety import READ_RESERVE_MS
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store, delete_all
from lakesweep.storage.wrappers.deadline import Deadline, DeadlineStore
from lakesweep.storage.wrappers.planned import PlannedStore
from lakesweep.storage.wrappers.remembering import MetadataCache, RememberingStore
from lakesweep.storage.wrappers.returning import ReturningStore
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.memory_store import MemoryStore


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(StorageError) as error:
        call()
    return error.value.code


def test_a_part_is_one_request() -> None:
    counter = RequestCounter()
    store = MemoryStore(counter=counter)
    store.put("a", b"0123456789")
    memory = MetadataCache()
    wraps: list[Callable[[Store], Store]] = [
        lambda it: it,
        WrappingStore,
        lambda it: RememberingStore(it, memory, {}),
        lambda it: DeadlineStore(it, Deadline(lambda: READ_RESERVE_MS)),
        lambda it: PlannedStore(it, frozenset({"b"}), {}),
        lambda it: ReturningStore(it, {"b": "marker"}),
    ]
    for wrap in wraps:
        before = counter.snapshot()["get"], counter.read_bytes
        assert wrap(store).read_range("a", 3, 4).data == b"3456"
        assert (counter.snapshot()["get"], counter.read_bytes) == (before[0] + 1, before[1] + 4)
        assert code_of(lambda wrap=wrap: wrap(store).read_range("a", 3, 8)) == "too_short"  # type: ignore[misc]


def test_no_part_is_read_without_time() -> None:
    store = MemoryStore()
    store.put("a", b"x")
    with pytest.raises(OutOfTimeError):
        DeadlineStore(store, Deadline(lambda: READ_RESERVE_MS - 1)).read_range("a", 0, 1)


def test_parts_of_what_will_be_written_or_gone() -> None:
    store = MemoryStore()
    store.put("a", b"before")
    store.put("b", b"before")
    planned = PlannedStore(store, frozenset({"b"}), {"a": b"after", "c": b"new"})
    assert planned.read_range("a", 0, 5) == planned.read("a")
    assert planned.read_range("c", 1, 2).data == b"ew"
    assert code_of(lambda: planned.read_range("c", 1, 3)) == "too_short"
    assert code_of(lambda: planned.read_range("c", 1, 0)) == "bad_range"
    with pytest.raises(ObjectNotFoundError):
        planned.read_range("b", 0, 1)


def test_parts_of_what_comes_back() -> None:
    store = MemoryStore(versioned=True)
    store.put("a", b"before")
    marker = store.delete(delete_all(["a"]))[0].version_id
    assert marker is not None
    returning = ReturningStore(store, {"a": marker})
    assert returning.read_range("a", 3, 3).data == b"ore"
    assert code_of(lambda: returning.read_range("a", 3, 4)) == "too_short"
    store.put("a", b"meanwhile")
    assert returning.read_range("a", 0, 4).data == b"mean"
