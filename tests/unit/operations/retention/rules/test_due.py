"""When a snapshot or changelog is due: the planner's own choice, asked one by one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.model.policy import INT_MAX, ChangelogRetention, SnapshotRetention
from lakesweep.operations.retention.rules.changelog_range import select_changelogs
from lakesweep.operations.retention.rules.due import changelogs_due, snapshots_due, with_floor
from lakesweep.operations.retention.rules.snapshot_cap import cap_by_floor
from lakesweep.operations.retention.rules.snapshot_range import select_range

numbers = st.integers(1, 4)
maxima = st.just(INT_MAX) | st.integers(4, 8)
ids = st.lists(st.integers(1, 12), min_size=1, unique=True).map(sorted)
times = st.lists(st.integers(0, 50), min_size=12, max_size=12)
consumers = st.none() | st.integers(1, 14)


@settings(max_examples=100)
@given(ids, times, numbers, maxima, st.integers(0, 30), consumers, st.integers(0, 80))
def test_snapshots_are_due_that_the_planner_chooses(
    present: list[int],
    commits: list[int],
    retain_min: int,
    retain_max: int,
    retained: int,
    consumer: int | None,
    now: int,
) -> None:
    """Without a limit for one run, the two agree about every snapshot."""
    policy = SnapshotRetention(retain_min, retain_max, retained, INT_MAX)
    time_ms = {snapshot_id: commits[snapshot_id - 1] for snapshot_id in present}
    chosen = select_range(present, time_ms, policy, consumer, now)
    due = snapshots_due(present, time_ms, policy, consumer)
    assert {each for each, found in due.items() if found.is_due(now)} == set(chosen.expired)


@given(ids, times, numbers, maxima, st.integers(0, 30), numbers, st.integers(0, 30), st.integers(0, 80))
def test_snapshots_are_due_that_the_planner_chooses_above_a_floor(
    present: list[int],
    commits: list[int],
    retain_min: int,
    retain_max: int,
    retained: int,
    floor_min: int,
    floor_ms: int,
    now: int,
) -> None:
    """The floor of a fleet policy holds snapshots equally in `explain` and in a pass."""
    policy = SnapshotRetention(retain_min, retain_max, retained, INT_MAX)
    floor = SnapshotRetention(floor_min, INT_MAX, floor_ms, INT_MAX)
    time_ms = {snapshot_id: commits[snapshot_id - 1] for snapshot_id in present}
    chosen = cap_by_floor(select_range(present, time_ms, policy, None, now), present, time_ms, floor, now)
    due, floors = (snapshots_due(present, time_ms, each, None) for each in (policy, floor))
    assert {each for each, found in due.items() if with_floor(found, floors[each]).is_due(now)} == set(chosen.expired)


@given(ids, times, numbers, maxima, st.integers(0, 30), consumers, st.integers(0, 80), st.integers(0, 6))
def test_changelogs_are_due_that_the_planner_chooses(
    present: list[int],
    commits: list[int],
    retain_min: int,
    retain_max: int,
    retained: int,
    consumer: int | None,
    now: int,
    snapshots: int,
) -> None:
    """The same of changelogs, where the planner chooses any."""
    policy = ChangelogRetention(retain_min, retain_max, retained, INT_MAX)
    time_ms = {changelog_id: commits[changelog_id - 1] for changelog_id in present}
    latest = present[-1] + snapshots
    chosen = select_changelogs(present, latest, time_ms, policy, consumer, now)
    due = {
        each for each, found in changelogs_due(present, latest, time_ms, policy, consumer).items() if found.is_due(now)
    }
    if chosen is not None:
        assert due == set(chosen.expired)


def test_what_a_snapshot_waits_for() -> None:
    """Counts, ages, the young one before it, a consumer, and a maximum."""
    policy = SnapshotRetention(retain_min=2, retain_max=4, time_retained_ms=100)
    due = snapshots_due([1, 2, 3, 4], {1: 0, 2: 500, 3: 20, 4: 30}, policy, 3)
    assert (due[1].after_ms, due[1].newer, due[1].is_held, due[1].at_once) == (600, 0, False, 1)
    assert (due[2].after_ms, due[2].newer, due[2].at_once) == (600, 0, 2)
    assert (due[3].after_ms, due[3].newer, due[3].is_held) == (600, 1, True)
    assert (due[4].after_ms, due[4].newer, due[4].at_once) == (None, 2, 4)
    assert not due[1].is_due(600)
    assert due[1].is_due(601)


def test_the_newest_changelog_stays() -> None:
    """Whatever the rules: until there is a later one."""
    due = changelogs_due([1, 2], 9, {1: 0, 2: 0}, ChangelogRetention(time_retained_ms=1), None)
    assert due[1].is_due(10)
    assert not due[2].is_due(10**15)
    assert due[2].newer == 1
