"""Housekeeping while every request breaks, and while others work at every request: nothing that they need is gone."""

from collections.abc import Callable, Mapping

import pytest

from lakesweep.control.audit.verify import audit
from lakesweep.control.expired import expired_document
from lakesweep.control.plans import load_plan
from lakesweep.errors import LeaseHeldError, MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.operations.housekeeping.table import TableHouse
from tests.support.acting import Acting
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, DyingSwitch, ProcessDeathError, Switch
from tests.support.reader import read_all
from tests.unit.operations.housekeeping.house import ALL, House

_SCENE: list[House] = []
_OLD: list[str] = []


def scene() -> House:
    """Return a table with three old runs, a scan, and a young run. One more snapshot may expire."""
    if not _SCENE:
        world = House(options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"})
        for _ in range(3):
            _OLD.append(world.expiry())
            world.days(1)
        key = world.area.prefix.split("/")[1]
        for name in ("scan.json.gz", "tasks/list-0", "tasks/list-1", "state.json.gz", "result.json"):
            world.put(f"scans/{key}/old/{name}")
        world.days(61)
        for _ in range(3):
            world.replace()
        world.now_ms += 60_000
        world.expire(2)
        world.now_ms += 60_000
        _SCENE.append(world)
    return _SCENE[0].copy()


def documents(world: House) -> set[str]:
    """Return everything of the table but what housekeeping itself wrote."""
    found = {entry.key for entry in world.control.list("") if "-housekeeping" not in entry.key}
    return {key for key in found if not key.endswith("lease.json")}


def assert_readable(world: House) -> None:
    """No plan is damaged, the audit finds nothing, and a scan is whole, has ended, or is gone."""
    for plan_id in world.plans():
        load_plan(world.area, plan_id)
    found = audit(world.area)
    assert found.is_whole, found
    names = world.names("scans")
    assert not names or "old/result.json" in names
    assert world.undo(_newest(world), execute=False).status == "planned"


def test_every_request_breaks() -> None:
    """Whatever is left is readable. What is gone is explained, and the next call deletes the rest."""
    before, switch = documents(scene()), Switch()
    whole = scene()
    assert whole.tidy(ALL, switch=switch).status == "done"
    after = documents(whole)
    assert {name.rpartition("/")[2] for name in before - after} > {"header.json", "result.json", "scan.json.gz"}
    for mode in MODES:
        for at, name in list(enumerate(switch.calls, 1))[::EVERY]:
            world = scene()
            try:
                world.tidy(ALL, switch=Switch(at, mode))
            except (MaintenanceError, ProcessDeathError):
                world.wait()
            where = (mode, at, name)
            assert after <= documents(world), where
            assert_readable(world)
            for plan_id in set(_OLD) - set(world.plans()):
                assert expired_document(world.area, f"plans/{plan_id}/header.json", plan_id) is not None, where
            assert world.tidy(ALL).status in ("done", "nothing_to_do"), where
            assert documents(world) == after, where
            assert_readable(world)


def _newest(world: House) -> str:
    """Return the newest run that may be undone."""
    return max(each for each in world.reports() if not each.endswith("-housekeeping"))


def _undone(world: House) -> None:
    """Undo the newest run."""
    report = world.undo(_newest(world))
    assert report.status == "done" or (report.refusal is not None and report.refusal.code == "lease_held"), report


def _died(world: House) -> None:
    """Begin a plan, and die before the first deletion is recorded. While housekeeping has the lease, nothing begins."""
    try:
        world.maintainer(DyingSwitch(lambda name: name.startswith("table delete"), "death_after")).expire()
    except (MaintenanceError, ProcessDeathError):
        return


def _expired(world: House) -> None:
    try:
        world.expire()
    except MaintenanceError as error:
        assert error.code == "lease_held"


def _scanned(world: House) -> None:
    key = world.area.prefix.split("/")[1]
    world.put(f"scans/{key}/old/state.json.gz", b"newer")


def _undid_an_old_run(world: House) -> None:
    """It is beyond the stated time: it is undone, or refused, and never half."""
    before = world.etags()
    report = world.undo(_OLD[-1])
    assert report.status == "done" or world.etags() == before, report


OTHERS: Mapping[str, Callable[[House], object]] = {
    "undoes": _undone,
    "undoes an old run": _undid_an_old_run,
    "dies": _died,
    "expires": _expired,
    "scans": _scanned,
    "keeps house": lambda world: world.tidy(ALL),
}


@pytest.mark.parametrize("act", OTHERS.values(), ids=OTHERS)
def test_another_acts_before_every_request(act: Callable[[House], object]) -> None:
    """Both end right, and the table reads."""
    switch = Switch()
    scene().tidy(ALL, switch=switch)
    for at in range(1, len(switch.calls) + 1, EVERY):
        world = scene()
        house = world.tidy(ALL, switch=Acting(at, lambda world=world: act(world)))  # type: ignore[misc]
        where = (at, switch.calls[at - 1], house)
        assert house.status in ("done", "refused", "nothing_to_do"), where
        world.wait()
        found = audit(world.area)
        assert found.is_whole, (where, found)
        for plan_id in world.plans():
            load_plan(world.area, plan_id)
        world.maintainer().expire()
        assert read_all(world.store), where
        if act is _scanned:
            assert {"old/state.json.gz", "old/scan.json.gz"} & world.names("scans") != {"old/state.json.gz"} or (
                "old/result.json" not in world.names("scans")
            ), where


WORK: Mapping[str, Callable[[House, Switch, str], RunReport]] = {
    "an expiry": lambda world, switch, run_id: world.maintainer(switch).expire(),
    "an undo": lambda world, switch, run_id: world.undo(run_id, switch=switch),
    "a pass": lambda world, switch, run_id: world.maintain(switch),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_housekeeping_at_every_request_of_others(work: Callable[[House, Switch, str], RunReport]) -> None:
    """Every run ends as it does alone: what it needs is there. One of the two may find the lease held."""
    switch, alone = Switch(), scene()
    run_id = _newest(alone)
    assert work(alone, switch, run_id).status == "done"
    for at in range(1, len(switch.calls) + 1, EVERY):
        world = scene()
        houses: list[TableHouse] = []
        acting = Acting(at, lambda world=world, houses=houses: houses.append(world.tidy(ALL)))  # type: ignore[misc]
        try:
            report = work(world, acting, run_id)
        except LeaseHeldError:  # housekeeping had the lease; the run is asked for again
            report = work(world, Switch(), run_id)
        where = (at, switch.calls[at - 1], report, houses)
        assert report.status == "done", where
        assert {each.status for each in houses} <= {"done", "refused"}, where
        assert world.etags().keys() == alone.etags().keys(), where
        found = audit(world.area)
        assert found.is_whole, (where, found)
