"""Automatic tags: every rule of the engine by table, its clocks, and what we do beyond it."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.format.values.zone import parse_zone
from lakesweep.model.policy import AutoTagMode, AutoTagRules, Formatter
from lakesweep.model.safety import CLOCK_MARGIN_MS
from lakesweep.operations.tags.rules.automatic import (
    BATCH_IDENTIFIER,
    Commit,
    DueTag,
    Pointer,
    backfilled,
    batch_tag,
    beyond_count,
    due_by_clock,
    due_tags,
    next_due_ms,
    next_watermark,
    pointer_of,
)
from lakesweep.operations.tags.rules.periods import period_of, tag_name

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NO_WATERMARK = -(1 << 63)


def rules(
    mode: AutoTagMode = "process-time",
    zone: str = "UTC",
    period: timedelta = HOUR,
    formatter: Formatter = "with_dashes",
    *,
    custom: bool = False,
    delay: timedelta = timedelta(0),
    completion: bool = False,
    max_count: int | None = None,
    batch_name: str | None = None,
) -> AutoTagRules:
    return AutoTagRules(
        mode=mode,
        zone=parse_zone(zone, "zone"),
        period=period,
        is_custom_period=custom,
        formatter=formatter,
        delay=delay,
        completion=completion,
        max_count=max_count,
        batch_name=batch_name,
    )


HOURLY = rules()
DAILY = rules(period=DAY)


def ms(text: str) -> int:
    """Return the instant of a time, of one without a zone in UTC."""
    time = datetime.fromisoformat(text)
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def commit(number: int, at: str, watermark: int | None = None) -> Commit:
    return Commit(number, ms(at), watermark, number, "APPEND")


def commits(*times: str, day: str = "2023-07-18", first: int = 1) -> list[Commit]:
    return [commit(first + index, f"{day}T{time}") for index, time in enumerate(times)]


def names(found: Iterable[DueTag]) -> list[str]:
    return [tag.name for tag in found]


def tag_all(rule: AutoTagRules, walked: Iterable[Commit], tags: Mapping[str, int] | None = None) -> dict[str, int]:
    """Commit one snapshot after the other, as the engine does: tags are made, then those beyond the count go."""
    now = dict(tags or {})
    pointer = pointer_of(rule, now.items(), 1)
    for each in walked:
        due, pointer = due_tags(rule, pointer, [each], now)
        now |= {tag.name: tag.snapshot_id for tag in due}
        if due:
            for name in beyond_count(rule, now):
                del now[name]
    return now


# --- names of periods -------------------------------------------------------------------------------------------------

TABLE = (
    "2023-07-18T12:00:00 UTC 2023-07-17 2023-07-18_11 2023-07-18_10 202307181145 202307172300",
    "2023-07-18T12:00:00 Asia/Shanghai 2023-07-17 2023-07-18_19 2023-07-18_18 202307181945 202307181300",
    "2023-07-18T12:00:00 America/Los_Angeles 2023-07-17 2023-07-18_04 2023-07-18_02 202307180445 202307171600",
    "2023-07-18T12:00:00 Asia/Kolkata 2023-07-17 2023-07-18_16 2023-07-18_14 202307181715 202307180600",
    "2023-07-18T00:00:00 UTC 2023-07-17 2023-07-17_23 2023-07-17_22 202307172345 202307171600",
    "2023-07-18T00:00:00 America/Los_Angeles 2023-07-16 2023-07-17_16 2023-07-17_14 202307171645 202307170900",
    "2023-07-17T15:59:59.999 Asia/Shanghai 2023-07-16 2023-07-17_22 2023-07-17_20 202307172330 202307171600",
    "2023-07-17T16:00:00 Asia/Shanghai 2023-07-17 2023-07-17_23 2023-07-17_22 202307172345 202307171600",
    "2024-03-10T07:00:00 America/New_York 2024-03-09 2024-03-10_02 2024-03-10_00 202403100245 202403091500",
    # Printed by Java for zones with half hours.
    "2024-04-06T15:00:00 Australia/Lord_Howe 2024-04-06 2024-04-07_00 2024-04-06_22 202404070115 202404061500",
    "2024-10-05T15:30:00 Australia/Lord_Howe 2024-10-05 2024-10-06_01 2024-10-06_00 202410060215 202410051500",
)
"""Instant in UTC, zone, and the names: daily, hourly, two hours, 15 minutes, 7 hours. `_` is a blank."""
PERIODS = ((DAY, False), (HOUR, False), (2 * HOUR, False), (timedelta(minutes=15), True), (7 * HOUR, True))


@pytest.mark.parametrize("row", TABLE)
@pytest.mark.parametrize("mode", ["process-time", "watermark"])
def test_the_first_tag_by_period_and_zone(row: str, mode: AutoTagMode) -> None:
    """Every cell, by the commit time and by the watermark."""
    at, zone, *expected = row.split(" ")
    other = ms("2001-01-01")
    time, watermark = (ms(at), other) if mode == "process-time" else (other, ms(at))
    found = []
    for period, custom in PERIODS:
        rule = rules(mode, zone, period, custom=custom)
        due, pointer = due_tags(rule, Pointer(1, None), [Commit(1, time, watermark, 1, "APPEND")], {})
        found += names(due)
        begin = period_of(rule, due[0].name)
        assert begin is not None
        assert pointer == Pointer(2, begin + period)
        assert due[0] == DueTag(due[0].name, 1, mode)
    assert found == [name.replace("_", " ") for name in expected]


@pytest.mark.parametrize(
    ("period", "custom", "formatter", "name"),
    [
        (DAY, False, "with_dashes", "2023-07-18"),
        (DAY, False, "without_dashes", "20230718"),
        (DAY, False, "without_dashes_and_spaces", "20230718"),
        (HOUR, False, "with_dashes", "2023-07-18 06"),
        (HOUR, False, "without_dashes", "20230718 06"),
        (HOUR, False, "without_dashes_and_spaces", "2023071806"),
        (2 * HOUR, False, "with_dashes", "2023-07-18 06"),
        (2 * HOUR, False, "without_dashes", "2023-07-18 06"),
        (2 * HOUR, False, "without_dashes_and_spaces", "2023-07-18 06"),
        (DAY, True, "with_dashes", "202307180605"),
        (HOUR, True, "without_dashes", "202307180605"),
        (2 * HOUR, True, "without_dashes_and_spaces", "202307180605"),
    ],
)
def test_formats(period: timedelta, custom: bool, formatter: Formatter, name: str) -> None:
    rule = rules(period=period, custom=custom, formatter=formatter)
    begin = datetime(2023, 7, 18, 6, 5)
    assert tag_name(rule, begin) == name
    expected = begin if custom else begin.replace(minute=0, hour=0 if period == DAY else 6)
    assert period_of(rule, name) == expected


def test_years_have_four_digits() -> None:
    assert tag_name(DAILY, datetime(33, 4, 3)) == "0033-04-03"


@pytest.mark.parametrize(
    ("name", "daily", "hourly"),
    [
        ("2023-07-18", datetime(2023, 7, 18), None),
        ("2023-07-18 11", datetime(2023, 7, 18), datetime(2023, 7, 18, 11)),
        ("2023-07-18 11 x", datetime(2023, 7, 18), None),
        ("2023-07-18 ", datetime(2023, 7, 18), None),
        (" 2023-07-18", None, None),
        ("2023-07-18  11", datetime(2023, 7, 18), None),
        ("2023-07-18\u00a011", None, None),
        ("2023-02-29", None, None),
        ("2024-02-29", datetime(2024, 2, 29), None),
        ("2023-13-01", None, None),
        ("2023-7-18", None, None),
        ("2023-07-18 24", datetime(2023, 7, 18), None),
        ("12023-07-18", None, None),
        ("\uff12\uff10\uff12\uff13-07-18", None, None),
        ("+2023-07-18", None, None),
        ("20230718", None, None),
        ("2023-07-18\n", None, None),
        ("", None, None),
        (" ", None, None),
        ("daily-2023-07-18", None, None),
    ],
)
def test_which_names_are_automatic(name: str, daily: datetime | None, hourly: datetime | None) -> None:
    """Strictly by the calendar, as Java answers. Daily names end at the first blank, so hourly tags are daily, too."""
    assert (period_of(DAILY, name), period_of(HOURLY, name)) == (daily, hourly)


@pytest.mark.parametrize("name", ["2023-07-18", "2023071811", "20230718 11"])
def test_names_of_other_formats_are_invisible(name: str) -> None:
    assert period_of(rules(formatter="without_dashes"), "20230718 11") == datetime(2023, 7, 18, 11)
    assert period_of(rules(period=DAY, formatter="without_dashes"), "20230718") == datetime(2023, 7, 18)
    assert period_of(HOURLY, name) is None


# --- the pointer ------------------------------------------------------------------------------------------------------


def test_without_tags_the_earliest_snapshot_is_next() -> None:
    assert pointer_of(HOURLY, [], 5) == Pointer(5, None)
    assert pointer_of(HOURLY, [], None) == Pointer(1, None)
    assert pointer_of(HOURLY, [("manual", 9), ("2023-07-18", 8)], 5) == Pointer(5, None)


def test_the_greatest_period_is_where_it_goes_on() -> None:
    """By the period, not by the snapshot, and not by the order of names."""
    tags = [("2023-07-18 11", 9), ("2023-07-18 13", 7), ("2023-07-18 12", 11), ("zzz", 40)]
    assert pointer_of(HOURLY, tags, 5) == Pointer(8, datetime(2023, 7, 18, 14))
    assert pointer_of(DAILY, tags, 5) == Pointer(12, datetime(2023, 7, 19)), "hourly names are daily ones"


def test_another_period_begins_anew() -> None:
    assert pointer_of(rules(period=HOUR, custom=True), [("2023-07-18 11", 9)], 5) == Pointer(5, None)


def test_names_of_years_without_room_are_nobodys_period() -> None:
    """`9999-12-31` parses; an end after it is no date."""
    assert pointer_of(DAILY, [("9999-12-31", 9), ("0001-01-01", 3)], 5) == Pointer(5, None)


# --- the walk ---------------------------------------------------------------------------------------------------------

ROWS = (
    ("default", {}, ("12:12", "12:59", "13:00"), [{"11"}, {"11"}, {"11", "12"}]),
    ("max 3", {"max_count": 3}, ("12:12", "12:59", "13:00", "14:00", "15:00"),
     [{"11"}, {"11"}, {"11", "12"}, {"11", "12", "13"}, {"12", "13", "14"}]),
    ("delay", {"delay": timedelta(seconds=10)}, ("12:00:09", "13:00:09", "13:00:10"), [{"11"}, {"11"}, {"11", "12"}]),
    ("delay, gap", {"delay": timedelta(seconds=10)}, ("12:00:09", "14:00:05"), [{"11"}, {"11", "13"}]),
    ("completion", {"completion": True}, ("16:12", "18:05", "18:10"), [{"15"}, {"15", "16"}, {"15", "16", "17"}]),
    ("delay, gap, completion", {"delay": timedelta(seconds=10), "completion": True},
     ("12:00:09", "14:00:05", "14:00:10"), [{"11"}, {"11", "12"}, {"11", "12", "13"}]),
    ("no completion", {}, ("12:12", "14:00"), [{"11"}, {"11", "13"}]),
    ("two hours", {"period": 2 * HOUR}, ("12:00:01", "13:00:01", "14:00:09"), [{"10"}, {"10"}, {"10", "12"}]),
)  # fmt: skip


@pytest.mark.parametrize(("settings", "times", "after"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
@pytest.mark.parametrize("mode", ["process-time", "watermark"])
def test_tags_after_each_commit(
    settings: dict[str, object], times: tuple[str, ...], after: list[set[str]], mode: AutoTagMode
) -> None:
    """By commit times, and by watermarks whatever the commit times are."""
    rule = rules(mode, **settings)  # type: ignore[arg-type]
    walked = [Commit(c.id, c.time_ms, None, 1, "APPEND") for c in commits(*times)]
    if mode == "watermark":
        walked = [Commit(c.id, 5 - c.id, c.time_ms, 1, "APPEND") for c in walked]
    for count, expected in enumerate(after, 1):
        assert set(tag_all(rule, walked[:count])) == {f"2023-07-18 {hour}" for hour in expected}


@pytest.mark.parametrize("watermark", [None, NO_WATERMARK])
def test_snapshots_without_a_watermark_are_passed_over(watermark: int | None) -> None:
    rule = rules("watermark")
    due, pointer = due_tags(rule, Pointer(4, None), [commit(4, "2023-07-18T12:00", watermark)], {})
    assert (due, pointer) == ((), Pointer(5, None))
    due, _ = due_tags(rule, pointer, [commit(5, "2001-01-01", ms("2023-07-18T12:00"))], {})
    assert names(due) == ["2023-07-18 11"]


def test_a_manual_tag_of_automatic_shape_is_an_automatic_tag() -> None:
    """`2023-07-18` on the snapshot of `2023-07-17`: the engine refuses to make it, and so must we."""
    due, _ = due_tags(DAILY, Pointer(1, None), commits("12:00:01"), {})
    assert names(due) == ["2023-07-17"]
    assert period_of(DAILY, "2023-07-18") is not None


def test_manual_tags_neither_count_nor_go() -> None:
    rule = rules(max_count=3)
    found = tag_all(rule, commits("12:12", "13:00", "14:00", "15:00"), {"manual": 1, "2023-07-18": 1})
    assert set(found) == {"manual", "2023-07-18", "2023-07-18 12", "2023-07-18 13", "2023-07-18 14"}


def test_the_walk_begins_at_the_pointer() -> None:
    """Earlier snapshots are passed over; after a hole it goes on with what is there."""
    walked = [*commits("12:10", "13:10"), *commits("15:20", first=7)]
    due, pointer = due_tags(HOURLY, Pointer(2, datetime(2023, 7, 18, 11)), walked, {})
    assert due == (DueTag("2023-07-18 12", 2, "process-time"), DueTag("2023-07-18 14", 7, "process-time"))
    assert pointer == Pointer(8, datetime(2023, 7, 18, 15))
    assert due_tags(HOURLY, pointer, [], {}) == ((), pointer)


def test_each_snapshot_makes_one_tag_at_most() -> None:
    """Also with completion, where many periods wait."""
    rule = rules(completion=True)
    walked = commits("12:00", "20:00", "20:00:01", "20:00:02")
    due, pointer = due_tags(rule, Pointer(1, None), walked, {})
    assert [(tag.name[-2:], tag.snapshot_id) for tag in due] == [("11", 1), ("12", 2), ("13", 3), ("14", 4)]
    assert pointer.next_tag == datetime(2023, 7, 18, 15)


def test_the_first_tag_waits_for_no_delay() -> None:
    rule = rules(delay=timedelta(minutes=59))
    assert names(due_tags(rule, Pointer(1, None), commits("12:00"), {})[0]) == ["2023-07-18 11"]
    pointer = Pointer(1, datetime(2023, 7, 18, 11))
    assert due_tags(rule, pointer, commits("12:58:59.999"), {})[0] == ()
    assert names(due_tags(rule, pointer, commits("12:59"), {})[0]) == ["2023-07-18 11"]


@pytest.mark.parametrize(("at", "due"), [("12:59:59.999", []), ("13:00:00", ["2023-07-18 12"])])
def test_a_period_is_over_at_its_end(at: str, due: list[str]) -> None:
    assert names(due_tags(HOURLY, Pointer(1, datetime(2023, 7, 18, 12)), commits(at), {})[0]) == due


def test_a_name_that_exists_is_left_and_its_period_is_done() -> None:
    """On whichever snapshot it is."""
    for owner in (1, 99):
        due, pointer = due_tags(HOURLY, Pointer(1, None), commits("12:12", "12:30"), {"2023-07-18 11": owner})
        assert (due, pointer.next_tag) == ((), datetime(2023, 7, 18, 12))


def test_a_snapshot_that_has_an_automatic_tag_gets_no_second_one() -> None:
    """The engine's commit fails there. It happens when the pointer is older than a tag."""
    due, pointer = due_tags(HOURLY, Pointer(1, datetime(2023, 7, 18, 9)), commits("12:12"), {"2023-07-18 10": 1})
    assert (due, pointer) == ((), Pointer(2, datetime(2023, 7, 18, 11)))
    two = {"2023-07-18 10": 1, "2023-07-18 09": 1}
    assert due_tags(HOURLY, Pointer(1, datetime(2023, 7, 18, 9)), commits("12:12"), two) == (due, pointer)
    due, pointer = due_tags(HOURLY, Pointer(1, datetime(2023, 7, 18, 9)), commits("12:12"), {"2023-07-18 02": 1})
    assert (due, pointer) == ((), Pointer(2, datetime(2023, 7, 18, 9))), "the pointer never goes back"


def test_clocks_of_before_1970() -> None:
    """Java divides towards zero. A watermark may begin at 0, which is 1969 in America."""
    for zone, name in (("UTC", "1969-12-31"), ("America/Los_Angeles", "1969-12-31"), ("Asia/Kolkata", "1969-12-31")):
        rule = rules("watermark", zone, DAY)
        assert names(due_tags(rule, Pointer(1, None), [commit(1, "2020-01-01", 0)], {})[0]) == [name]
    rule = rules("watermark", "America/Los_Angeles", HOUR)
    assert names(due_tags(rule, Pointer(1, None), [commit(1, "2020-01-01", 0)], {})[0]) == ["1969-12-31 15"]


@pytest.mark.parametrize(
    ("period_us", "begin_us"),
    [(1_000, 4_000), (3_000, 0), (1_500, 3_500), (7_000, -2_000)],
)
def test_periods_of_milliseconds(period_us: int, begin_us: int) -> None:
    """As Java counts: in whole milliseconds of the period, and back by all of it. Names hold minutes only."""
    rule = rules(period=timedelta(microseconds=period_us), custom=True)
    _, pointer = due_tags(rule, Pointer(1, None), commits("12:00:00.005"), {})
    assert pointer.next_tag == datetime(2023, 7, 18, 12) + timedelta(microseconds=begin_us + period_us)


@pytest.mark.parametrize("at", [-(1 << 63) + 1, (1 << 63) - 1, -(10**16), 10**16, 253_402_300_799_999])
def test_times_of_no_calendar_make_no_tag(at: int) -> None:
    """A damaged time does not stop the walk, and names no tag."""
    for mode in ("process-time", "watermark"):
        rule = rules(mode)  # type: ignore[arg-type]
        walked = [
            Commit(1, at, at, 1, "APPEND"),
            Commit(2, ms("2023-07-18T12:00"), ms("2023-07-18T12:00"), 1, "APPEND"),
        ]
        due, pointer = due_tags(rule, Pointer(1, None), walked, {})
        assert (names(due), pointer.next_snapshot) == (["2023-07-18 11"], 3)


# --- daylight saving time ---------------------------------------------------------------------------------------------


def every_ten_minutes(first: str, hours: int) -> list[Commit]:
    return [Commit(n + 1, ms(first) + n * 600_000, None, 1, "APPEND") for n in range(hours * 6)]


@pytest.mark.parametrize(
    ("zone", "first", "hours", "expected"),
    [
        # Spring: at 02:00 it is 03:00. The hour 01 gets no tag, 02 is one that no clock showed.
        ("America/New_York", "2024-03-10T05:00Z", 5, ["09 23", "10 00", "10 02", "10 03", "10 04"]),
        # Autumn: 01:xx comes twice and is one period of two hours.
        ("America/New_York", "2024-11-03T04:00Z", 6, ["02 23", "03 00", "03 01", "03 02", "03 03"]),
        # Lord Howe, October: 02:00 becomes 02:30, so the hour 02 has half an hour.
        ("Australia/Lord_Howe", "2024-10-05T13:30Z", 5, ["05 23", "06 00", "06 01", "06 02", "06 03", "06 04"]),
        # Lord Howe, April: 02:00 becomes 01:30, so the hour 01 has an hour and a half.
        ("Australia/Lord_Howe", "2024-04-06T13:00Z", 5, ["06 23", "07 00", "07 01", "07 02", "07 03"]),
        ("Asia/Kolkata", "2024-03-10T05:00Z", 3, ["10 09", "10 10", "10 11", "10 12"]),
    ],
)
def test_hours_around_a_change_of_clocks(zone: str, first: str, hours: int, expected: list[str]) -> None:
    due, _ = due_tags(rules(zone=zone), Pointer(1, None), every_ten_minutes(first, hours), {})
    assert [tag.name[8:] for tag in due] == expected


def test_when_new_york_gets_its_tags() -> None:
    """Local 02:00 is first reached at 03:00, and in autumn the tag of 01 is made when both are over."""
    due, _ = due_tags(rules(zone="America/New_York"), Pointer(1, None), every_ten_minutes("2024-03-10T05:00Z", 5), {})
    at = {tag.name: ms("2024-03-10T05:00Z") + (tag.snapshot_id - 1) * 600_000 for tag in due}
    assert at["2024-03-10 02"] == ms("2024-03-10T07:00Z")
    due, _ = due_tags(rules(zone="America/New_York"), Pointer(1, None), every_ten_minutes("2024-11-03T04:00Z", 6), {})
    at = {tag.name: ms("2024-11-03T04:00Z") + (tag.snapshot_id - 1) * 600_000 for tag in due}
    assert at["2024-11-03 01"] == ms("2024-11-03T07:00Z")


@pytest.mark.parametrize(
    ("zone", "next_tag", "due"),
    [
        ("UTC", datetime(2024, 3, 10, 1), "2024-03-10T02:00Z"),
        ("Asia/Kolkata", datetime(2024, 3, 10, 1), "2024-03-09T20:30Z"),
        ("America/New_York", datetime(2024, 3, 10, 1), "2024-03-10T07:00Z"),
        ("America/New_York", datetime(2024, 3, 10, 2), "2024-03-10T07:00Z"),
        ("America/New_York", datetime(2024, 11, 3, 0), "2024-11-03T05:00Z"),
        ("America/New_York", datetime(2024, 11, 3, 1), "2024-11-03T07:00Z"),
        ("Australia/Lord_Howe", datetime(2024, 10, 6, 1), "2024-10-05T15:30Z"),
    ],
)
def test_when_the_next_tag_is_due(zone: str, next_tag: datetime, due: str) -> None:
    pointer = Pointer(1, next_tag)
    assert next_due_ms(rules(zone=zone), pointer) == ms(due)
    assert next_watermark(rules("watermark", zone), pointer) == ms(due)
    assert next_due_ms(rules("watermark", zone), pointer) is None
    assert next_watermark(rules(zone=zone), pointer) is None
    delayed = next_due_ms(rules(zone=zone, delay=timedelta(minutes=40)), pointer)
    assert delayed is not None
    assert ms(due) <= delayed <= ms(due) + 2_400_000, "clocks that jump may jump over a delay"


def test_the_first_tag_is_due_with_any_snapshot() -> None:
    assert next_due_ms(HOURLY, Pointer(1, None)) == 0
    assert next_watermark(rules("watermark"), Pointer(1, None)) == NO_WATERMARK + 1
    assert next_due_ms(rules("batch"), Pointer(1, None)) is None
    assert next_watermark(rules("batch"), Pointer(1, None)) is None


# --- by the clock -----------------------------------------------------------------------------------------------------

NEWEST = commit(7, "2023-07-18T12:40")
WALKED = Pointer(8, datetime(2023, 7, 18, 12))


@pytest.mark.parametrize(
    ("now", "name"),
    [
        ("12:50", None),
        ("13:00", None),
        ("13:04:59.999", None),
        ("13:05", "2023-07-18 12"),
        ("13:59", "2023-07-18 12"),
        ("14:04:59.999", "2023-07-18 12"),
        ("14:05", "2023-07-18 13"),
        ("23:30", "2023-07-18 22"),
    ],
)
def test_the_clock_makes_a_tag_when_no_commit_does(now: str, name: str | None) -> None:
    """As an empty commit five minutes ago would have: a period that the tag skips is skipped."""
    due = due_by_clock(HOURLY, WALKED, NEWEST, {}, ms(f"2023-07-18T{now}"))
    assert due == (None if name is None else DueTag(name, 7, "clock"))
    forced = Commit(8, ms(f"2023-07-18T{now}") - CLOCK_MARGIN_MS, None, 1, "APPEND")
    assert names(due_tags(HOURLY, WALKED, [forced], {})[0]) == ([] if name is None else [name])


def test_the_clock_respects_delay_and_completion() -> None:
    late = rules(delay=timedelta(minutes=10))
    assert due_by_clock(late, WALKED, NEWEST, {}, ms("2023-07-18T13:14:59.999")) is None
    assert due_by_clock(late, WALKED, NEWEST, {}, ms("2023-07-18T13:15")) == DueTag("2023-07-18 12", 7, "clock")
    whole = rules(completion=True)
    assert due_by_clock(whole, WALKED, NEWEST, {}, ms("2023-07-18T20:00")) == DueTag("2023-07-18 12", 7, "clock")


def test_the_clock_goes_by_the_zone() -> None:
    rule = rules(zone="America/New_York", period=DAY)
    pointer = Pointer(8, datetime(2023, 7, 18))
    assert due_by_clock(rule, pointer, NEWEST, {}, ms("2023-07-19T04:04:59.999Z")) is None
    assert due_by_clock(rule, pointer, NEWEST, {}, ms("2023-07-19T04:05:00Z")) == DueTag("2023-07-18", 7, "clock")


def test_the_clock_makes_no_second_tag_of_a_snapshot() -> None:
    """A table that rests for days has one tag for them."""
    now = ms("2023-07-20T12:00")
    assert due_by_clock(HOURLY, WALKED, NEWEST, {"2023-07-18 11": 7}, now) is None
    assert due_by_clock(HOURLY, WALKED, NEWEST, {"2023-07-18 11": 6, "manual": 7}, now) is not None
    assert due_by_clock(HOURLY, WALKED, NEWEST, {"2023-07-20 10": 3}, now) is None, "the name exists"


@pytest.mark.parametrize(
    ("rule", "pointer"),
    [
        (rules("watermark"), WALKED),
        (rules("batch"), WALKED),
        (HOURLY, Pointer(8, None)),
        (HOURLY, Pointer(7, datetime(2023, 7, 18, 12))),
    ],
)
def test_what_the_clock_does_not_decide(rule: AutoTagRules, pointer: Pointer) -> None:
    """Watermarks, batches, and snapshots that were not walked yet."""
    assert due_by_clock(rule, pointer, NEWEST, {}, ms("2023-07-20T12:00")) is None


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
@pytest.mark.parametrize("next_tag", [datetime(2024, 3, 10, 1), datetime(2024, 11, 3, 1), datetime(2024, 10, 6, 2)])
def test_when_the_clock_decides(zone: str, next_tag: datetime) -> None:
    rule, pointer = rules(zone=zone, delay=timedelta(minutes=3)), Pointer(8, next_tag)
    due = next_due_ms(rule, pointer)
    assert due is not None
    due += CLOCK_MARGIN_MS
    assert due_by_clock(rule, pointer, NEWEST, {}, due - 1) is None
    assert due_by_clock(rule, pointer, NEWEST, {}, due) is not None


# --- the count --------------------------------------------------------------------------------------------------------


def test_without_a_count_all_stay() -> None:
    assert beyond_count(HOURLY, {f"2023-07-18 {hour:02d}": hour for hour in range(24)}) == ()


def test_the_oldest_snapshots_go_first() -> None:
    """Not the oldest periods."""
    tags = {"2023-07-18 05": 9, "2023-07-18 06": 8, "2023-07-18 07": 7, "x": 1}
    assert beyond_count(rules(max_count=3), tags) == ()
    assert beyond_count(rules(max_count=2), tags) == ("2023-07-18 07",)
    assert beyond_count(rules(max_count=1), tags) == ("2023-07-18 07", "2023-07-18 06")


def test_two_automatic_tags_of_one_snapshot_stay() -> None:
    """The engine fails at them; they count as one."""
    tags = {"2023-07-18 05": 1, "2023-07-18 06": 1, "2023-07-18 07": 2, "2023-07-18 08": 3}
    assert beyond_count(rules(max_count=3), tags) == ()
    assert beyond_count(rules(max_count=1), tags) == ("2023-07-18 07",)


def test_batches_count_what_batches_made() -> None:
    """The engine would remove `manual`."""
    tags = {"manual": 1, "batch-write-2023-07-17": 2, "batch-write-2023-07-18": 3}
    assert beyond_count(rules("batch", max_count=2), tags) == ()
    assert beyond_count(rules("batch", max_count=1), tags) == ("batch-write-2023-07-17",)
    tags |= {"nightly": 4, "batch-write-x": 0, "2023-07-18": 0, "batch-write-2023-07-18 11": 0}
    assert beyond_count(rules("batch", max_count=1), tags) == ("batch-write-2023-07-17",)
    named = rules("batch", max_count=1, batch_name="nightly")
    assert beyond_count(named, tags) == ("batch-write-2023-07-17", "batch-write-2023-07-18")


# --- batches ----------------------------------------------------------------------------------------------------------


def batch(kind: str = "APPEND", identifier: int = BATCH_IDENTIFIER, at: str = "2023-07-18T20:00Z") -> Commit:
    return Commit(5, ms(at), None, identifier, kind)


def test_a_batch_gets_a_tag_named_by_its_day() -> None:
    assert BATCH_IDENTIFIER == 9_223_372_036_854_775_807
    assert batch_tag(rules("batch"), batch(), {}) == DueTag("batch-write-2023-07-18", 5, "batch")
    assert batch_tag(rules("batch", "Asia/Shanghai"), batch("OVERWRITE"), {}) == DueTag(
        "batch-write-2023-07-19", 5, "batch"
    )
    assert batch_tag(rules("batch", batch_name="nightly"), batch(), {}) == DueTag("nightly", 5, "batch")


def test_a_tag_of_this_name_is_replaced() -> None:
    """Unless it names this snapshot already."""
    assert batch_tag(rules("batch"), batch(), {"batch-write-2023-07-18": 4}) is not None
    assert batch_tag(rules("batch"), batch(), {"batch-write-2023-07-18": 5}) is None


def test_what_is_no_batch() -> None:
    assert batch_tag(rules("batch"), batch("COMPACT"), {}) is None
    assert batch_tag(rules("batch"), batch("ANALYZE"), {}) is None
    assert batch_tag(rules("batch"), batch(identifier=BATCH_IDENTIFIER - 1), {}) is None
    assert batch_tag(HOURLY, batch(), {}) is None


# --- back-filling -----------------------------------------------------------------------------------------------------


def test_missed_periods_get_the_newest_snapshot_of_before_their_end() -> None:
    """11 and 16 are there. The end of 12 is 13:00, of 13 it is 14:00, and nothing was written in 14."""
    walked = commits("11:30", "12:10", "12:50", "13:20", "15:40", "17:00")
    tags = {"2023-07-18 11": 2, "2023-07-18 16": 6, "manual": 3}
    due, sentences = backfilled(HOURLY, tags, walked)
    assert due == (
        DueTag("2023-07-18 12", 3, "backfill"),
        DueTag("2023-07-18 13", 4, "backfill"),
        DueTag("2023-07-18 15", 5, "backfill"),
    )
    assert sentences == ("no tag '2023-07-18 14': snapshot 4, the newest before its end, has an automatic tag already",)


def test_a_period_with_a_tag_is_not_filled() -> None:
    """On whichever snapshot its tag is."""
    tags = {"2023-07-18 11": 1, "2023-07-18 12": 1, "2023-07-18 13": 9, "2023-07-18 15": 4}
    due, sentences = backfilled(HOURLY, tags, commits("11:30", "12:10", "13:20", "15:40"))
    assert (due, sentences) == ((DueTag("2023-07-18 14", 3, "backfill"),), ())


def test_what_expired_cannot_be_filled() -> None:
    tags = {"2023-07-18 05": 2, "2023-07-18 16": 9}
    due, sentences = backfilled(HOURLY, tags, commits("14:00", "14:59:59.999", "15:00", first=6))
    assert [(tag.name[-2:], tag.snapshot_id) for tag in due] == [("14", 7), ("15", 8)]
    assert sentences == (
        "no tags '2023-07-18 06' to '2023-07-18 13' (8 periods): no snapshot from before its end exists any more",
    )


def test_nothing_to_fill() -> None:
    assert backfilled(HOURLY, {}, commits("12:00")) == ((), ())
    assert backfilled(HOURLY, {"2023-07-18 11": 1}, commits("12:00")) == ((), ())
    assert backfilled(HOURLY, {"2023-07-18 11": 1, "2023-07-18 12": 2}, commits("12:00")) == ((), ())
    assert backfilled(rules("batch"), {"2023-07-18": 1, "2023-07-28": 2}, commits("12:00")) == ((), ())


def test_filling_by_watermarks() -> None:
    """One that goes back does not make a snapshot one of before the end; one without says nothing."""
    marks = ("12:10", None, "13:05", "12:20", "15:00")
    walked = [
        Commit(n, 5, None if mark is None else ms(f"2023-07-18T{mark}"), 1, "APPEND") for n, mark in enumerate(marks, 1)
    ]
    due, _ = backfilled(rules("watermark"), {"2023-07-18 11": 9, "2023-07-18 14": 10}, walked)
    assert [(tag.name[-2:], tag.snapshot_id) for tag in due] == [("12", 1), ("13", 4)]


def test_filling_the_latest_of_very_many() -> None:
    """Minutes of years: it ends, and sooner than hours later."""
    rule = rules(period=timedelta(minutes=1), custom=True)
    due, sentences = backfilled(
        rule, {"200001010000": 1, "202301010000": 9}, commits("23:59", day="2022-12-31", first=5)
    )
    assert names(due) == ["202212312359"]
    assert len(sentences) == 1


def test_filling_through_a_change_of_clocks() -> None:
    """Periods that no clock showed have an end as well; two ends at one instant have one snapshot."""
    rule = rules(zone="America/New_York")
    walked = every_ten_minutes("2024-03-10T05:00Z", 5)
    due, sentences = backfilled(rule, {"2024-03-09 23": 1, "2024-03-10 04": 30}, walked)
    assert [tag.name[-2:] for tag in due] == ["00", "01", "03"]
    assert sentences == (
        "no tag '2024-03-10 02': snapshot 12, the newest before its end, has an automatic tag already",
    )
