"""A stored plan that writes tags, of which some could not be made, is no licence for later."""

from lakesweep.storage.store import DeleteRequest
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

HOUR_MS = 3_600_000
OPTIONS = {
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "hourly",
    "sink.process-time-zone": "UTC",
    "write-only": "true",
}


def test_the_rest_of_a_plan_goes_stale_with_it() -> None:
    now_ms = 1_800_000_000_000
    store = MemoryStore("memory://bucket/t", clock=lambda: now_ms)
    table = TableBuilder(store, options=OPTIONS)
    for hours in (4, 2, 0):
        table.commit(f"+F{hours}", time_ms=now_ms - hours * HOUR_MS)
    maintainer = Maintainer(store)
    planned = maintainer.run("tag-schedule", execute=False).steps
    assert planned and planned[0].plan is not None and len(planned[0].plan.actions) > 1
    plan_id = planned[0].plan.header.plan_id
    store.delete([DeleteRequest("snapshot/snapshot-2")])
    first = maintainer.execute(plan_id)
    assert first.status == "partial", first.refusal
    made = [entry.key for entry in store.list("tag/")]
    assert made
    store.delete([DeleteRequest(key) for key in made])
    now_ms += 7 * 24 * HOUR_MS
    late = maintainer.execute(plan_id)
    assert late.refusal is not None and late.refusal.code == "plan_expired", late
    assert not list(store.list("tag/"))
