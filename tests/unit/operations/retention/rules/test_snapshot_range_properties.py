"""What holds for every range of snapshots, whatever the table and the policy."""

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.model.policy import INT_MAX, SnapshotRetention
from lakesweep.operations.retention.rules.snapshot_range import SnapshotRange, bounds, select_range


@dataclass(frozen=True)
class Case:
    """Everything a range depends on."""

    time_ms: dict[int, int]
    policy: SnapshotRetention
    consumer: int | None
    now_ms: int

    @property
    def ids(self) -> list[int]:
        return sorted(self.time_ms)

    def select(self) -> SnapshotRange:
        return select_range(self.ids, self.time_ms, self.policy, self.consumer, self.now_ms)

    def expired(self, **policy: int) -> frozenset[int]:
        changed = replace(self, policy=replace(self.policy, **policy))
        return frozenset(changed.select().expired)

    def executed(self) -> "Case":
        """Return the table after its range is gone."""
        gone = self.select().expired
        return replace(self, time_ms={i: at for i, at in self.time_ms.items() if i not in gone})


@st.composite
def policies(draw: st.DrawFn) -> SnapshotRetention:
    """Draw a policy that passes its own check."""
    retain_min = draw(st.integers(1, 12))
    retain_max = draw(st.one_of(st.just(INT_MAX), st.integers(retain_min, 25)))
    policy = SnapshotRetention(retain_min, retain_max, draw(st.integers(0, 40)), draw(st.integers(1, 30)))
    policy.check()
    return policy


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a table, a policy and a moment.

    Ids have holes and clocks run backwards in some. Times are a few milliseconds, so that boundaries are common.
    """
    first, count = draw(st.integers(1, 40)), draw(st.integers(1, 25))
    missing = draw(st.sets(st.integers(first, first + count - 2))) if count > 1 else set()
    ids = [i for i in range(first, first + count) if i not in missing]
    times = draw(st.lists(st.integers(0, 60), min_size=len(ids), max_size=len(ids)))
    times = sorted(times) if draw(st.booleans()) else times
    consumer = draw(st.one_of(st.none(), st.integers(max(first - 3, 1), first + count + 3)))
    return Case(dict(zip(ids, times, strict=True)), draw(policies()), consumer, draw(st.integers(0, 100)))


@given(cases())
def test_the_oldest_go_and_the_newest_never(case: Case) -> None:
    chosen = case.select()
    assert list(chosen.expired) == case.ids[: len(chosen.expired)]
    assert case.ids[-1] not in chosen.expired
    assert all(i < chosen.end_id for i in chosen.expired)
    assert chosen.end_id <= case.ids[len(chosen.expired)]
    assert (chosen.first_id, chosen.latest_id) == (case.ids[0], case.ids[-1])


@given(cases())
def test_everything_goes_or_stays_for_one_reason(case: Case) -> None:
    chosen = case.select()
    assert sum(chosen.kept.values()) + len(chosen.expired) == len(case.ids)
    assert set(chosen.kept) <= {"retain_min", "consumer", "limit", "too_young"}


@given(cases(), st.integers(1, 100))
def test_longer_retention_never_drops_more(case: Case, more_ms: int) -> None:
    assert case.expired(time_retained_ms=case.policy.time_retained_ms + more_ms) <= case.expired()


@given(cases(), st.integers(1, 30))
def test_a_larger_minimum_never_drops_more(case: Case, more: int) -> None:
    retain_min = case.policy.retain_min + more
    retain_max = max(case.policy.retain_max, retain_min)
    assert case.expired(retain_min=retain_min, retain_max=retain_max) <= case.expired(retain_max=retain_max)


@given(cases(), st.integers(1, 30))
def test_a_larger_maximum_never_drops_more(case: Case, more: int) -> None:
    assert case.expired(retain_max=case.policy.retain_max + more) <= case.expired()


@given(cases(), st.integers(1, 30))
def test_a_smaller_limit_never_drops_more(case: Case, limit: int) -> None:
    smaller, larger = sorted((limit, case.policy.limit))
    assert case.expired(limit=smaller) <= case.expired(limit=larger)


@given(cases(), st.integers(1, 100))
def test_what_may_go_now_may_go_later(case: Case, later_ms: int) -> None:
    later = replace(case, now_ms=case.now_ms + later_ms)
    assert case.expired() <= later.expired()


@given(cases())
def test_a_consumer_keeps_what_it_has_not_read(case: Case) -> None:
    expired = case.expired()
    assert expired <= replace(case, consumer=None).expired()
    if case.consumer is not None:
        assert all(i < case.consumer for i in expired)


@given(cases())
def test_the_minimum_and_the_limit_hold(case: Case) -> None:
    expired, policy = case.expired(), case.policy
    assert all(i <= case.ids[-1] - policy.retain_min for i in expired)
    assert all(i < case.ids[0] + policy.limit for i in expired)


@given(cases())
def test_below_the_ceiling_only_the_old_go(case: Case) -> None:
    """Whoever goes by age was replaced before the cutoff, by the next snapshot that exists."""
    expired, cutoff_ms = case.expired(), case.now_ms - case.policy.time_retained_ms
    for i, successor in pairwise(case.ids):
        if i in expired and i > case.ids[-1] - case.policy.retain_max:
            assert case.time_ms[successor] < cutoff_ms


@given(cases())
def test_times_outside_the_bounds_are_not_asked_for(case: Case) -> None:
    limits = bounds(case.ids, case.policy, case.consumer)
    asked = {
        snapshot_id: case.time_ms[snapshot_id]
        for pair in pairwise(case.ids)
        for snapshot_id in pair
        if limits.age_from_id <= pair[0] < limits.hard_end_id
    }
    assert case.select() == select_range(case.ids, asked, case.policy, case.consumer, case.now_ms)


@given(cases())
def test_planning_again_without_a_limit_finds_nothing(case: Case) -> None:
    unlimited = replace(case, policy=replace(case.policy, limit=INT_MAX))
    assert unlimited.executed().select().expired == ()


@given(cases())
def test_many_limited_runs_end_where_one_unlimited_run_ends(case: Case) -> None:
    unlimited = replace(case, policy=replace(case.policy, limit=INT_MAX))
    while (after := case.executed()).ids != case.ids:
        case = after
    assert case.ids == unlimited.executed().ids
