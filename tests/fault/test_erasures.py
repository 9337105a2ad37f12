"""Rows are erased while every request breaks, and while others commit at every request.

Whatever happens, a call with the same condition finishes the erasure, its record names each commit, and each report
names the snapshots that have the row.
"""

from collections.abc import Callable, Mapping

import pytest

from lakesweep.errors import MaintenanceError
from tests.support.acting import Acting
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.unit.operations.erasure.erasing import CATALOG, PERSON, WHERE, Erasing, erasure_of, found, there

pytestmark = pytest.mark.long

_SCENE: list[Erasing] = []


def scene() -> Erasing:
    """Return a table of one's own."""
    if not _SCENE:
        _SCENE.append(Erasing())
    copied = _SCENE[0].copy()
    assert isinstance(copied, Erasing)
    return copied


def requests() -> list[str]:
    """Return the requests of an erasure."""
    switch = Switch()
    scene().erase(switch)
    return switch.calls


@pytest.mark.parametrize("mode", MODES)
def test_every_request_breaks(mode: str) -> None:
    for at, name in list(enumerate(requests(), 1))[::EVERY]:
        world = scene()
        try:
            world.erase(Switch(at, mode))
        except (MaintenanceError, ProcessDeathError):
            world.wait()
        begun = [entry.key.split("/")[3] for entry in world.control.list("") if "/erasures/" in entry.key]
        report = world.finish(begun[0], where=WHERE) if begun else world.erase()
        assert world.rows() == [1, 2, 3, 4] and there(report) == world.showing(), (at, name)
        proof = world.proof(erasure_of(report))
        made = [number for change in proof["changes"] for number in change["snapshots"]]
        assert (proof["state"], made) == ("rows_remain", [each for each in world.ids() if each > 3]), (at, name)


OTHERS: Mapping[str, Callable[[Erasing], object]] = {
    "brings the row back": lambda world: world.append(PERSON, 9),
    "copies rows": lambda world: world.compact(*world.of("d")),
    "rolls back as latest": lambda world: world.run("rollback", snapshot=3, as_latest=True, **CATALOG),
    "erases, too": lambda world: world.erase(),
}


@pytest.mark.parametrize("act", OTHERS.values(), ids=OTHERS)
def test_another_acts_before_every_request(act: Callable[[Erasing], object]) -> None:
    """Until the roots are listed for the last look: what comes later is not in the report."""
    calls = requests()
    last = max(number for number, name in enumerate(calls, 1) if "list snapshot/" in name)
    for at in range(1, last + 1, EVERY):
        world = scene()
        report = world.erase(Acting(at, lambda world=world: act(world)))  # type: ignore[misc]
        assert report.status == "partial" and there(report) == world.showing(), (at, calls[at - 1], found(report))
