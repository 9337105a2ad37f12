"""Inventories that do not reach as far as a table does, in time or in keys."""

import json
from collections.abc import Iterable
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import RefusedError
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.model.roots import Root, RootRef
from lakesweep.model.safety import INVENTORY_SETTLED_MS
from lakesweep.storage.requests import RequestCounter
from lakesweep.table.inventory.manifest import Inventory, read_inventory
from lakesweep.table.inventory.reach import Reach, reach_of, refuse_partial, refuse_too_old
from lakesweep.table.inventory.rows import list_inventory
from tests.support.inventories import CREATED_MS, Row, rows_of_store, write_inventory
from tests.support.memory_store import MemoryStore
from tests.support.s3_server import moto_store

BUCKET = "warehouse"
TABLE = f"memory://{BUCKET}/db.db/t"
KEYS = ("manifest/manifest-1", "dt=1/bucket-0/data-1", "dt=1/bucket-0/data-2", "schema/schema-0", "snapshot/snapshot-1")
NESTED = ("dt=1/t/schema/schema-0", "dt=1/t/bucket-0/data-1", "dt=1/t/bucket-0/data-2")


def table_of(keys: Iterable[str], time_ms: int = CREATED_MS - INVENTORY_SETTLED_MS - 1) -> MemoryStore:
    """Return a table whose objects were all written at one time."""
    store = MemoryStore(TABLE, RequestCounter(), clock=lambda: time_ms)
    for key in keys:
        store.put(key, b"x")
    return store


def inventory_of(rows: Iterable[Row]) -> Inventory:
    """Return an inventory that was read."""
    at = MemoryStore("memory://inventories")
    return read_inventory(at, write_inventory(at, BUCKET, rows), BUCKET)


def check(store: MemoryStore, prefix: str) -> int:
    """Check an inventory that is configured with a prefix of the bucket, and return the requests that it took."""
    at = MemoryStore("memory://inventories")
    rows = [row for row in rows_of_store(store, "db.db/t/") if row.key.startswith(prefix)]
    inventory = read_inventory(at, write_inventory(at, BUCKET, rows, files=3), BUCKET)
    reach = reduce(Reach.__add__, map(reach_of, list_inventory(inventory, at, "db.db/t/")), Reach())
    counter = store._counter
    before = counter.snapshot()["list"]
    refuse_partial("t", store, inventory, reach)
    return counter.snapshot()["list"] - before


@pytest.mark.parametrize("prefix", ["", "db", "db.db/t", "db.db/t/"])
def test_all_of_a_table(prefix: str) -> None:
    """A prefix that the whole table has is no matter, and takes no request."""
    assert check(table_of(KEYS), prefix) == 0


@pytest.mark.parametrize(
    "prefix", ["db.db/t/dt", "db.db/t/dt=1/bucket-0/data-2", "db.db/t/s", "db.db/t2", "other", "db.db/t/manifest/"]
)
def test_a_part_of_a_table(prefix: str) -> None:
    """What lies beside is older than the inventory, so it would have been listed."""
    with pytest.raises(RefusedError, match="to list all of") as caught:
        check(table_of(KEYS), prefix)
    assert caught.value.code == "inventory_is_partial"


def test_another_table_whose_schema_is_not_listed() -> None:
    """Files of a table below this one never come without its schema."""
    with pytest.raises(RefusedError):
        check(table_of([*KEYS, *NESTED]), "db.db/t/dt=1/t/bucket-0/")


def test_a_root_in_which_all_keys_begin_alike() -> None:
    """An external root may hold one folder; two requests show that there is nothing beside."""
    store = table_of(["dt=1/bucket-0/data-1", "dt=1/bucket-0/data-2"])
    assert check(store, "db.db/t/") == 2
    store.put("a", b"1")
    with pytest.raises(RefusedError):
        check(store, "db.db/t/d")


def test_what_is_young_may_be_missing() -> None:
    """An inventory need not show what was written a day before it was begun, or since."""
    check(table_of(KEYS, CREATED_MS - INVENTORY_SETTLED_MS), "other")
    check(table_of(KEYS, CREATED_MS + 5), "db.db/t/dt")
    check(table_of([]), "other")


def test_on_s3() -> None:
    """A server of S3 lists from behind a key that nothing can come after."""
    store = moto_store("db.db/t")
    bucket = store.location.split("/")[2]
    for key in ("dt=1/a", "dt=1/é", "dt=2/b"):
        store.put(key, b"1")
    at = MemoryStore("memory://inventories")
    created_ms = store.now_ms() + 2 * INVENTORY_SETTLED_MS
    rows = rows_of_store(store, "db.db/t/")
    inventory = read_inventory(at, write_inventory(at, bucket, rows, created_ms=created_ms), bucket)
    refuse_partial("t", store, inventory, Reach("dt=1/a", "dt=2/b"))
    with pytest.raises(RefusedError, match="dt=2/b"):
        refuse_partial("t", store, inventory, Reach("dt=1/a", "dt=1/é"))


@given(st.lists(st.text(min_size=1, max_size=3), max_size=8), st.integers(0, 8))
def test_reach_adds_up(keys: list[str], at: int) -> None:
    """Property: however keys are split, the reach is that of all of them."""

    def reach(part: list[str]) -> Reach:
        return reduce(Reach.__add__, (Reach(key, key) for key in part), Reach())

    assert reach(keys[:at]) + reach(keys[at:]) == reach(keys) == (Reach(min(keys), max(keys)) if keys else Reach())
    assert all(key.startswith(reach(keys).beginning) for key in keys)


@given(
    keys=st.sets(st.text("ab/", min_size=1, max_size=4).filter(lambda key: "//" not in key), min_size=1, max_size=8),
    prefix=st.text("ab/", max_size=3),
)
def test_any_prefix(keys: set[str], prefix: str) -> None:
    """Property: of objects that are old, an inventory that leaves one out is refused, and no other."""
    store = table_of(key.strip("/") for key in keys if key.strip("/"))
    listed = [row.key for row in rows_of_store(store)]
    is_whole = all(key.startswith(prefix) for key in listed)
    try:
        check(store, f"db.db/t/{prefix}")
    except RefusedError:
        assert not is_whole
    else:
        assert is_whole


def root(time_ms: int, name: str = "7") -> Root:
    """Return a root that was committed at a time."""
    document = {
        "version": 3,
        "id": 7,
        "schemaId": 0,
        "baseManifestList": "manifest-list-a",
        "deltaManifestList": "manifest-list-b",
        "commitUser": "u",
        "commitIdentifier": 1,
        "commitKind": "APPEND",
        "timeMillis": time_ms,
        "totalRecordCount": 1,
        "deltaRecordCount": 1,
    }
    path = f"snapshot/snapshot-{name}"
    return Root(RootRef("main", "snapshot", name, path, "e", 1), parse_snapshot(json.dumps(document).encode(), path))


def test_older_than_the_roots() -> None:
    """An inventory that was begun before the oldest root was committed lists nothing of what the roots wrote."""
    inventory = inventory_of([])
    assert inventory.created_ms == CREATED_MS
    refuse_too_old("s3://warehouse/db.db/t", inventory, [])
    for times in ([CREATED_MS], [CREATED_MS + 5, CREATED_MS - 1], [-5], [0, 1 << 62]):
        refuse_too_old("s3://warehouse/db.db/t", inventory, map(root, times))
    with pytest.raises(RefusedError) as caught:
        refuse_too_old("s3://warehouse/db.db/t", inventory, [root(CREATED_MS + 5), root(CREATED_MS + 1)])
    assert caught.value.code == "inventory_too_old"
    message = str(caught.value)
    assert "s3://warehouse/db.db/t" in message and inventory.location in message and "snapshot 7" in message
    with pytest.raises(RefusedError):
        refuse_too_old("s3://warehouse/db.db/t", inventory, [root(1 << 62)])
