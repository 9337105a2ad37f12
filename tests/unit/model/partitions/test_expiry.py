"""Which partitions expire, to the millisecond, by every clock."""

import time
import tracemalloc
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import RefusedError
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataType, parse_data_type
from lakesweep.format.values.partition_path import date_text
from lakesweep.format.values.zone import parse_zone
from lakesweep.model.partitions.expiry import Choice, Expiry, PartitionFacts, choose
from lakesweep.model.partitions.rules import PartitionRules, partition_rules

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
TEXT = parse_data_type("STRING", "schema")
BERLIN = parse_zone("Europe/Berlin", "time_zone")
UPDATE = {"partition.expiration-strategy": "update-time"}


def ms(text: str, zone: tzinfo = UTC) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


def rules(options: dict[str, str] | None = None) -> PartitionRules:
    found = partition_rules({"partition.expiration-time": "1 d", **(options or {})})
    assert found is not None
    return found


def facts(*values: object, newest_ms: int | None = None, files: int = 1) -> PartitionFacts:
    return PartitionFacts(repr(values).encode(), values, 1, files, 1, newest_ms)


def choice(
    partitions: Sequence[PartitionFacts],
    now: str | int,
    options: dict[str, str] | None = None,
    zone: tzinfo | None = UTC,
    keys: Sequence[str] = ("dt", "hr"),
    types: Sequence[DataType] | None = None,
) -> Choice:
    now_ms = now if isinstance(now, int) else ms(now)
    found = types or (TEXT,) * len(keys)
    arity = len(partitions[0].values) if partitions else len(keys)
    return choose(partitions, rules(options), keys[:arity], found[:arity], now_ms, zone)


def due(found: Choice) -> list[tuple[object, ...]]:
    return [each.facts.values for each in found.due]


# --- values-time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("character", ["x", "\\x"])
def test_a_pattern_does_not_multiply_long_values(character: str) -> None:
    """A text that is too long for a time is not put together: a million characters, three thousand times."""
    long = character * 1_000_000
    tracemalloc.start()
    found = choice([facts(long, "20240101")], "2026-01-01", {"partition.timestamp-pattern": "$dt" * 3000 + "$hr"})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.kept, found.due) == ({"unparsable": 1}, ())
    assert peak < 10_000_000


@pytest.mark.parametrize(
    ("now", "is_due"),
    [("2024-01-02T23:59:59.999", False), ("2024-01-03T00:00", False), ("2024-01-03T00:00:00.001", True)],
)
def test_the_cutoff_itself_protects(now: str, is_due: bool) -> None:
    """A partition of 2 January that lives for a day is due a millisecond after 3 January begins."""
    found = choice([facts("2024-01-02")], now)
    assert bool(found.due) == is_due
    assert found.next_due_ms == (None if is_due else ms("2024-01-03T00:00:00.001"))
    assert found.kept == ({} if is_due else {"not_due": 1})


@pytest.mark.parametrize(
    ("now", "remaining"),
    [
        ("2023-01-03", ["20230101", "20230103", "20230105"]),
        ("2023-01-05", ["20230103", "20230105"]),
        ("2023-01-08", []),
    ],
)
def test_a_history(now: str, remaining: list[str]) -> None:
    """Partitions that live for two days."""
    days = [facts("20230101"), facts("20230103"), facts("20230105")]
    options = {"partition.expiration-time": "2 d", "partition.timestamp-formatter": "yyyyMMdd"}
    found = choice(days, now, options)
    assert [day.values[0] for day in days if day.values not in due(found)] == remaining


def test_the_next_time_is_exact() -> None:
    """A millisecond before it nothing is due, and at that time one partition is."""
    days = [facts("2024-01-02"), facts("2024-01-05"), facts("x")]
    found = choice(days, "2024-01-01", zone=BERLIN)
    assert found.next_due_ms == ms("2024-01-03T00:00:00.001", BERLIN)
    assert not choice(days, found.next_due_ms - 1, zone=BERLIN).due
    assert due(choice(days, found.next_due_ms, zone=BERLIN)) == [("2024-01-02",)]


@pytest.mark.parametrize(
    ("zone", "first_due"),
    [
        (UTC, "2024-01-03T00:00:00.001"),
        (parse_zone("+08:00", "z"), "2024-01-02T16:00:00.001"),
        (parse_zone("-08:00", "z"), "2024-01-03T08:00:00.001"),
        (None, "2024-01-03T12:00:00.001"),
    ],
)
def test_clocks_of_zones(zone: tzinfo | None, first_due: str) -> None:
    """Without a declared zone, the last clocks decide: nobody's partition expires too early."""
    partition = [facts("2024-01-02")]
    assert not choice(partition, ms(first_due) - 1, zone=zone).due
    assert choice(partition, first_due, zone=zone).due


@given(st.integers(0, 4_000_000_000_000), st.sampled_from(["Pacific/Kiritimati", "Asia/Shanghai", "America/Adak"]))
def test_without_a_zone_nothing_expires_earlier(now_ms: int, name: str) -> None:
    """Than in any zone."""
    day = now_ms // DAY_MS
    days = [facts(date_text(day - at)) for at in range(4)]
    assert set(due(choice(days, now_ms, zone=None))) <= set(due(choice(days, now_ms, zone=parse_zone(name, "zone"))))


def test_a_missing_zone_is_said_where_it_matters() -> None:
    """If no partition is near the cutoff, the zone decides nothing."""
    assert "no time zone is declared" in " ".join(choice([facts("2024-01-02")], "2024-01-03T06:00", zone=None).warnings)
    assert choice([facts("2024-01-02")], "2024-01-03T06:00").warnings == ()
    assert choice([facts("2024-01-02")], "2024-02-01", zone=None).warnings == ()
    assert choice([facts("2024-01-20")], "2024-01-03", zone=None).warnings == ()


DATE = parse_data_type("DATE", "schema")
STAMP = parse_data_type("TIMESTAMP(3)", "schema")


@pytest.mark.parametrize(
    ("type_", "value", "options", "reason"),
    [
        ("STRING", "2024-01-02", {}, None),
        ("STRING", "2024-01-02 08:00:00.5", {}, None),
        ("STRING", "20240102", {}, "unparsable"),
        ("STRING", "", {}, "unparsable"),
        ("STRING", " 2024-01-02", {}, "unparsable"),
        ("STRING", "2024-01-02 ", {}, "unparsable"),
        ("STRING", "x" * (1 << 20), {}, "unparsable"),
        ("STRING", "2030-01-02", {}, "not_due"),
        ("STRING", None, {}, "null"),
        ("INT", 20240102, {"partition.timestamp-formatter": "yyyyMMdd"}, None),
        ("BIGINT", 20240102, {"partition.timestamp-formatter": "yyyyMMdd"}, None),
        ("INT", 20240102, {}, "unparsable"),
        ("DATE", 19724, {}, "unparsable"),
        ("DATE", 19724, {"partition.timestamp-formatter": "yyyyMMdd"}, "unparsable"),
        ("DATE", -1, {"partition.timestamp-formatter": "uuuu-MM-dd"}, "unparsable"),
        ("TIMESTAMP(3)", Timestamp(19724 * DAY_MS, 0), {}, "unparsable"),
        ("TIMESTAMP(3)", Timestamp(19724 * DAY_MS, 0), {"partition.timestamp-formatter": "uuuu-MM-dd'T'HH:mm"}, None),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", Timestamp(19724 * DAY_MS, 0), {}, "unparsable"),
        ("BOOLEAN", True, {}, "unparsable"),
        ("DOUBLE", 1.5, {}, "unparsable"),
        ("DECIMAL(8, 0)", Decimal(20240102), {"partition.timestamp-formatter": "yyyyMMdd"}, None),
        ("BYTES", b"2024-01-02", {}, "unparsable"),
    ],
)
def test_types(type_: str, value: object, options: dict[str, str], reason: str | None) -> None:
    """A value counts as Java prints it: a date as its number of days, a time stamp with a T."""
    found = choice([facts(value)], "2024-02-01", options, types=(parse_data_type(type_, "schema"),))
    assert (next(iter(found.kept), None), len(found.due)) == (reason, 0 if reason else 1)


def test_why_nothing_expires() -> None:
    """If no partition has a time, an example says why."""
    (warning,) = choice([facts("20240102"), facts("us")], "2024-02-01").warnings
    assert "'20240102'" in warning and "partition.timestamp-formatter" in warning
    assert choice([facts("20240102"), facts("2024-01-02")], "2024-02-01").warnings == ()


def test_the_first_key_states_the_time() -> None:
    """The other keys may be anything."""
    rows = [facts("2024-01-02", None), facts("2024-01-02", ""), facts(None, "2024-01-02"), facts("x", "2024-01-02")]
    found = choice(rows, "2024-02-01")
    assert set(due(found)) == {("2024-01-02", None), ("2024-01-02", "")}
    assert found.kept == {"null": 1, "unparsable": 1}


def test_partitions_without_files_are_passed_over() -> None:
    """There is nothing to drop, and nothing to count."""
    found = choice([facts("2024-01-02", files=0), facts("x", files=0)], "2024-02-01")
    assert (found.due, found.kept) == ((), {})


# --- patterns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "keys", "values", "is_due", "differs"),
    [
        ("$dt $hr:00:00", ("dt", "hr"), ("2024-01-02", "8"), True, 0),
        ("$dt", ("hr", "dt"), ("8", "2024-01-02"), True, 0),
        ("2024-$m-$d", ("m", "d"), ("1", "2"), True, 0),
        ("$h $hour:00:00", ("h", "hour"), ("2024-01-02", "8"), True, 1),  # 1.4.2: 2024-01-02 2024-01-02our
        ("$hour $h:00:00", ("hour", "h"), ("2024-01-02", "8"), True, 0),
        ("$dt", ("dt", "x"), ("2024-01-02", None), True, 1),  # 1.4.2 fails at the null
        ("$dt", ("dt", "x"), (None, "a"), False, 0),
        ("$dt", ("dt", "x"), ("2024-01-02", "$0\\"), True, 0),  # not in the pattern
        ("$dt$x", ("dt", "x"), ("2024-01-02", "$9"), False, 0),
        ("$dt$x", ("dt", "x"), ("2024-01-0", "\\2"), False, 1),  # 1.4.2 reads 2024-01-02
        ("$dt", ("dt", "x"), ("$x", "2024-01-02"), False, 0),  # 1.4.2 fails, too
        ("$dt", ("dt", "x"), ("\\$x", "2024-01-02"), False, 1),  # 1.4.2 replaces the value's $x
        ("$unknown", ("dt", "x"), ("2024-01-02", "8"), False, 0),
        ("2024-01-02", ("dt", "x"), ("a", "b"), True, 0),
        ("2024-01-02", ("dt", "x"), ("a", None), True, 1),
    ],
)
def test_patterns(pattern: str, keys: tuple[str, ...], values: tuple[object, ...], is_due: bool, differs: int) -> None:
    """Values are taken literally, the longest key first; where Paimon 1.4.2 does otherwise, it is counted."""
    options = {"partition.timestamp-pattern": pattern}
    found = choice([facts(*values)], "2024-02-01", options, keys=keys)
    assert (bool(found.due), found.differs_from_1_4_2) == (is_due, differs)
    assert bool([text for text in found.warnings if "1.4.2" in text]) == bool(differs)


def test_values_that_multiply() -> None:
    """A long value is no time, however often the pattern has it."""
    options = {"partition.timestamp-pattern": "$dt" * 100}
    found = choice([facts("x$dt" * 100_000, "8")], "2024-02-01", options)
    assert found.kept == {"unparsable": 1}


# --- update-time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more_ms", "is_due"), [(-1, True), (0, False), (1, False)])
def test_the_newest_entry_decides(more_ms: int, is_due: bool) -> None:
    """To the millisecond, and strictly; the values do not matter."""
    newest = ms("2024-01-02T08:00") + more_ms
    found = choice([facts(None, "x", newest_ms=newest)], "2024-01-03T08:00", UPDATE)
    assert bool(found.due) == is_due
    if not is_due:
        assert found.next_due_ms == newest + DAY_MS + 1


def test_creation_times_are_clocks_of_the_zone() -> None:
    """Eight hours further east, the same clock is eight hours earlier."""
    rows = [facts("a", newest_ms=ms("2024-01-02T08:00"))]
    east = parse_zone("+08:00", "zone")
    assert choice(rows, ms("2024-01-03T00:00") + 1, UPDATE, east).due
    assert not choice(rows, ms("2024-01-03T00:00"), UPDATE, east).due
    assert not choice(rows, ms("2024-01-03T00:00") + 1, UPDATE).due


def test_update_time_needs_a_zone() -> None:
    """Also before any partition is known."""
    with pytest.raises(RefusedError) as caught:
        choice([], "2024-01-03", UPDATE, None)
    assert caught.value.code == "zone_not_declared"


def test_a_clock_that_shows_a_time_twice_means_the_later_one() -> None:
    """In Berlin, 27 October 2024 has 02:30 at 00:30 and at 01:30 UTC."""
    rows = [facts("a", newest_ms=ms("2024-10-27T02:30"))]
    options = {**UPDATE, "partition.expiration-time": "1 h"}
    assert not choice(rows, ms("2024-10-27T02:30"), options, BERLIN).due
    assert choice(rows, ms("2024-10-27T02:30") + 1, options, BERLIN).due


@given(
    st.integers(-5 * HOUR_MS, 5 * HOUR_MS), st.integers(1, 6 * HOUR_MS), st.sampled_from(["2024-03-31", "2024-10-27"])
)
def test_never_earlier_than_the_time_says(shift_ms: int, age_ms: int, day: str) -> None:
    """Whichever of two instants a clock means, and even if an hour is missing."""
    now_ms = ms(f"{day}T01:00") + shift_ms
    options = {**UPDATE, "partition.expiration-time": f"{age_ms} ms"}
    for newest_ms in range(ms(f"{day}T00:00"), ms(f"{day}T05:00"), HOUR_MS // 4):
        found = choice([facts("a", newest_ms=newest_ms)], now_ms, options, BERLIN)
        for each in found.due:
            assert each.time_ms is not None and each.time_ms + age_ms < now_ms


def test_an_hour_that_is_missing_does_not_count() -> None:
    """In Berlin, a quarter of an hour after 01:50 on 31 March 2024 clocks show 03:05."""
    rows = [facts("a", newest_ms=ms("2024-03-31T01:50"))]
    options = {**UPDATE, "partition.expiration-time": "1 h"}
    found = choice(rows, ms("2024-03-31T01:05"), options, BERLIN)
    assert (found.due, found.next_due_ms) == ((), ms("2024-03-31T01:50:00.001"))
    assert not choice(rows, ms("2024-03-31T01:50"), options, BERLIN).due
    assert choice(rows, ms("2024-03-31T01:50:00.001"), options, BERLIN).due


@pytest.mark.parametrize("newest_ms", [None, -(1 << 63), (1 << 63) - 1])
def test_an_unknown_creation_time_keeps_the_partition(newest_ms: int | None) -> None:
    """A time beyond the calendar is no time either."""
    found = choice([facts("a", newest_ms=newest_ms)], "2024-01-03", UPDATE)
    assert (found.due, found.kept, found.next_due_ms) == ((), {"time_unknown": 1}, None)


@pytest.mark.parametrize("duration", ["10000000 d", "9223372036854775807"])
def test_an_endless_time_expires_nothing(duration: str) -> None:
    """Though no calendar reaches so far."""
    options = {"partition.expiration-time": duration}
    rows = [facts("0001-01-01", newest_ms=ms("2024-01-02"))]
    for each in ({}, UPDATE):
        found = choice(rows, "2024-01-03", {**options, **each})
        assert (found.due, found.kept, found.next_due_ms) == ((), {"not_due": 1}, None)


# --- order and limits -------------------------------------------------------------------------------------------------


def test_the_order_is_that_of_java_texts() -> None:
    """Values joined by commas, by UTF-16: a smiley comes before the last letters of the first plane."""
    values = [("b", "1"), ("a", "2"), ("a", None), ("a,0", ""), ("\uff21", "1"), ("\U0001f600", "1"), ("a", "10")]
    found = choice([facts(*each, newest_ms=0) for each in values], "2024-01-03", UPDATE)
    assert due(found) == [
        ("a,0", ""),
        ("a", "10"),
        ("a", "2"),
        ("a", None),
        ("b", "1"),
        ("\U0001f600", "1"),
        ("\uff21", "1"),
    ]


@pytest.mark.parametrize(("max_num", "now_due"), [("1", 1), ("2", 2), ("3", 3), ("4", 3)])
def test_the_rest_is_due_later(max_num: str, now_due: int) -> None:
    """The count limits the sorted partitions, not the ones that were found first."""
    rows = [facts("2024-01-03"), facts("2024-01-01"), facts("2024-01-02"), facts("2030-01-01")]
    found = choice(rows, "2024-02-01", {"partition.expiration-max-num": max_num})
    assert due(found) == [("2024-01-01",), ("2024-01-02",), ("2024-01-03",)][:now_due]
    assert (found.due_later, found.kept) == (3 - now_due, {"not_due": 1})


def test_values_with_commas_are_not_mixed_up() -> None:
    """Paimon 1.4.2 drops the fresh one of these two instead of the old one."""
    rows = [facts("2024-01-01", "us,ca"), facts("2024-01-31", "us")]
    found = choice(rows, "2024-01-31", {"partition.expiration-time": "7 d"})
    assert due(found) == [("2024-01-01", "us,ca")]
    assert found.due[0].facts is rows[0]
    assert found.differs_from_1_4_2 == 1


def test_what_a_report_shows() -> None:
    """The time by the declared zone, and both sides of the comparison."""
    (found,) = choice([facts("2024-01-02")], "2024-02-01T10:00", zone=BERLIN).due
    assert found.time_ms == ms("2024-01-02", BERLIN)
    assert found.why == "its values state the time 2024-01-02T00:00, before 2024-01-31T11:00"
    (found,) = choice([facts("x", newest_ms=ms("2024-01-02"))], "2024-02-01T10:00", UPDATE, BERLIN).due
    assert found.why == "its newest entry was created at 2024-01-02T00:00, before 2024-01-31T11:00"


def test_a_quick_look_at_values() -> None:
    """What may be due by its values has to be read; by update-time that is everything."""
    expiry = Expiry(rules(), ("dt",), (TEXT,), ms("2024-02-01"), UTC)
    assert expiry.may_be_due(("2024-01-02",))
    assert not expiry.may_be_due(("2024-02-01",)) and not expiry.may_be_due((None,)) and not expiry.may_be_due(("x",))
    assert Expiry(rules(UPDATE), ("dt",), (TEXT,), 0, UTC).may_be_due(("x",))


@pytest.mark.parametrize("options", [{}, {"partition.timestamp-pattern": "$dt $hr:00:00"}, UPDATE], ids=repr)
def test_many_partitions(options: dict[str, str]) -> None:
    """One pass: ten times as many partitions take about ten times as long."""

    def seconds(count: int) -> float:
        rows = [
            PartitionFacts(b"%d" % at, (date_text(at % 20_000), str(at % 24)), 1, 1, 1, at * HOUR_MS // 20)
            for at in range(count)
        ]
        started = time.process_time()
        found = choice(rows, "2000-01-01", options)
        assert len(found.due) + found.due_later + found.kept.get("not_due", 0) == count
        return time.process_time() - started

    few, many = seconds(2_500), seconds(25_000)
    assert many < 4 and many < 40 * few
