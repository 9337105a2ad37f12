"""Which tags go: times to live, calendar rules as backup tools mean them, and what keeps a tag from both."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from fnmatch import fnmatchcase
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.format.values.zone import local_time, parse_zone
from lakesweep.model.policy import AutoTagRules, KeepRules, TagFacts
from lakesweep.operations.tags.rules.expiry import Verdict, judge_tags, named_period
from lakesweep.operations.tags.rules.periods import period_of

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
NEW_YORK = parse_zone("America/New_York", "zone")
KOLKATA = parse_zone("Asia/Kolkata", "zone")


def ms(text: str) -> int:
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


NOW = ms("2024-06-15T12:00")


def tag(
    name: str,
    committed: str = "2024-06-01",
    snapshot_id: int = 1,
    *,
    created: str | None = None,
    ttl_ms: int | None = None,
    written: str = "2024-06-01",
) -> TagFacts:
    return TagFacts(
        name=name,
        snapshot_id=snapshot_id,
        commit_ms=ms(committed),
        modified_ms=ms(written),
        create_time=None if created is None else datetime.fromisoformat(created),
        time_retained_ns=None if ttl_ms is None else ttl_ms * 1_000_000,
    )


def judge(
    tags: Sequence[TagFacts],
    *keep: KeepRules,
    now: str | int = NOW,
    zone: tzinfo | None = UTC,
    calendar_zone: tzinfo = UTC,
    by_time: bool = True,
    older_than: str | None = None,
    beyond: Sequence[str] = (),
    rules: AutoTagRules | None = None,
) -> Verdict:
    return judge_tags(
        tags,
        now_ms=ms(now) if isinstance(now, str) else now,
        zone=zone,
        calendar_zone=calendar_zone,
        keep=keep,
        by_time=by_time,
        older_than_ms=None if older_than is None else ms(older_than),
        beyond=beyond,
        period_of=None if rules is None else partial(period_of, rules),
    )


# --- times to live ----------------------------------------------------------------------------------------------------

HALF = tag("t", created="2024-06-15T10:00", ttl_ms=500)


@pytest.mark.parametrize(("now", "goes"), [("10:00:00.499", False), ("10:00:00.500", False), ("10:00:00.501", True)])
def test_a_time_to_live_is_over_strictly_after_it(now: str, goes: bool) -> None:
    found = judge([HALF], now=f"2024-06-15T{now}")
    assert (found.going, found.kept) == (({"t": "time_to_live"}, {}) if goes else ({}, {"t": ("time_to_live",)}))
    assert found.next_due_ms == (None if goes else ms("2024-06-15T10:00:00.501"))


def test_the_first_end_is_what_is_due() -> None:
    others = [replace(HALF, name=str(days), time_retained_ns=days * DAY_MS * 1_000_000) for days in (3, 1, 2)]
    found = judge([*others, tag("a", "2024-06-14")], KeepRules("a", within_ms=DAY_MS * 2), now="2024-06-15T11:00")
    assert found.next_due_ms == ms("2024-06-16T00:00:00.001")
    assert judge(others, now="2024-06-15T11:00").next_due_ms == ms("2024-06-16T10:00:00.001")


def test_nanoseconds_are_rounded_up() -> None:
    """A tag never goes early."""
    odd = replace(HALF, time_retained_ns=500_000_001)
    assert judge([odd], now="2024-06-15T10:00:00.500").going == {}
    assert judge([odd], now="2024-06-15T10:00:00.501").going == {"t": "time_to_live"}
    assert judge([odd], now="2024-06-15T10:00:00.500").next_due_ms == ms("2024-06-15T10:00:00.501")


@pytest.mark.parametrize(
    "facts",
    [
        tag("t"),
        tag("t", created="2001-01-01T00:00"),
        tag("t", ttl_ms=1),
    ],
)
def test_tags_without_both_fields_stay(facts: TagFacts) -> None:
    assert judge([facts]) == Verdict({}, {"t": ("no_rule",)}, None, ())


def test_a_pass_that_does_not_go_by_time() -> None:
    """`tag.time-expire-enabled` is false: what is over stays, and what is not over is still protected from rules."""
    over, alive = (
        tag("a", created="2024-06-01T00:00", ttl_ms=1),
        tag("b", created="2024-06-01T00:00", ttl_ms=30 * DAY_MS),
    )
    assert judge([over, alive], by_time=False).kept == {"a": ("no_rule",), "b": ("time_to_live",)}
    found = judge([over, alive, tag("c", "2024-06-10")], KeepRules("?", last=1), by_time=False)
    assert found.going == {"a": "keep_rules"}


@pytest.mark.parametrize(
    ("zone", "last_ms"),
    [
        (UTC, ms("2024-06-15T11:00Z")),
        (NEW_YORK, ms("2024-06-15T15:00Z")),
        (KOLKATA, ms("2024-06-15T05:30Z")),
        (None, ms("2024-06-16T13:00Z")),
    ],
)
def test_the_clock_of_whoever_made_it(zone: tzinfo | None, last_ms: int) -> None:
    """10:00 and an hour, by clocks of the declared zone; nobody knows which one: 26 hours longer."""
    facts = [tag("t", created="2024-06-15T10:00", ttl_ms=HOUR_MS)]
    assert judge(facts, now=last_ms, zone=zone).going == {}
    assert judge(facts, now=last_ms + 1, zone=zone).going == {"t": "time_to_live"}
    assert judge(facts, now=last_ms - DAY_MS, zone=zone).next_due_ms == last_ms + 1


def test_without_a_zone_a_sentence_says_so() -> None:
    facts = [tag("t", created="2024-06-15T10:00", ttl_ms=HOUR_MS), tag("x")]
    (note,) = judge(facts, zone=None).notes
    assert "26 h longer" in note
    assert judge(facts).notes == ()
    assert judge([tag("x")], zone=None).notes == ()


def test_no_zone_on_earth_loses_a_tag_early() -> None:
    """Whatever zone wrote the time, 26 hours cover it."""
    for offset in ("-12:00", "-18:00", "+00:00", "+14:00", "+18:00"):
        made_ms = NOW - DAY_MS
        zone = parse_zone(offset, "zone")
        facts = replace(HALF, create_time=local_time(made_ms, zone), time_retained_ns=HOUR_MS * 1_000_000)
        if offset not in ("-18:00",):  # No clock on earth is there.
            assert judge([facts], now=made_ms + HOUR_MS, zone=None).going == {}


@pytest.mark.parametrize(
    ("now", "goes", "due"),
    [
        # 01:20 by New York's clocks comes twice: at 05:20 and at 06:20 in UTC.
        ("2024-11-03T05:20:00Z", False, "2024-11-03T05:20:00.001Z"),
        ("2024-11-03T05:20:00.001Z", True, None),
        ("2024-11-03T05:59:59Z", True, None),
        ("2024-11-03T06:00:00Z", False, "2024-11-03T06:20:00.001Z"),
        ("2024-11-03T06:20:00Z", False, "2024-11-03T06:20:00.001Z"),
        ("2024-11-03T06:20:00.001Z", True, None),
    ],
)
def test_an_hour_that_is_shown_twice(now: str, goes: bool, due: str | None) -> None:
    """As the engine, it goes by what the clock shows; the next look is never too late."""
    found = judge([tag("t", created="2024-11-03T00:20", ttl_ms=HOUR_MS)], now=now, zone=NEW_YORK)
    assert bool(found.going) == goes
    assert found.next_due_ms == (None if due is None else ms(due))


def test_an_hour_that_is_left_out() -> None:
    """02:20 never comes; at 03:00 it is over."""
    facts = [tag("t", created="2024-03-10T01:20", ttl_ms=HOUR_MS)]
    found = judge(facts, now="2024-03-10T06:59:59.999Z", zone=NEW_YORK)
    assert (found.going, found.next_due_ms) == ({}, ms("2024-03-10T07:00Z"))
    assert judge(facts, now="2024-03-10T07:00Z", zone=NEW_YORK).going == {"t": "time_to_live"}


@pytest.mark.parametrize("ttl_ns", [(1 << 63) * 10**9 - 1, -(1 << 63) * 10**9, 0, -1, 10**30])
def test_absurd_times_to_live(ttl_ns: int) -> None:
    """They end no pass: what would be over after all calendars stays, what was over before it began goes."""
    facts = replace(HALF, time_retained_ns=ttl_ns)
    found = judge([facts])
    assert bool(found.going) == (ttl_ns < 10**15)
    late = replace(facts, create_time=datetime(9999, 12, 31, 23, 59))
    assert judge([late], zone=None).kept or ttl_ns < 0


def test_tags_of_rollbacks_stay() -> None:
    """By no time to live, count, calendar or age; only somebody who names them removes them."""
    name = "rollback-to-as-latest-3"
    facts = [tag(name, created="2001-01-01T00:00", ttl_ms=1), tag("rollback", "2024-06-02")]
    found = judge(facts, KeepRules("*", last=1), beyond=[name])
    assert (found.going, found.kept) == ({}, {name: ("rollback",), "rollback": ("keep_last",)})
    assert found.next_due_ms is None
    assert judge(facts, older_than="2025-01-01").going == {"rollback": "older_than"}


# --- older_than -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "goes"),
    [
        (tag("t", written="2024-06-15T10:59:59.999"), True),
        (tag("t", written="2024-06-15T11:00"), False),
        (tag("t", created="2024-06-15T10:59:59.999", ttl_ms=DAY_MS, written="2024-06-15T12:00"), True),
        (tag("t", created="2024-06-15T11:00", ttl_ms=DAY_MS, written="2001-01-01"), False),
        (tag("t", created="2024-06-15T11:30", written="2024-06-15T10:00"), True),
    ],
)
def test_tags_that_were_made_before_a_time(facts: TagFacts, goes: bool) -> None:
    """By their time of creation; without both fields, by the time at which the document was written."""
    assert judge([facts], older_than="2024-06-15T11:00").going == ({"t": "older_than"} if goes else {})


def test_older_than_without_a_zone_waits_for_all_clocks() -> None:
    facts = [tag("t", created="2024-06-13T10:00", ttl_ms=30 * DAY_MS)]
    assert judge(facts, older_than="2024-06-14T12:00", zone=None).going == {}
    assert judge(facts, older_than="2024-06-14T12:00:00.001", zone=None).going == {"t": "older_than"}
    assert judge(facts, older_than="2024-06-13T10:00:00.001", zone=UTC).going == {"t": "older_than"}
    repeated = [tag("t", created="2024-11-03T01:30", ttl_ms=900 * DAY_MS)]
    assert judge(repeated, older_than="2024-11-03T06:30Z", zone=NEW_YORK).going == {}, "it may be the second 01:30"


def test_a_calendar_rule_is_stronger_than_a_date() -> None:
    assert judge([tag("a"), tag("b", "2024-06-02")], KeepRules("*", last=1), older_than="2024-06-10").going == {
        "a": "older_than"
    }


# --- counts -----------------------------------------------------------------------------------------------------------


def test_tags_beyond_the_count_go() -> None:
    """Also those whose time to live is not over, as by the engine; not those that a calendar rule keeps."""
    alive = tag("b", created="2024-06-15T00:00", ttl_ms=30 * DAY_MS)
    assert judge([tag("a"), alive, tag("c")], beyond=("a", "b", "gone")).going == {"a": "count", "b": "count"}
    found = judge([tag("a"), alive], KeepRules("*", tags=("a", "b")), beyond=("a", "b"))
    assert found.kept == {"a": ("keep_tags",), "b": ("keep_tags", "time_to_live")}


# --- the calendar -----------------------------------------------------------------------------------------------------


def days(*names: str) -> list[TagFacts]:
    """Return daily tags, each made when its day was over."""
    return [tag(name, str(datetime.fromisoformat(name) + timedelta(days=1))) for name in names]


def left(found: Verdict) -> set[str]:
    return set(found.kept)


def test_without_rules_all_stay() -> None:
    assert judge([tag("a"), tag("b")]).kept == {"a": ("no_rule",), "b": ("no_rule",)}


def test_a_tag_that_matches_no_pattern_is_nobodys_business() -> None:
    """The whole name has to match, capitals as they are."""
    facts = [tag(name) for name in ("daily-1", "Daily-2", "x-daily-3", "daily", "daily-4")]
    found = judge(facts, KeepRules("daily-*", last=1))
    assert found.going == {"daily-1": "keep_rules"}
    assert {name for name, why in found.kept.items() if why == ("no_rule",)} == {"Daily-2", "x-daily-3", "daily"}


def test_the_last() -> None:
    facts = days("2024-06-01", "2024-06-02", "2024-06-03")
    assert left(judge(facts, KeepRules("*", last=2))) == {"2024-06-02", "2024-06-03"}
    assert left(judge(facts, KeepRules("*", last=9))) == {"2024-06-01", "2024-06-02", "2024-06-03"}


def test_of_one_time_the_later_snapshot_is_the_newer() -> None:
    facts = [tag("a", snapshot_id=2), tag("b", snapshot_id=1), tag("c", snapshot_id=2)]
    assert left(judge(facts, KeepRules("*", last=1))) == {"c"}
    assert left(judge(facts, KeepRules("*", last=2))) == {"a", "c"}


@pytest.mark.parametrize(("committed", "stays"), [("2024-06-08T12:00", True), ("2024-06-08T11:59:59.999", False)])
def test_those_within_a_span(committed: str, stays: bool) -> None:
    found = judge([tag("t", committed)], KeepRules("*", within_ms=7 * DAY_MS))
    assert found.kept == ({"t": ("keep_within",)} if stays else {})
    assert found.next_due_ms == (NOW + 1 if stays else None)


def test_a_span_begins_when_the_data_ends() -> None:
    """The day 2024-06-08 was committed until its end, so its tag is as young as that commit."""
    assert left(judge(days("2024-06-07", "2024-06-08"), KeepRules("*", within_ms=7 * DAY_MS))) == {"2024-06-08"}
    late = [tag("2024-06-10", "2024-06-01")]
    assert left(judge(late, KeepRules("*", within_ms=7 * DAY_MS))) == {"2024-06-10"}


def test_the_newest_of_each_day() -> None:
    """Days without a tag do not count."""
    facts = [
        tag("a", "2024-06-10T01:00"),
        tag("b", "2024-06-10T23:00"),
        tag("c", "2024-06-12T08:00"),
        tag("d", "2024-05-01T08:00"),
        tag("e", "2024-04-01T08:00"),
    ]
    found = judge(facts, KeepRules("*", daily=3))
    assert found.kept == dict.fromkeys("bcd", ("keep_daily",))
    assert found.going == dict.fromkeys("ae", "keep_rules")


def test_weeks_begin_on_monday() -> None:
    """2024-12-30, a Monday, is of the first week of 2025, and so is 2025-01-05."""
    facts = days("2024-12-28", "2024-12-29", "2024-12-30", "2025-01-05", "2025-01-06")
    found = judge(facts, KeepRules("*", weekly=3), now="2025-02-01")
    assert left(found) == {"2024-12-29", "2025-01-05", "2025-01-06"}


def test_months_and_years() -> None:
    facts = days("2022-12-31", "2023-11-30", "2023-12-30", "2023-12-31", "2024-01-30", "2024-01-31", "2024-02-01")
    assert left(judge(facts, KeepRules("*", monthly=3))) == {"2023-12-31", "2024-01-31", "2024-02-01"}
    assert left(judge(facts, KeepRules("*", yearly=2))) == {"2023-12-31", "2024-02-01"}


def test_the_last_day_of_a_month_is_named_by_its_tag() -> None:
    """`2026-01-31` was made on February 1, and is January's."""
    facts = days("2026-01-30", "2026-01-31", "2026-02-01")
    found = judge(facts, KeepRules("20*", monthly=2), now="2026-02-03")
    assert left(found) == {"2026-01-31", "2026-02-01"}


def test_all_reasons_are_said() -> None:
    facts = [tag("a", "2024-06-15", created="2024-06-15T00:00", ttl_ms=DAY_MS)]
    rule = KeepRules("*", last=1, within_ms=DAY_MS, daily=1, weekly=1, monthly=1, yearly=1, tags=("a",))
    names = ("last", "within", "daily", "weekly", "monthly", "yearly", "tags")
    assert judge(facts, rule, replace(rule, pattern="a")).kept["a"] == (*(f"keep_{n}" for n in names), "time_to_live")


def test_a_rule_that_keeps_is_stronger_than_a_time_to_live() -> None:
    over = tag("a", created="2024-06-01T00:00", ttl_ms=1)
    assert judge([over], KeepRules("*", last=1)).kept == {"a": ("keep_last",)}


def test_a_time_to_live_that_is_not_over_is_stronger_than_a_rule_that_does_not_keep() -> None:
    alive = tag("a", created="2024-06-15T00:00", ttl_ms=DAY_MS)
    found = judge([alive, tag("b", "2024-06-02")], KeepRules("*", last=1))
    assert found.kept == {"a": ("time_to_live",), "b": ("keep_last",)}
    assert found.next_due_ms == ms("2024-06-16T00:00:00.001")


def test_a_tag_of_two_rules_stays_by_one() -> None:
    facts = [tag("a"), tag("ab", "2024-06-02"), tag("b", "2024-06-03")]
    found = judge(facts, KeepRules("a*", last=1), KeepRules("*b", last=1))
    assert (set(found.going), left(found)) == ({"a"}, {"ab", "b"})


def test_patterns_that_keep_hold_within_their_rule() -> None:
    facts = [tag("daily-1-audit"), tag("daily-2"), tag("hourly-1-audit"), tag("hourly-2", "2024-06-02")]
    found = judge(facts, KeepRules("daily-*", tags=("*-audit",)), KeepRules("hourly-*", last=1))
    assert set(found.going) == {"daily-2", "hourly-1-audit"}


def test_the_calendar_has_a_zone() -> None:
    """The evening of the 10th in New York is the 11th in UTC."""
    facts = [tag("a", "2024-06-10T20:00Z"), tag("b", "2024-06-11T02:00Z"), tag("c", "2024-06-11T20:00Z")]
    assert left(judge(facts, KeepRules("*", daily=9))) == {"a", "c"}
    assert left(judge(facts, KeepRules("*", daily=9), calendar_zone=NEW_YORK)) == {"b", "c"}


@pytest.mark.parametrize(
    ("name", "pattern", "day"),
    [
        ("2024-01-31", "*", "2024-01-31"),
        ("20240131", "*", "2024-01-31"),
        ("2024-01-31 13", "*", "2024-01-31T13:00"),
        ("20240131 13", "*", "2024-01-31T13:00"),
        ("2024013113", "*", "2024-01-31T13:00"),
        ("202401311345", "*", "2024-01-31T13:45"),
        ("batch-write-2024-01-31", "*", "2024-01-31"),
        ("daily-2024-01-31", "daily-*", "2024-01-31"),
        ("daily-20240131", "daily-20*", None),
        ("daily-2024-01-31", "*", None),
        ("daily-2024-01-31", "d?ily-*", None),
        ("daily-2024-01-31x", "daily-*", None),
        ("2024-02-30", "*", None),
        ("release-7", "release-*", None),
        ("2024-01-31", "2024-01-31", "2024-01-31"),
    ],
)
def test_the_period_that_a_name_says(name: str, pattern: str, day: str | None) -> None:
    """All of the name, what follows `batch-write-`, or what follows the fixed beginning of the pattern."""
    facts = [tag(name, "2024-06-01T12:00"), tag(pattern.replace("*", "z").replace("?", "z"), "2024-03-01")]
    newer = left(judge(facts, KeepRules(pattern, last=1))) == {name}
    assert newer == (day is None or name == pattern)


def test_the_fixed_beginning_of_a_pattern_ends_at_its_first_sign() -> None:
    facts = [tag("daily-2024-01-31", "2024-06-01"), tag("daily-2z", "2024-03-01")]
    assert left(judge(facts, KeepRules("daily-[0-9]*", last=1))) == {"daily-2z"}


def test_the_tables_own_names_count() -> None:
    """Daily names end at the first blank, by the table's rules alone."""
    rules = AutoTagRules("process-time", UTC)
    facts = [tag("2024-01-31 x"), tag("b", "2024-03-01")]
    assert left(judge(facts, KeepRules("*", last=1))) == {"2024-01-31 x"}
    assert left(judge(facts, KeepRules("*", last=1), rules=rules)) == {"b"}


def test_names_without_a_period() -> None:
    assert named_period("release-7") is None
    assert named_period("2024-01-31") == datetime(2024, 1, 31)


def test_what_is_due_after_all_calendars_is_never_due() -> None:
    """So that no state has to hold it."""
    facts = [replace(tag("a"), commit_ms=(1 << 63) - 1), tag("b")]
    assert judge(facts, KeepRules("*", within_ms=(1 << 63) - 1)).next_due_ms is None
    assert judge(facts, KeepRules("*", within_ms=30 * DAY_MS)).next_due_ms == ms("2024-07-01") + 1


def test_damaged_times_end_nothing() -> None:
    facts = [replace(tag("a"), commit_ms=(1 << 63) - 1), replace(tag("b"), commit_ms=-(1 << 63)), tag("0001-01-01")]
    found = judge(facts, KeepRules("*", last=1, within_ms=DAY_MS, daily=1, weekly=1, monthly=1, yearly=1))
    assert found.kept.keys() | found.going.keys() == {"a", "b", "0001-01-01"}


# --- an independent model ---------------------------------------------------------------------------------------------

COUNTS = st.none() | st.integers(1, 4)
ZONES = st.sampled_from([UTC, NEW_YORK, KOLKATA, parse_zone("Australia/Lord_Howe", "zone")])


@st.composite
def keep_rules(draw: st.DrawFn) -> KeepRules:
    return KeepRules(
        pattern=draw(st.sampled_from(["*", "a*", "?1", "[ab]*"])),
        last=draw(COUNTS),
        within_ms=draw(st.none() | st.integers(1, 40 * DAY_MS)),
        daily=draw(COUNTS),
        weekly=draw(COUNTS),
        monthly=draw(COUNTS),
        yearly=draw(COUNTS),
        tags=tuple(draw(st.lists(st.sampled_from(["a1", "*2"]), max_size=1))),
    )


@st.composite
def some_tags(draw: st.DrawFn) -> list[TagFacts]:
    names = draw(st.lists(st.sampled_from([f"{a}{n}" for a in "abc" for n in range(6)]), unique=True, max_size=12))
    found = []
    for number, name in enumerate(names):
        has_life = draw(st.booleans())
        age_ms = draw(st.integers(0, 3 * DAY_MS) | st.integers(0, 800 * DAY_MS))
        created = datetime(2024, 6, 15, 12) - timedelta(milliseconds=draw(st.integers(0, 60 * DAY_MS)))
        ttl_ns = draw(st.integers(0, 60 * DAY_MS)) * 1_000_000
        found.append(
            TagFacts(
                name, number, NOW - age_ms, NOW - age_ms, created if has_life else None, ttl_ns if has_life else None
            )
        )
    return found


def model(tags: Sequence[TagFacts], rules: Sequence[KeepRules], zone: tzinfo) -> set[str]:
    """Return the tags that calendar rules keep or do not touch: newest first, one for each new bucket."""
    kept = {tag.name for tag in tags if not any(fnmatchcase(tag.name, rule.pattern) for rule in rules)}
    for rule in rules:
        buckets = {"%Y-%m-%d": rule.daily, "%G-%V": rule.weekly, "%Y-%m": rule.monthly, "%Y": rule.yearly}
        room = {form: count or 0 for form, count in buckets.items()}
        seen: dict[str, str] = {}
        last = rule.last or 0
        matching = [tag for tag in tags if fnmatchcase(tag.name, rule.pattern)]
        shown = {tag.name: datetime.fromtimestamp(tag.commit_ms / 1000, UTC).astimezone(zone) for tag in matching}
        # By what clocks show, as a calendar is.
        for each in sorted(matching, key=lambda t: (shown[t.name].replace(tzinfo=None), t.snapshot_id, t.name))[::-1]:
            if last > 0 or any(fnmatchcase(each.name, pattern) for pattern in rule.tags):
                kept.add(each.name)
            last -= 1
            if rule.within_ms is not None and NOW - each.commit_ms <= rule.within_ms:
                kept.add(each.name)
            for form, places in room.items():
                value = shown[each.name].strftime(form)
                if places and seen.get(form) != value:
                    seen[form] = value
                    room[form] -= 1
                    kept.add(each.name)
    return kept


@given(some_tags(), st.lists(keep_rules(), max_size=2), ZONES)
def test_the_calendar_agrees_with_a_model(tags: list[TagFacts], rules: list[KeepRules], zone: tzinfo) -> None:
    """Without times to live."""
    tags = [replace(each, create_time=None) for each in tags]
    found = judge(tags, *rules, calendar_zone=zone)
    assert left(found) == model(tags, rules, zone)
    assert left(found) | found.going.keys() == {each.name for each in tags}
    assert not left(found) & found.going.keys()
    assert all(found.kept.values())


@given(some_tags(), st.lists(keep_rules(), max_size=2), st.booleans())
def test_times_to_live_and_the_calendar(tags: list[TagFacts], rules: list[KeepRules], by_time: bool) -> None:
    """A tag goes when its time is over or the calendar has no place for it, and nothing else keeps it."""
    kept = model(tags, rules, UTC)
    ruled = {each.name for each in tags if any(fnmatchcase(each.name, rule.pattern) for rule in rules)}
    gone = set()
    for each in tags:
        has_life = each.create_time is not None and each.time_retained_ns is not None
        over = has_life and ms(str(each.create_time)) + (each.time_retained_ns or 0) // 1_000_000 < NOW
        if each.name in ruled and each.name in kept:
            continue
        if (over and by_time) or (each.name in ruled and (over or not has_life)):
            gone.add(each.name)
    assert set(judge(tags, *rules, by_time=by_time).going) == gone


MOMENTS = ("2024-06-15T12:00Z", "2024-11-03T05:50Z", "2024-11-03T06:10Z", "2024-03-10T06:50Z", "2024-04-06T15:10Z")


@given(
    some_tags(),
    st.lists(keep_rules(), max_size=2),
    st.none() | ZONES,
    st.sampled_from(MOMENTS),
    st.integers(1, HOUR_MS),
)
def test_nothing_goes_before_it_is_due(
    tags: list[TagFacts], rules: list[KeepRules], zone: tzinfo | None, moment: str, ttl_ms: int
) -> None:
    """A state may sleep until `next_due_ms`: until then nothing goes. Around changes of clocks as well."""
    now_ms = ms(moment)
    made = local_time(now_ms - HOUR_MS // 2, zone or UTC)
    tags = [
        *(replace(each, commit_ms=each.commit_ms + now_ms - NOW) for each in tags),
        replace(HALF, name="a-young", create_time=made, time_retained_ns=ttl_ms * 1_000_000),
    ]
    now = judge(tags, *rules, zone=zone, now=now_ms)
    rest = [each for each in tags if each.name in now.kept]
    due_ms = now.next_due_ms
    assert due_ms is None or due_ms > now_ms
    for later_ms in (now_ms + 10 * 366 * DAY_MS,) if due_ms is None else (due_ms - 1, (now_ms + due_ms) // 2):
        assert judge(rest, *rules, zone=zone, now=later_ms).going == {}


@given(some_tags(), st.lists(keep_rules(), max_size=2))
def test_judging_again_finds_nothing(tags: list[TagFacts], rules: list[KeepRules]) -> None:
    """What is kept is kept without the others as well."""
    rest = [each for each in tags if each.name in judge(tags, *rules).kept]
    assert judge(rest, *rules).going == {}


@given(some_tags(), keep_rules(), st.sampled_from(["last", "daily", "weekly", "monthly", "yearly", "within_ms"]))
def test_a_larger_number_never_removes_more(tags: list[TagFacts], rule: KeepRules, name: str) -> None:
    more = replace(rule, **{name: (getattr(rule, name) or 0) + 1})
    assert judge(tags, more).going.keys() <= judge(tags, rule).going.keys()
