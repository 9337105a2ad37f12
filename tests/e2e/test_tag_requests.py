"""How many requests making a tag takes, counted on a real S3 protocol. Counts are exact, so they are asserted."""

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.model.report import RunReport
from lakesweep.model.table_ref import TableRef
from lakesweep.operations.context import Table
from lakesweep.operations.registry import run_operation
from lakesweep.storage.memory import MemoryStore
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
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
    return run_operation(table, "create_tag", {"tag": "now", **arguments}, execute=True)


@pytest.mark.parametrize(
    ("arguments", "requests"),
    [
        ({}, {"get": 2, "list": 3, "put": 2}),
        ({"time_retained": "1 d", "time_zone": "Asia/Kolkata"}, {"get": 2, "list": 3, "put": 2}),
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
