"""A table with a tag and branches whose expiry is worth breaking, and what an undisturbed expiry leaves."""

from tests.support.faulty_store import FaultyStore, Switch
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder


class World:
    """One table, one control location, one clock."""

    def __init__(self) -> None:
        self.now_ms = 1_800_000_000_000
        self.store = MemoryStore("memory://bucket/t", clock=lambda: self.now_ms)
        self.control = MemoryStore("memory://control", clock=lambda: self.now_ms)
        self.table = self.build(self.store)
        self.now_ms += 3_600_000

    def build(self, store: MemoryStore) -> TableBuilder:
        return history(store)

    def maintainer(self, switch: Switch) -> Maintainer:
        return Maintainer(
            FaultyStore(self.store, switch, "table"), control=FaultyStore(self.control, switch, "control")
        )

    def files(self) -> set[str]:
        return {entry.key for entry in self.store.list("")}

    def ledger(self) -> dict[str, str]:
        """Return path -> what the ledger says became of it."""
        from lakesweep.control.ndjson import unpack

        found = {}
        for entry in self.control.list(""):
            if "/ledger/" in entry.key:
                for row in unpack(self.control.read(entry.key).data, entry.key):
                    if row.get("result") in ("deleted", "already_gone"):
                        found[str(row["key"])] = "gone"
        return found


def history(store: MemoryStore) -> TableBuilder:
    table = TableBuilder(store, partition_keys=("dt",))
    table.commit("+A", "+B", partition=("d1",), statistics="s1")
    table.commit("-A", "+C", partition=("d1",), index={"i1": {"B": (1,)}}, changelog=["+L2"])
    table.tag("kept", snapshot=2)
    table.commit("-C", "+D", partition=("d2",), index={"i2": {"B": (1, 2)}})
    table.branch("b", from_tag="kept")
    table.on_branch("b").commit("+E", partition=("d3",))
    table.branch("c", from_tag="kept")
    table.commit("-B", "+F", partition=("d1",), index={"i3": {}}, changelog=["+L4"])
    table.merge_manifests()
    table.commit("-D", "+G", partition=("d2",))
    return table


def _normal() -> tuple[World, int]:
    world = World()
    switch = Switch()
    assert world.maintainer(switch).expire(retain_max=2, retain_min=1).status == "done"
    assert_roots_readable(world.table)
    return world, len(switch.calls)


NORMAL, CALLS = _normal()
