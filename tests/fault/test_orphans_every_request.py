"""Break the removal of orphans at every request in turn, or let its process die there; the next run ends the same."""

from collections.abc import Callable

import pytest

from lakesweep.control.ndjson import unpack
from lakesweep.errors import MaintenanceError
from lakesweep.execute import batches
from tests.support.every import EVERY
from tests.support.faulty_store import FaultyStore, ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.orphan_others import NAME, OrphanWorld
from tests.support.reader import assert_all_readable
from tests.support.walk import WatchedStore

Record = Callable[[str, object], None]


def maintainer(stage: OrphanWorld, switch: Switch) -> Maintainer:
    return Maintainer(
        FaultyStore(WatchedStore(stage.store, stage.store), switch, "table"),
        control=FaultyStore(stage.control, switch, "control"),
        sleep=stage.sleep,
    )


def remove(stage: OrphanWorld, switch: Switch, plan_id: str | None, **arguments: object) -> str:
    """Remove orphans, or execute a stored plan of it; return the status."""
    if plan_id is not None:
        return maintainer(stage, switch).execute(plan_id).status
    return maintainer(stage, switch).run(NAME, **arguments).status


def gone_by_ledger(stage: OrphanWorld) -> set[str]:
    """Return the paths that are gone by the ledger."""
    parts = [entry.key for entry in stage.control.list("") if "/ledger/" in entry.key]
    rows = [row for part in parts for row in unpack(stage.control.read(part).data, part)]
    return {str(row["key"]) for row in rows if row.get("result") in ("deleted", "already_gone")}


def begin(way: str) -> tuple[OrphanWorld, str | None, dict[str, object]]:
    """Return a table, the plan that is stored already, and the arguments of the call."""
    stage = OrphanWorld("plain")
    if way == "stored plan":
        plan = maintainer(stage, Switch()).run(NAME, execute=False).plan
        assert plan is not None
        return stage, plan.header.plan_id, {}
    if way == "quarantine":
        assert maintainer(stage, Switch()).run(NAME, quarantine="1 h").status == "nothing_to_do"
        stage.now_ms += 3_600_000
        return stage, None, {"quarantine": "1 h"}
    return stage, None, {}


@pytest.mark.parametrize("way", ["call", "stored plan", "quarantine"])
@pytest.mark.parametrize("mode", ["before", "after", "death", "death_after"])
def test_any_request_may_be_the_last(mode: str, way: str, record_property: Record) -> None:
    """Every root reads after the break, and after the next run all orphans are gone, by the ledger as well."""
    stage, plan_id, arguments = begin(way)
    normal = Switch()
    assert remove(stage, normal, plan_id, **arguments) == "done"
    end = {entry.key for entry in stage.store.list("")}
    ledger = gone_by_ledger(stage)
    assert ledger >= stage.orphans
    for at in range(1 + len(mode + way) % EVERY, len(normal.calls) + 1, EVERY):
        stage, plan_id, arguments = begin(way)
        switch = Switch(at, mode)
        try:
            remove(stage, switch, plan_id, **arguments)
        except (MaintenanceError, ProcessDeathError):
            pass
        where = f"{mode} request {at}: {switch.calls[at - 1]}"
        assert_all_readable(stage.main)
        stage.wait()
        status = remove(stage, Switch(), None, **arguments)
        assert status in ("done", "nothing_to_do"), where
        assert {entry.key for entry in stage.store.list("")} == end, where
        assert gone_by_ledger(stage) == ledger, where
        assert_all_readable(stage.main)
    record_property("requests", len(normal.calls))
    assert len(normal.calls) > (15 if way == "stored plan" else 60)


class Slow(Switch):
    """Each request takes its time."""

    def __init__(self, stage: OrphanWorld, at: int | None = None) -> None:
        super().__init__(at, "death")
        self._stage = stage

    def _run(self, name: str, call: Callable[[], object]) -> object:
        self._stage.now_ms += 100_000
        return super()._run(name, call)


def test_a_run_may_die_while_others_have_the_lease(monkeypatch: pytest.MonkeyPatch, record_property: Record) -> None:
    """A long run gives the lease away now and then, with all that it knows written down."""
    monkeypatch.setattr(batches, "BATCH_KEYS", 4)
    stage, plan_id, _ = begin("stored plan")
    rests: list[float] = []
    monkeypatch.setattr(stage, "sleep", rests.append)
    normal = Slow(stage)
    assert remove(stage, normal, plan_id) == "done"
    assert len(rests) > 2
    end, ledger = {entry.key for entry in stage.store.list("")}, gone_by_ledger(stage)
    for at in range(1, len(normal.calls) + 1, EVERY):
        stage, plan_id, _ = begin("stored plan")
        with pytest.raises(ProcessDeathError):
            remove(stage, Slow(stage, at), plan_id)
        where = f"death at request {at}: {normal.calls[at - 1]}"
        assert_all_readable(stage.main)
        stage.wait()
        assert remove(stage, Switch(), None) in ("done", "nothing_to_do"), where
        assert {entry.key for entry in stage.store.list("")} == end, where
        assert gone_by_ledger(stage) == ledger, where
    record_property("requests", len(normal.calls))
