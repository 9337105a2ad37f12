"""Which schemas commits of others need: where it cannot be told, all of them."""

from lakesweep.execute.planned_roots import newest_schema, schema_id, schema_of
from lakesweep.table.discover import discover
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

ANY = 10**12


def test_the_newest_schema_of_some_roots() -> None:
    store = MemoryStore("memory://bucket/t")
    table = TableBuilder(store)
    table.commit("+A")
    table.alter(types={"more": "INT"})
    table.commit("+B")
    table.tag("one", snapshot=1)
    own = discover(store).branches["main"]
    assert newest_schema(store, own.roots()) == 1
    assert newest_schema(store, own.tags) == 0
    assert newest_schema(store, ()) == -1
    table.remove("tag/tag-one")
    assert newest_schema(store, own.tags) == -1


def test_what_cannot_be_read_may_need_any() -> None:
    store = MemoryStore("memory://bucket/t")
    table = TableBuilder(store)
    table.commit("+A")
    store.put("snapshot/snapshot-1", b"{")
    assert newest_schema(store, discover(store).branches["main"].snapshots) > ANY
    assert schema_of("snapshot/snapshot-1", b"{") > ANY
    assert schema_id("schema/schema-x") > ANY
    assert schema_id("branch/branch-b/schema/schema-7") == 7
