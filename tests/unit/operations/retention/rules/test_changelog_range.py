"""Which changelogs go: cases of decoupled changelogs, and what holds for every range."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.model.policy import INT_MAX, ChangelogRetention
from lakesweep.operations.retention.rules.changelog_range import changelog_bounds, select_changelogs

UNBOUNDED = ChangelogRetention(retain_min=1, retain_max=3)
"""At most three, snapshots included; age drops none."""


def going(
    ids: Sequence[int],
    policy: ChangelogRetention = UNBOUNDED,
    *,
    latest: int = 10,
    consumer: int | None = None,
    times: Mapping[int, int] | None = None,
    now_ms: int = 0,
) -> list[int]:
    """Return the ids that go; without times each was committed at its own number."""
    chosen = select_changelogs(ids, latest, times or {i: i for i in ids}, policy, consumer, now_ms)
    return list(chosen.expired) if chosen else []


def test_the_count_includes_snapshots() -> None:
    """The row: snapshots 9 and 10, changelogs 1 to 8, three at most: 8 stays."""
    chosen = select_changelogs(range(1, 9), 10, {}, UNBOUNDED, None, 0)
    assert chosen is not None
    assert (chosen.first_id, chosen.end_id, chosen.expired) == (1, 8, (1, 2, 3, 4, 5, 6, 7))


def test_the_second_run_finds_nothing() -> None:
    assert going([8]) == []


def test_a_hole_in_the_middle_is_skipped() -> None:
    assert going([1, 2, 5, 6, 7, 8]) == [1, 2, 5, 6, 7]


def test_a_hole_exactly_at_the_end_stops_everything() -> None:
    """The end would be 8, and there is no changelog 8."""
    assert going([1, 2, 3, 9], ChangelogRetention(retain_min=3, retain_max=3), latest=11) == [1, 2, 3]
    assert going([1, 2, 3, 9], ChangelogRetention(retain_min=4, retain_max=4), latest=11) == []


def test_a_hole_at_the_end_is_passed_where_age_finds_the_next_one() -> None:
    """Age looks at changelogs that exist, so a hole cannot be its end."""
    policy = ChangelogRetention(time_retained_ms=10)
    assert going([1, 2, 4, 5], policy, latest=6, now_ms=13, times={1: 1, 2: 2, 4: 3, 5: 9}) == [1, 2]


def test_a_consumer_holds_back_from_its_next_id_on() -> None:
    """The row: a consumer at 3, snapshot 10 alone, changelogs 1 to 9."""
    assert going(range(1, 10), consumer=3) == [1, 2]
    assert going(range(3, 10), consumer=3) == []
    assert going(range(4, 10), consumer=3) == []
    assert going(range(1, 10), consumer=99) == [1, 2, 3, 4, 5, 6, 7]


def test_the_limit_counts_ids_from_the_oldest() -> None:
    assert going(range(1, 9), replace(UNBOUNDED, limit=3)) == [1, 2, 3]
    assert going([1, 3, 4, 5, 6, 7, 8], replace(UNBOUNDED, limit=3)) == [1, 3]
    assert going([1, 3, 5, 6, 7, 8], replace(UNBOUNDED, limit=3)) == [], "a hole exactly at the end"


def test_the_minimum_keeps_whatever_its_age() -> None:
    old = ChangelogRetention(retain_min=6, time_retained_ms=0)
    assert going(range(1, 9), old, now_ms=1000) == [1, 2, 3, 4]


@pytest.mark.parametrize("retain_min", [10, 11, 1000])
def test_a_minimum_beyond_the_oldest_does_nothing(retain_min: int) -> None:
    """10 snapshots and changelogs in all: nothing is beyond so many."""
    assert going(range(1, 9), ChangelogRetention(retain_min=retain_min, time_retained_ms=0), now_ms=1000) == []


def test_the_newest_changelog_stays_however_old() -> None:
    assert going(range(1, 9), ChangelogRetention(time_retained_ms=0), latest=100, now_ms=1000) == [1, 2, 3, 4, 5, 6, 7]
    assert going([5], ChangelogRetention(retain_max=1), latest=100) == []


def test_age_is_that_of_the_changelog_itself() -> None:
    """Strictly older goes; the one that is exactly as old as the retention stays."""
    policy = ChangelogRetention(time_retained_ms=100)
    times = {1: 0, 2: 10, 3: 20, 4: 30}
    assert going(range(1, 5), policy, times=times, now_ms=110) == [1]
    assert going(range(1, 5), policy, times=times, now_ms=111) == [1, 2]


def test_a_young_changelog_shields_all_after_it() -> None:
    policy = ChangelogRetention(time_retained_ms=100)
    assert going(range(1, 5), policy, times={1: 0, 2: 990, 3: 0, 4: 0}, now_ms=1000) == [1]


def test_beyond_the_maximum_age_plays_no_part() -> None:
    policy = ChangelogRetention(retain_max=5, time_retained_ms=100)
    young = dict.fromkeys(range(1, 9), 1000)
    assert going(range(1, 9), policy, times=young, now_ms=1000) == [1, 2, 3, 4, 5]


@dataclass(frozen=True)
class Case:
    """Everything a range depends on."""

    time_ms: dict[int, int]
    latest: int
    policy: ChangelogRetention
    consumer: int | None
    now_ms: int

    @property
    def ids(self) -> list[int]:
        return sorted(self.time_ms)

    def expired(self, **policy: int | None) -> frozenset[int]:
        rules = replace(self.policy, **policy)  # type: ignore[arg-type]
        chosen = select_changelogs(self.ids, self.latest, self.time_ms, rules, self.consumer, self.now_ms)
        return frozenset(chosen.expired) if chosen else frozenset()


@st.composite
def cases(draw: st.DrawFn, holes: bool = True) -> Case:
    first, count = draw(st.integers(1, 30)), draw(st.integers(1, 20))
    ids = set(range(first, first + count))
    if holes and count > 1:
        ids -= draw(st.sets(st.integers(first, first + count - 2)))
    retain_min = draw(st.integers(1, 12))
    policy = ChangelogRetention(
        retain_min,
        draw(st.just(INT_MAX) | st.integers(retain_min, 25)),
        draw(st.none() | st.integers(0, 40)),
        draw(st.just(INT_MAX) | st.integers(1, 30)),
    )
    return Case(
        time_ms={i: draw(st.integers(0, 60)) for i in sorted(ids)},
        latest=first + count - 1 + draw(st.integers(0, 15)),
        policy=policy,
        consumer=draw(st.none() | st.integers(max(1, first - 3), first + count + 3)),
        now_ms=draw(st.integers(0, 100)),
    )


@given(cases())
def test_the_oldest_go_and_the_newest_always_stays(case: Case) -> None:
    expired = case.expired()
    assert expired == frozenset(case.ids[: len(expired)])
    assert case.ids[-1] not in expired


@given(cases())
def test_counts_consumers_and_the_limit_hold(case: Case) -> None:
    for changelog_id in case.expired():
        assert changelog_id <= case.latest - case.policy.retain_min
        assert case.consumer is None or changelog_id < case.consumer
        assert changelog_id < case.ids[0] + case.policy.limit


@given(cases())
def test_only_the_old_go_within_the_maximum(case: Case) -> None:
    for changelog_id in case.expired():
        if changelog_id > case.latest - case.policy.retain_max:
            assert case.policy.time_retained_ms is not None
            assert case.time_ms[changelog_id] < case.now_ms - case.policy.time_retained_ms


@given(cases(), st.integers(1, 100))
def test_longer_retention_never_drops_more(case: Case, more_ms: int) -> None:
    if case.policy.time_retained_ms is not None:
        longer = case.policy.time_retained_ms + more_ms
        assert case.expired(time_retained_ms=longer) <= case.expired() or _stalls(case)
        assert case.expired(time_retained_ms=None) <= case.expired() or _stalls(case)


@given(cases(holes=False), st.integers(1, 30))
def test_a_larger_minimum_or_maximum_and_a_smaller_limit_never_drop_more(case: Case, more: int) -> None:
    least = case.policy.retain_min + more
    most = max(case.policy.retain_max, least)
    assert case.expired(retain_min=least, retain_max=most) <= case.expired(retain_max=most)
    assert case.expired(retain_max=case.policy.retain_max + more) <= case.expired()
    smaller, larger = sorted((more, case.policy.limit))
    assert case.expired(limit=smaller) <= case.expired(limit=larger)


@given(cases())
def test_times_outside_the_bounds_are_not_asked_for(case: Case) -> None:
    limits = changelog_bounds(case.ids, case.latest, case.policy, case.consumer)
    asked = {i: at for i, at in case.time_ms.items() if limits.age_from_id <= i <= limits.hard_end_id}
    arguments = (case.policy, case.consumer, case.now_ms)
    assert select_changelogs(case.ids, case.latest, asked, *arguments) == select_changelogs(
        case.ids, case.latest, case.time_ms, *arguments
    )


def _stalls(case: Case) -> bool:
    """Tell whether the shorter retention drops nothing only because its end is a hole, as in the engine."""
    limits = changelog_bounds(case.ids, case.latest, case.policy, case.consumer)
    return limits.hard_end_id not in case.time_ms
