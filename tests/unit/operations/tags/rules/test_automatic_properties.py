"""What holds for automatic tags, whatever the commits: they are the engine's, and a pointer never hides one."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.format.values.zone import local_time
from lakesweep.model.policy import AutoTagRules
from lakesweep.model.safety import CLOCK_MARGIN_MS
from lakesweep.operations.tags.rules.automatic import (
    Commit,
    Pointer,
    backfilled,
    beyond_count,
    due_by_clock,
    due_tags,
    next_due_ms,
    next_watermark,
    pointer_of,
)
from lakesweep.operations.tags.rules.periods import period_of, tag_name

MINUTE_MS = 60_000
ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Asia/Shanghai", "America/Los_Angeles")
STARTS = ("2024-03-10T04:00", "2024-11-03T03:00", "2024-04-06T12:00", "2024-10-05T12:00", "2023-12-31T12:00")
PERIODS = (
    (timedelta(hours=1), False),
    (timedelta(hours=2), False),
    (timedelta(days=1), False),
    (timedelta(minutes=15), True),
    (timedelta(hours=7), True),
)


@st.composite
def rules_of(draw: st.DrawFn) -> AutoTagRules:
    period, custom = draw(st.sampled_from(PERIODS))
    return AutoTagRules(
        mode=draw(st.sampled_from(["process-time", "watermark"])),
        zone=ZoneInfo(draw(st.sampled_from(ZONES))),
        period=period,
        is_custom_period=custom,
        formatter=draw(st.sampled_from(["with_dashes", "without_dashes", "without_dashes_and_spaces"])),
        delay=period * draw(st.sampled_from([0.0, 0.0, 0.1, 0.9])),
        completion=draw(st.booleans()),
        max_count=draw(st.none() | st.integers(1, 4)),
    )


@st.composite
def walks(draw: st.DrawFn) -> list[Commit]:
    """Return commits whose times mostly grow; watermarks may be missing."""
    at_ms = int(datetime.fromisoformat(draw(st.sampled_from(STARTS))).replace(tzinfo=UTC).timestamp() * 1000)
    found = []
    for number in range(1, draw(st.integers(1, 12)) + 1):
        at_ms += draw(st.sampled_from([0, 1, MINUTE_MS, 20 * MINUTE_MS, 60 * MINUTE_MS, 700 * MINUTE_MS, -MINUTE_MS]))
        watermark = draw(st.sampled_from([at_ms, at_ms, None, -(1 << 63)]))
        found.append(Commit(number, at_ms, watermark, number, "APPEND"))
    return found


FORMS = {
    (3600, "with_dashes"): "%Y-%m-%d %H",
    (3600, "without_dashes"): "%Y%m%d %H",
    (3600, "without_dashes_and_spaces"): "%Y%m%d%H",
    (86400, "with_dashes"): "%Y-%m-%d",
}


class Engine:
    """The engine's rule in its own words, with a calendar of its own: one object as long as its writer lives."""

    def __init__(self, rules: AutoTagRules) -> None:
        self.rules = rules
        self.seconds = int(rules.period.total_seconds())
        self.form = FORMS.get((self.seconds, rules.formatter), "%Y%m%d")
        if rules.is_custom_period:
            self.form = "%Y%m%d%H%M"
        elif self.seconds == 7200:
            self.form = "%Y-%m-%d %H"
        self.tags: dict[str, int] = {}
        self.next_tag: datetime | None = None

    def commit(self, commit: Commit) -> None:
        epoch_ms = commit.time_ms if self.rules.mode == "process-time" else commit.watermark
        if epoch_ms is None or epoch_ms == -(1 << 63):
            return
        whole = datetime.fromtimestamp(epoch_ms // 1000, UTC).astimezone(self.rules.zone).replace(tzinfo=None)
        local = whole + timedelta(milliseconds=epoch_ms % 1000)
        if self.next_tag is not None and local - self.rules.delay < self.next_tag + self.rules.period:
            return
        number = int((local - datetime(1970, 1, 1)).total_seconds()) // self.seconds
        begin = datetime(1970, 1, 1) + timedelta(seconds=(number - 1) * self.seconds)
        if self.rules.completion and self.next_tag is not None:
            begin = self.next_tag
        self.tags.setdefault(begin.strftime(self.form), commit.id)
        self.next_tag = begin + self.rules.period
        if self.rules.max_count is not None:
            while len(self.tags) > self.rules.max_count:
                del self.tags[min(self.tags, key=lambda name: self.tags[name])]


def one_by_one(rules: AutoTagRules, walked: Sequence[Commit], *, from_tags: bool) -> dict[str, int]:
    """Make tags commit by commit, with the pointer of before or one that the tags tell."""
    tags: dict[str, int] = {}
    pointer = Pointer(1, None)
    for commit in walked:
        due, pointer = due_tags(rules, pointer, [commit], tags)
        tags |= {tag.name: tag.snapshot_id for tag in due}
        for name in beyond_count(rules, tags) if due else ():
            del tags[name]
        if from_tags:
            pointer = pointer_of(rules, tags.items(), 1)
    return tags


@given(rules_of(), walks())
def test_the_engine_makes_the_same_tags(rules: AutoTagRules, walked: list[Commit]) -> None:
    """With the pointer in memory or read from the tags each time, and in one go where no count interferes."""
    engine = Engine(rules)
    for commit in walked:
        engine.commit(commit)
    assert one_by_one(rules, walked, from_tags=False) == engine.tags
    assert one_by_one(rules, walked, from_tags=True) == engine.tags
    due, pointer = due_tags(rules, Pointer(1, None), walked, {})
    tags = {tag.name: tag.snapshot_id for tag in due}
    assert pointer == Pointer(len(walked) + 1, engine.next_tag)
    assert {name: tags[name] for name in tags if name not in beyond_count(rules, tags)} == engine.tags


@given(rules_of(), walks(), st.data())
def test_a_snapshot_never_has_two(rules: AutoTagRules, walked: list[Commit], data: st.DataObject) -> None:
    """Whatever tags exist, however old the pointer is, with the clock and back-filling on top."""
    first, _ = due_tags(rules, Pointer(1, None), walked, {})
    tags = {tag.name: tag.snapshot_id for tag in first if data.draw(st.booleans())}
    pointer = Pointer(data.draw(st.integers(1, 5)), data.draw(st.sampled_from([None, *_periods(rules, tags)])))
    due, pointer = due_tags(rules, pointer, walked, tags)
    assert not {tag.name for tag in due} & tags.keys()
    tags |= {tag.name: tag.snapshot_id for tag in due}
    clock = due_by_clock(rules, pointer, walked[-1], tags, walked[-1].time_ms + data.draw(st.integers(0, 10**9)))
    if clock is not None:
        assert clock.name not in tags
        tags[clock.name] = clock.snapshot_id
    late, _ = backfilled(rules, tags, walked)
    assert not {tag.name for tag in late} & tags.keys()
    tags |= {tag.name: tag.snapshot_id for tag in late}
    assert len(set(tags.values())) == len(tags) == len(set(_periods(rules, tags)))
    assert due_tags(rules, pointer, walked, tags)[0] == (), "again: nothing"
    assert backfilled(rules, tags, walked)[0] == ()


def _periods(rules: AutoTagRules, tags: dict[str, int]) -> list[datetime]:
    found = [period_of(rules, name) for name in tags]
    assert None not in found
    return [begin for begin in found if begin is not None]


@given(rules_of(), st.datetimes(datetime(1980, 1, 1), datetime(2200, 1, 1)))
def test_names_and_periods(rules: AutoTagRules, time: datetime) -> None:
    """A name reads as the period that it was made of, and the order of names is the order of periods."""
    begin = local_time(int(time.replace(tzinfo=UTC).timestamp()) * 1000, UTC)
    seconds = int((begin - datetime(1970, 1, 1)).total_seconds())
    step = int(rules.period.total_seconds())
    begin = datetime(1970, 1, 1) + timedelta(seconds=seconds - seconds % step)
    assert period_of(rules, tag_name(rules, begin)) == begin
    assert tag_name(rules, begin) < tag_name(rules, begin + rules.period)


@given(rules_of(), walks(), st.integers(0, 10**9), st.integers(0, 3 * 3_600_000))
def test_a_pointer_never_hides_a_due_tag(rules: AutoTagRules, walked: list[Commit], skip_ms: int, near_ms: int) -> None:
    """Before the time, or watermark, at which the next tag is due no commit makes one; at it the next does."""
    _, pointer = due_tags(rules, Pointer(1, None), walked, {})
    due = next_due_ms(rules, pointer) if rules.mode == "process-time" else next_watermark(rules, pointer)
    assert due is not None
    number = len(walked) + 1
    if pointer.next_tag is None:
        assert due <= 0
        return
    at_ms = [due - 1, due - 1 - near_ms, due - 1 - skip_ms]
    assert not any(due_tags(rules, pointer, [Commit(number, at, at, 1, "APPEND")], {})[0] for at in at_ms)
    assert len(due_tags(rules, pointer, [Commit(number, due, due, 1, "APPEND")], {})[0]) == 1


@given(rules_of(), walks(), st.integers(0, 10**9))
def test_the_clock_is_a_commit_that_nobody_made(rules: AutoTagRules, walked: list[Commit], later_ms: int) -> None:
    """It names what an empty commit five minutes ago would have, and never before the next tag is due."""
    due, pointer = due_tags(rules, Pointer(1, None), walked, {})
    tags = {tag.name: tag.snapshot_id for tag in due}
    newest, from_ms = walked[-1], next_due_ms(rules, pointer)
    if from_ms is None or pointer.next_tag is None or newest.id in tags.values():
        assert due_by_clock(rules, pointer, newest, tags, newest.time_ms + later_ms) is None
        return
    from_ms += CLOCK_MARGIN_MS
    assert due_by_clock(rules, pointer, newest, tags, from_ms - 1) is None
    clock = due_by_clock(rules, pointer, newest, tags, from_ms + later_ms)
    forced = Commit(newest.id + 1, from_ms + later_ms - CLOCK_MARGIN_MS, None, 1, "APPEND")
    made, _ = due_tags(rules, pointer, [forced], tags)
    assert [tag.name for tag in made] == ([] if clock is None else [clock.name])
