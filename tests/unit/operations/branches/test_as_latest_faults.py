"""Trouble at every request of a rollback as latest: no version is lost, and what was reported is what is there."""

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.support.reader import read_all
from tests.unit.operations.branches.as_latest_world import PREFIX, AsLatestWorld, facts


def requests() -> list[str]:
    switch = Switch()
    AsLatestWorld().back(switch=switch)
    return switch.calls


def test_the_requests_are_as_many_as_expected() -> None:
    """The check of the files lists the table twice; everything else does not grow with its files."""
    calls = requests()
    assert len(calls) == 74
    assert sum(call == "table list " for call in calls) == 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", range(1, len(requests()) + 1))
def test_trouble_at_every_request(at: int, mode: str) -> None:
    world = AsLatestWorld()
    before = {root: needs.live for root, needs in read_all(world.store).items()}
    report: RunReport | None = None
    error: BaseException | None = None
    try:
        report = world.back(switch=Switch(at, mode))
    except (MaintenanceError, ProcessDeathError) as raised:
        error = raised

    now = read_all(world.store)  # every root has all its files
    assert {root: now[root].live for root in before} == before
    newest = now[f"snapshot/snapshot-{world.ids()[-1]}"].live
    is_committed = world.ids() == [1, 2, 3, 4]
    assert newest == before[f"snapshot/snapshot-{1 if is_committed else 3}"]
    if is_committed:
        assert any(tag.startswith(f"{PREFIX}1-") for tag in world.tags()), "Paimon's expiry goes by it"
    if report is not None:
        assert (report.status == "done") is is_committed, report
        assert not facts(report).lost
        missing = any("make it, or Paimon's expiry" in warning for warning in report.warnings)
        assert missing or len(facts(report).kept_by) == 2
    elif isinstance(error, MaintenanceError) and is_committed:
        assert "snapshot 4 is committed" in str(error)
    elif isinstance(error, MaintenanceError):
        assert not world.tags() or "tag" in str(error) or mode == "after" or "delete" in str(error), (
            error,
            world.tags(),
        )

    world.wait()
    again = world.back()
    assert again.status == ("nothing_to_do" if is_committed else "done"), again
    assert world.live() == {"A", "B"}
    assert len([tag for tag in world.tags() if tag.startswith(f"{PREFIX}4-")]) == 1, "whoever died"
