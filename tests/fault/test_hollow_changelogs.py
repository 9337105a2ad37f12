"""A plan that is carried out after another run went further writes no changelog document that cannot be read."""

import pytest

from lakesweep.control.ndjson import unpack
from lakesweep.errors import MaintenanceError
from tests.support.acting import Acting
from tests.support.fault_places import NOW_MS
from tests.support.faulty_store import FaultyStore
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
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
    (step,) = [step for step in plan.steps or () if step.operation == "expire-snapshots"]
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


@pytest.mark.parametrize("decoupled", [True, False])
def test_a_rival_between_the_listing_and_the_lease(decoupled: bool) -> None:
    """The first look may be left out only if nobody can have been here since the listing.

    The table asks for no expiry of consumers, so the pass plans from the first listing it made.
    """
    options = OPTIONS if decoupled else {key: value for key, value in OPTIONS.items() if "changelog" not in key}
    at, reached = 1, True
    while reached:
        store = MemoryStore("memory://bucket/t", clock=lambda: NOW_MS)
        control = MemoryStore("memory://control", clock=lambda: NOW_MS)
        table = TableBuilder(store, primary_keys=("k",), options=options, start_ms=NOW_MS - 86_400_000)
        for number in range(1, 6):
            _commit(table, number, decoupled)
        quick = Maintainer(store, control=control)
        quick.run("maintain", execute=False)  # its documents are remembered, so none is read that could be missed

        def overtake(quick: Maintainer = quick) -> None:
            try:
                quick.maintain()
            except MaintenanceError:
                pass  # the other one holds the lease

        switch = Acting(at, overtake)
        slow = Maintainer(FaultyStore(store, switch, "table"), control=FaultyStore(control, switch, "control"))
        try:
            slow.maintain()
        except MaintenanceError:
            pass
        reached = at <= len(switch.calls)
        where = f"before call {at}: {switch.calls[at - 1] if reached else 'none'}"
        try:
            assert_roots_readable(table)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        gone = [
            row["key"]
            for entry in control.list("")
            if "/ledger/" in entry.key
            for row in unpack(control.read(entry.key).data, entry.key)
            if row.get("result") in ("deleted", "already_gone")
        ]
        assert len(gone) == len(set(gone)), where
        at += 1


def _commit(table: TableBuilder, number: int, decoupled: bool) -> None:
    gone = [f"-D{number - 1}"] if number > 1 else []
    table.commit(f"+D{number}", *gone, changelog=[f"+L{number}"] if decoupled else ())
