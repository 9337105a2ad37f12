"""What one table costs an overview: each document, list and manifest is read once, and the table is listed once."""

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.model.roots import TableRef
from lakesweep.operations.overview.measure import measure, remembered
from lakesweep.runs.session import Table
from lakesweep.storage.requests import RequestCounter
from tests.support.memory_store import MemoryStore
from tests.support.s3_server import fresh_bucket, moto_store, versioned_bucket
from tests.support.table_builder import TableBuilder
from tests.support.trips import Trips, TripStore

DAY_MS = 86_400_000
CONTROL = {"get": 3}
"""The state of the last pass, the last scans, the lease."""


def fill(store: object) -> TableBuilder:
    """Write a table with a tag, a branch, a consumer and an index, and files that manifests delete."""
    table = TableBuilder(store, options={"snapshot.num-retained.min": "9"})  # type: ignore[arg-type]
    table.commit("+A", "+B")
    table.tag("t")
    branch = table.branch("b", from_tag="t")
    for number in range(6):
        table.commit(f"+F{number}", *([f"-F{number - 1}"] if number else []), index={f"V{number}": b"\0\0\0\1"})
    branch.commit("+E")
    table.consumer("reader", 7)
    return table


def documents(store: MemoryStore, *folders: str) -> int:
    return sum(entry.key.startswith(folders) for entry in store.list(""))


def test_each_object_is_read_once_and_listed_once() -> None:
    """Of a table with everything: two folder listings for each kind of document that it has, and all objects."""
    counter, control = RequestCounter(), RequestCounter()
    store = MemoryStore(counter=counter)
    fill(store)
    folders = ("snapshot/snapshot-", "tag/", "schema/", "consumer/", "manifest/")
    branch = ("branch/branch-b/snapshot/snapshot-", "branch/branch-b/tag/", "branch/branch-b/schema/")
    hints = documents(store, "snapshot/LATEST", "snapshot/EARLIEST", "branch/branch-b/snapshot/LATEST")
    expected = documents(store, *folders, *branch) + hints + documents(store, "branch/branch-b/snapshot/EARLIEST")
    before = counter.snapshot()
    table = table_of(store, MemoryStore("memory://control", control))
    found = measure(table, "t")
    assert spent(before, counter) == {"get": expected, "list": 1 + 5 + 1}
    assert control.snapshot()["get"] == CONTROL["get"]
    before = counter.snapshot()
    assert remembered(table, found) is not None
    assert spent(before, counter) == {"list": 1 + 5}


def table_of(store: object, control: MemoryStore) -> Table:
    area = ControlArea(control, store.location)  # type: ignore[attr-defined]
    return Table(TableRef(store.location), store, area, MemoryStore)  # type: ignore[attr-defined, arg-type]


def spent(before: dict[str, int], counter: RequestCounter) -> dict[str, int]:
    return {kind: count - before[kind] for kind, count in counter.snapshot().items() if count != before[kind]}


@pytest.mark.parametrize("versioned", [False, True])
def test_on_s3(*, versioned: bool) -> None:
    """Hints that are right are not read, since their ETags say so; versions take one more request a thousand."""
    counter = RequestCounter()
    bucket = versioned_bucket() if versioned else fresh_bucket()
    fill(moto_store("t", bucket=bucket))
    memory = MemoryStore()
    fill(memory)
    folders = ("snapshot/snapshot-", "tag/", "schema/", "consumer/", "manifest/")
    branch = ("branch/branch-b/snapshot/snapshot-", "branch/branch-b/tag/", "branch/branch-b/schema/")
    expected = documents(memory, *folders, *branch)
    table = table_of(moto_store("t", bucket=bucket, counter=counter), MemoryStore("memory://control"))
    found = measure(table, "t")
    asked = {"get": expected + 1, "list": 1 + 5 + 1 + versioned}  # is it versioned, and a page of versions
    assert spent(dict.fromkeys(counter.snapshot(), 0), counter) == asked
    assert (found.overview.noncurrent_bytes is None) == (not versioned)
    before = counter.snapshot()
    assert measure(table, "t", versions=False).overview.noncurrent_bytes is None
    assert spent(before, counter) == {"get": expected, "list": 1 + 5 + 1}


def test_few_round_trips_in_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders, documents, lists, manifests: requests that need not wait for each other are sent together."""
    store, control = MemoryStore(), MemoryStore("memory://control")
    fill(store)
    trips = Trips(monkeypatch)
    table = table_of(TripStore(store, trips, "table"), TripStore(control, trips, "control"))  # type: ignore[arg-type]
    found = measure(table, "t")
    assert len(trips.timeline()) == 6
    trips.forget()
    assert remembered(table, found) is not None
    assert len(trips.timeline()) == 2
