"""A plan that is carried out after another run went further writes no changelog document that cannot be read."""

from lakesweep.storage.memory import MemoryStore
from tests.support.fault_places import NOW_MS
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.table_builder import TableBuilder

OPTIONS = {
    "changelog-producer": "input",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "3",
    "snapshot.time-retained": "1000 d",
    "changelog.num-retained.max": "4",
}


def test_an_overtaken_plan_does_not_write_changelogs_that_are_gone() -> None:
    store = MemoryStore("memory://bucket/t", clock=lambda: NOW_MS)
    table = TableBuilder(store, primary_keys=("k",), options=OPTIONS, start_ms=NOW_MS - 86_400_000)
    for number in range(1, 6):
        table.commit(f"+D{number}", changelog=[f"+L{number}"])
    slow = Maintainer(store)
    plan = slow.run("maintain", execute=False)
    (step,) = [step for step in plan.steps or () if step.operation == "expire_snapshots"]
    assert step.plan is not None

    table.commit("+D6", changelog=["+L6"])
    table.commit("+D7", changelog=["+L7"])
    quick = Maintainer(store, control=slow.control)
    assert quick.maintain().status == "done"
    assert_roots_readable(table)
    left = {entry.key for entry in store.list("changelog/")}

    slow.execute(step.plan.header.plan_id)
    assert_roots_readable(table)
    assert {entry.key for entry in store.list("changelog/")} == left
