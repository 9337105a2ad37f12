"""Where tours look for tables."""

from lakesweep.runs.table_folders import places_below
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder


def test_a_database_with_tables_that_are_called_schema_and_snapshot_is_no_table() -> None:
    store = MemoryStore("memory://lake/w")
    for name in ("orders", "schema", "snapshot"):
        table = MemoryStore(f"memory://source/{name}")
        TableBuilder(table).commit("+A")
        for entry in table.list(""):
            store.put(f"sales.db/{name}/{entry.key}", table.read(entry.key).data)
    found = {place.location: place.is_table for place in places_below("memory://lake/w", store)}
    assert found == {
        "memory://lake/w": False,
        "memory://lake/w/sales.db": False,
        "memory://lake/w/sales.db/orders": True,
        "memory://lake/w/sales.db/schema": True,
        "memory://lake/w/sales.db/snapshot": True,
    }
