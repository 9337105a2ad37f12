"""How many requests making a tag takes, counted on a real S3 protocol. Counts are exact, so they are asserted."""

from dataclasses import replace

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.registry import run_operation
from lakesweep.runs.session import Table
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import DeleteRequest, Store
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.memory_store import MemoryStore
from tests.support.reader import read_all
from tests.support.s3_server import fresh_bucket, moto_settings, seed_moto
from tests.support.table_builder import TableBuilder

NEWEST_REQUESTS = 7
OLDER_REQUESTS = 8


def table_on_s3(**options: str) -> Table:
    """Put a table with six snapshots and a tag of one that has expired into S3."""
    memory = MemoryStore("memory://bucket/t")
    table = TableBuilder(memory, options=options)
    table.commit("+F1")
    for number in range(2, 7):
        table.commit(f"-F{number - 1}", f"+F{number}")
    table.tag("first", 1)
    bucket, control = fresh_bucket(), fresh_bucket()
    for entry in memory.list(""):
        if entry.key != "snapshot/snapshot-1":
            seed_moto(bucket, [f"db.db/t/{entry.key}"], memory.read(entry.key).data)
    counter, settings = RequestCounter(), moto_settings()
    store = open_store(f"s3://{bucket}/db.db/t", counter=counter, settings=settings)
    return Table(
        ref=TableRef(store.location),
        store=store,
        area=ControlArea(open_store(f"s3://{control}/lakesweep", counter=counter, settings=settings), store.location),
        open_store=lambda location: open_store(location, counter=counter, settings=settings),
        counter=counter,
    )


def create(table: Table, **arguments: object) -> RunReport:
    return run_operation(table, "create-tag", {"tag": "now", **arguments}, execute=True)


@pytest.mark.parametrize(
    ("arguments", "requests"),
    [
        ({}, {"get": 2, "list": 3, "put": 2}),
        ({"snapshot": 6}, {"get": 2, "list": 3, "put": 2}),
        ({"snapshot": 3}, {"get": 4, "list": 2, "put": 2}),
    ],
)
def test_a_tag_of_a_snapshot(arguments: dict[str, object], requests: dict[str, int]) -> None:
    """Schema and snapshots are listed and read, the tag is put, its source looked for again, the report put.

    Of the newest snapshot a listing does that, which says as well that it still is the newest. Of an older one the
    lease is read, in which an expiry says what it is about to take.
    """
    table = table_on_s3()
    report = create(table, **arguments)
    assert report.status == "done", report.refusal
    counted = {kind: count for kind, count in table.counter.snapshot().items() if count}
    assert counted == requests
    assert sum(requests.values()) <= (OLDER_REQUESTS if arguments.get("snapshot") == 3 else NEWEST_REQUESTS)
    assert "tag/tag-now" in read_all(table.store)


def test_a_tag_with_a_time_to_live() -> None:
    """The state of the last pass is read, and written where it knows of nothing that is due before the tag is over."""
    table = table_on_s3()
    assert create(table, time_retained="2 d").status == "done"
    first = {kind: count for kind, count in table.counter.snapshot().items() if count}
    assert first == {"get": 3, "list": 3, "put": 3}
    assert create(table, tag="second", time_retained="3 d").status == "done"
    both = table.counter.snapshot()
    assert sum(both.values()) - sum(first.values()) == OLDER_REQUESTS


def test_a_tag_of_what_only_a_tag_holds() -> None:
    """Tags are listed and read for it."""
    table = table_on_s3()
    assert create(table, snapshot=1).status == "done"
    assert {kind: count for kind, count in table.counter.snapshot().items() if count} == {"get": 4, "list": 3, "put": 2}
    assert "tag/tag-now" in read_all(table.store)


def test_a_name_that_is_taken() -> None:
    """The write finds out, and one request more says that it is another tag."""
    table = table_on_s3()
    assert create(table, tag="first").refusal.code == "tag_exists"  # type: ignore[union-attr]
    assert {kind: count for kind, count in table.counter.snapshot().items() if count} == {"get": 3, "list": 2, "put": 1}


class _Expiring(WrappingStore):
    """Loses snapshots right after a tag is put."""

    def __init__(self, store: Store, going: str) -> None:
        super().__init__(store)
        self._going = going

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        etag = super().put(key, data, if_absent=if_absent, if_match=if_match)
        super().delete([DeleteRequest(self._going)])
        return etag


@pytest.mark.parametrize(
    ("arguments", "going"), [({}, "snapshot/snapshot-6"), ({"snapshot": 3}, "snapshot/snapshot-3")]
)
@pytest.mark.parametrize("operation", ["create-tag", "replace-tag"])
def test_a_tag_that_is_withdrawn(arguments: dict[str, object], going: str, operation: str) -> None:
    """By its ETag; a tag that was replaced is what it was before."""
    table = table_on_s3()
    if operation == "replace-tag":
        assert create(table, snapshot=2).status == "done"
    before = {entry.key: entry.etag for entry in table.store.list("tag/")}
    losing = replace(table, store=_Expiring(table.store, going))
    report = run_operation(losing, operation, {"tag": "now", **arguments}, execute=True)
    assert report.refusal is not None
    assert report.refusal.code == "snapshot_vanished"
    is_back = operation == "replace-tag"
    said = "tag 'now' is what it was before; check that it is readable" if is_back else "the tag is withdrawn"
    assert f"; {said}" in report.refusal.message
    assert {entry.key: entry.etag for entry in table.store.list("tag/")} == before
