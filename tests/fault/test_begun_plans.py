"""A plan that a dead run began is finished, whatever happened to the control documents meanwhile."""

import pytest

from lakesweep.errors import FormatError
from tests.support.expiry_history import NORMAL, ExpiryWorld
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import assert_roots_readable


def die_after_deleting(world: ExpiryWorld, *, first: bool = False) -> None:
    """Let a run die right after its last request to delete (its first one: documents)."""
    switch = Switch()
    ExpiryWorld().maintainer(switch).expire(retain_max=2, retain_min=1)
    deletes = [number for number, call in enumerate(switch.calls, 1) if call.startswith("table delete")]
    at = deletes[0] if first else deletes[-1]
    with pytest.raises(ProcessDeathError):
        world.maintainer(Switch(at, "death_after")).expire(retain_max=2, retain_min=1)
    world.wait()


@pytest.mark.parametrize("part", ["00001-intent"])
def test_a_damaged_ledger_part_does_not_stop_the_next_run(part: str) -> None:
    world = ExpiryWorld()
    die_after_deleting(world)
    (name,) = [entry.key for entry in world.control.list("") if part in entry.key]
    world.control.put(name, world.control.read(name).data[:-9])
    report = world.maintainer(Switch()).expire(retain_max=2, retain_min=1)
    assert report.status == "done"
    assert world.keys() == NORMAL.keys()
    assert_roots_readable(world.table)


def test_an_interrupted_finish_is_not_pushed_aside_by_a_new_plan() -> None:
    world = ExpiryWorld()
    die_after_deleting(world, first=True)
    world.table.commit("+H", partition=("d1",))
    switch = Switch()
    probe = ExpiryWorld()
    die_after_deleting(probe, first=True)
    probe.table.commit("+H", partition=("d1",))
    probe.maintainer(switch).expire(retain_max=2, retain_min=1)
    at = next(number for number, call in enumerate(switch.calls, 1) if "put" in call and "00002-result" in call)
    report = world.maintainer(Switch(at, "before")).expire(retain_max=2, retain_min=1)
    assert report.status == "partial"
    world.wait()
    assert world.maintainer(Switch()).expire(retain_max=2, retain_min=1).status == "done"
    assert world.keys() == probe.keys()
    assert_roots_readable(world.table)


@pytest.mark.parametrize("body", [b"{}", b'{"token": 1}', b"[]", b"\xff"])
def test_a_lease_that_means_nothing_is_an_error_with_its_place(body: bytes) -> None:
    world = ExpiryWorld()
    world.maintainer(Switch()).expire(retain_max=4, retain_min=4)
    (name,) = [entry.key for entry in world.control.list("") if entry.key.endswith("lease.json")]
    world.control.put(name, body)
    with pytest.raises(FormatError, match=r"lease\.json"):
        world.maintainer(Switch()).expire(retain_max=2, retain_min=1)
    assert_roots_readable(world.table)
