"""A table with a tag and branches whose expiry is worth breaking, and what an undisturbed expiry leaves."""

from lakesweep.control.ndjson import unpack
from tests.support.faulty_store import Switch
from tests.support.maintenance import assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder
from tests.support.world import HOUR_MS, World


class ExpiryWorld(World):
    """The table of `history`, an hour later."""

    def __init__(self) -> None:
        super().__init__()
        self.table = history(self.store)
        self.now_ms += HOUR_MS

    def ledger(self) -> dict[str, str]:
        """Return path -> what the ledger says became of it."""
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


def _normal() -> tuple[ExpiryWorld, int]:
    world = ExpiryWorld()
    switch = Switch()
    assert world.maintainer(switch).expire(retain_max=2, retain_min=1).status == "done"
    assert_roots_readable(world.table)
    return world, len(switch.calls)


NORMAL, CALLS = _normal()
