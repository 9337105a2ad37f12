"""A pass by a clock that is a year ahead, and what comes of it when the clock is right again."""

from lakesweep.control.state import BranchState, read_states
from lakesweep.operations.maintenance.triage import lag_of
from lakesweep.runs.pass_state import needs_nothing
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
    assert not needs_nothing(table, 0, None)
    scene.maintain()
    assert scene.state().checked_ms == scene.now_ms
    assert needs_nothing(table, 0, None)
