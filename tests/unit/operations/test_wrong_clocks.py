"""A pass by a clock that is a year ahead, what comes of it when the clock is right again, and callers' wrong clocks."""

from dataclasses import replace

import pytest

from lakesweep.control.state import BranchState, read_states
from lakesweep.operations.maintenance.triage import lag_of, triage
from lakesweep.runs.pass_notes import note_refusal
from lakesweep.runs.pass_state import known_state, needs_nothing
from tests.support.world import World

YEAR_MS, HOUR_MS = 365 * 86_400_000, 3_600_000
KEEP = {"snapshot.num-retained.min": "10", "snapshot.num-retained.max": "100", "snapshot.time-retained": "9000 d"}


class WorldOfAYearAhead(World):
    """A table of one snapshot, whose pass was made a year ahead."""

    def __init__(self, *, with_tag: bool) -> None:
        super().__init__(options=KEEP)
        self.replace()
        if with_tag:
            self.table.tag("kept", snapshot=1)
        self.now_ms += YEAR_MS
        self.maintain()
        self.now_ms -= YEAR_MS

    def state(self) -> BranchState:
        return read_states(self.area)["main"]


def test_tags_are_looked_at_in_time() -> None:
    """Another engine makes a tag with a time to live: it goes within a day, and not in a year."""
    scene = WorldOfAYearAhead(with_tag=True)
    assert scene.state().tags_due_ms > scene.now_ms + YEAR_MS
    assert lag_of(scene.maintainer().table, scene.state()) is not None, "the sweep finds it"
    scene.maintain()
    assert scene.state().tags_due_ms <= scene.now_ms + 24 * HOUR_MS
    assert scene.state().checked_ms == scene.now_ms


def test_a_table_without_tags_is_looked_at_once() -> None:
    """Then the shortcut answers again."""
    scene = WorldOfAYearAhead(with_tag=False)
    table = scene.maintainer().table
    assert not needs_nothing(table, known_state(table), 0, None)
    scene.maintain()
    assert scene.state().checked_ms == scene.now_ms
    assert needs_nothing(table, known_state(table), 0, None)


def test_a_commit_waits_since_it_was_made() -> None:
    """The alarm about lagging tables does not wait for a year until the state is of the past."""
    scene = WorldOfAYearAhead(with_tag=False)
    scene.replace()
    scene.now_ms += 3 * HOUR_MS
    lag = lag_of(scene.maintainer().table, scene.state())
    assert lag is not None
    assert lag.lag_ms == 3 * HOUR_MS


def test_refusals_are_told_by_the_right_clock() -> None:
    """The first pass was refused by a clock that was a year ahead; the alarm does not wait for a year."""
    scene = World(options=KEEP)
    scene.replace()
    table = scene.maintainer().table
    scene.now_ms += YEAR_MS
    note_refusal(table, is_refused=True)
    scene.now_ms -= YEAR_MS
    note_refusal(table, is_refused=True)
    first_ms = scene.now_ms
    scene.now_ms += HOUR_MS
    note_refusal(table, is_refused=True)
    assert read_states(scene.area)["main"].refused_ms == first_ms


@pytest.mark.parametrize("off_ms", [-50 * YEAR_MS, -YEAR_MS, -3 * HOUR_MS, 25 * HOUR_MS, YEAR_MS, 500 * YEAR_MS])
def test_a_caller_whose_clock_is_off_skips_no_pass(off_ms: int) -> None:
    """It makes passes that nobody needs. By the right clock, the state answers for the same commit."""
    scene = World(options=KEEP)
    scene.replace()
    scene.maintain()
    newest = scene.replace(HOUR_MS)
    right = scene.maintainer().table
    wrong = replace(right, clock_ms=lambda: scene.now_ms + off_ms)
    state = read_states(scene.area)["main"]
    assert needs_nothing(right, known_state(right), 0, None)
    assert not triage(right, newest, 0).is_due
    assert not needs_nothing(wrong, known_state(wrong), HOUR_MS // 2, None)
    assert triage(wrong, newest, HOUR_MS // 2).is_due
    assert lag_of(wrong, state) is not None
