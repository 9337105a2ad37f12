"""Break a run at every storage call in turn; afterwards every root reads, and the next run reaches the normal end."""

import pytest

from lakesweep.errors import MaintenanceError
from tests.support.expiry_history import CALLS, NORMAL, ExpiryWorld
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.support.maintenance import assert_roots_readable


def test_the_normal_run_is_worth_breaking() -> None:
    assert CALLS > 50
    assert len(NORMAL.ledger()) > 15


@pytest.mark.parametrize("mode", MODES)
def test_any_call_may_break(mode: str) -> None:
    for at in range(1, CALLS + 1):
        world = ExpiryWorld()
        switch = Switch(at, mode)
        try:
            world.maintainer(switch).expire(retain_max=2, retain_min=1)
        except (MaintenanceError, ProcessDeathError):
            pass
        where = f"{mode} call {at}: {switch.calls[at - 1]}"
        try:
            assert_roots_readable(world.table)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        world.wait()
        report = world.maintainer(Switch()).expire(retain_max=2, retain_min=1)
        assert report.status in ("done", "nothing_to_do"), (where, report.refusal)
        assert_roots_readable(world.table)
        assert world.keys() == NORMAL.keys(), where
        assert set(world.ledger()) == set(NORMAL.ledger()), where
