"""A tag with a time to live that is made while a pass, which has listed no tag, is under way."""

from collections.abc import Callable

from lakesweep.control.area import ControlArea
from lakesweep.control.state import NEVER_MS, read_states
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.storage.store import Body
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

HOUR_MS = 3_600_000
KEEP = {"snapshot.num-retained.min": "10", "snapshot.num-retained.max": "100", "snapshot.time-retained": "9000 d"}


class Acting(MemoryStore):
    """Lets somebody act when a schema is read, which is after the listing."""

    act: Callable[[], object] | None = None

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        if key.startswith("schema/") and self.act is not None:
            act, self.act = self.act, None
            act()
        return super().read(key, max_bytes)


def test_the_state_still_says_when_it_is_over() -> None:
    now_ms = 1_800_000_000_000
    store = Acting("memory://bucket/t", clock=lambda: now_ms)
    control = MemoryStore("memory://control", clock=lambda: now_ms)
    table = TableBuilder(store, options=KEEP, start_ms=now_ms)
    table.hint("LATEST", table.commit("+A"))
    maintainer = Maintainer(store, control=control)

    def run() -> int:
        maintain(maintainer.table, MaintainArguments(is_due=True), execute=True)
        return read_states(ControlArea(control, store.location))["main"].tags_due_ms

    assert run() == NEVER_MS
    table.hint("LATEST", table.commit("+B"))
    store.act = lambda: maintainer.run("create_tag", tag="short", time_retained="1 h")
    assert run() == now_ms + HOUR_MS
    assert [entry.key for entry in store.list("tag/")] == ["tag/tag-short"]
    table.remove("tag/tag-short")
    now_ms += HOUR_MS
    assert run() == NEVER_MS, "nothing is left of it"
