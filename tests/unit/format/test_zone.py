"""Zones by Java's names, and the two ways between clocks and instants."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.format.values.zone import earliest_ms, latest_ms, local_time, parse_zone

HOUR_MS = 3_600_000
ZONES = (
    "UTC",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Asia/Shanghai",
    "America/Los_Angeles",
    "Pacific/Apia",
    "+05:45",
)


def zone(name: str) -> tzinfo:
    return parse_zone(name, "time_zone")


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Z", 0),
        ("UTC", 0),
        ("GMT", 0),
        ("UT", 0),
        ("+0", 0),
        ("-00", 0),
        ("+8", 28_800),
        ("+08", 28_800),
        ("-08:30", -30_600),
        ("+0830", 30_600),
        ("+083015", 30_615),
        ("+08:30:15", 30_615),
        ("+18:00", 64_800),
        ("-18", -64_800),
        ("UTC+8", 28_800),
        ("UTC-08:00", -28_800),
        ("GMT-08:00", -28_800),
        ("GMT+0800", 28_800),
        ("UT+1", 3_600),
        ("GMT0", 0),
        ("Zulu", 0),
        ("Etc/GMT+5", -18_000),
        ("Asia/Kolkata", 19_800),
        ("Asia/Calcutta", 19_800),
        ("America/Argentina/Buenos_Aires", -10_800),
    ],
)
def test_zones_that_java_knows(text: str, seconds: int) -> None:
    """The offsets that Java 17 gives for these names, in July 2023."""
    assert datetime(2023, 7, 22, tzinfo=zone(text)).utcoffset() == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "z",
        "utc",
        " UTC",
        "UTC ",
        "UTC8",
        "UTC+",
        "UTC--8",
        "UTC+18:30",
        "UTCx",
        "+",
        "-",
        "8",
        "+8:00",
        "+08:3",
        "+08:60",
        "+08:00:60",
        "+18:01",
        "-18:00:01",
        "+19",
        "+24",
        "+\uff11\uff12",
        "Mars/Olympus",
        "europe/nowhere",
        "Europe",
        "Europe/",
        "/Europe/Berlin",
        "/etc/passwd",
        "../etc/passwd",
        "Europe/../UTC",
        "localtime",
        "posixrules",
        "Factory",
        "posix/UTC",
        "right/UTC",
        "tzdata.zi",
        "zone.tab",
        "zone1970.tab",
        "leapseconds",
        "a" * 5000,
        "UTC\x00",
        "Europe/Berl\u00edn",
    ],
)
def test_no_zones(text: str) -> None:
    """What Java refuses, and what would be this machine's own zone or some other file of the zone database."""
    with pytest.raises(FormatError, match=r"option sink\.process-time-zone: expected a time zone such as") as caught:
        parse_zone(text, "sink.process-time-zone")
    assert caught.value.code == "bad_option"
    assert len(str(caught.value)) < 400


def test_zones_without_a_zone_database() -> None:
    """A function's machine may have none: the package `tzdata` has the zones then."""
    code = """
import zoneinfo
from datetime import datetime
from lakesweep.errors import FormatError
from lakesweep.format.values.zone import local_time, parse_zone

assert zoneinfo.TZPATH == ()
assert local_time(1719792000000, parse_zone("America/New_York", "zone")) == datetime(2024, 6, 30, 20)
for name in ("Mars/Olympus", "Europe", "localtime", "zone.tab"):
    try:
        parse_zone(name, "zone")
    except FormatError:
        continue
    raise AssertionError(name)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONTZPATH": ""})


@pytest.mark.parametrize(
    ("name", "instant", "local"),
    [
        ("America/New_York", "2024-03-10T06:59:59.999Z", datetime(2024, 3, 10, 1, 59, 59, 999_000)),
        ("America/New_York", "2024-03-10T07:00:00Z", datetime(2024, 3, 10, 3)),
        ("America/New_York", "2024-11-03T05:30:00Z", datetime(2024, 11, 3, 1, 30)),
        ("America/New_York", "2024-11-03T06:30:00Z", datetime(2024, 11, 3, 1, 30)),
        ("Australia/Lord_Howe", "2024-04-06T14:59:00Z", datetime(2024, 4, 7, 1, 59)),
        ("Australia/Lord_Howe", "2024-04-06T15:00:00Z", datetime(2024, 4, 7, 1, 30)),
        ("Australia/Lord_Howe", "2024-10-05T15:30:00Z", datetime(2024, 10, 6, 2, 30)),
        ("Asia/Kolkata", "2024-01-01T00:00:00Z", datetime(2024, 1, 1, 5, 30)),
        ("UTC", "1969-12-31T23:59:59.999Z", datetime(1969, 12, 31, 23, 59, 59, 999_000)),
    ],
)
def test_what_clocks_show(name: str, instant: str, local: datetime) -> None:
    assert local_time(ms(instant), zone(name)) == local


@pytest.mark.parametrize(
    ("name", "local", "earliest", "latest"),
    [
        # In New York 02:30 was left out on 10 March, and 01:30 was shown twice on 3 November.
        ("America/New_York", datetime(2024, 3, 10, 2), "2024-03-10T07:00:00Z", "2024-03-10T07:00:00Z"),
        ("America/New_York", datetime(2024, 3, 10, 2, 30), "2024-03-10T07:00:00Z", "2024-03-10T07:30:00Z"),
        ("America/New_York", datetime(2024, 3, 10, 3), "2024-03-10T07:00:00Z", "2024-03-10T07:00:00Z"),
        ("America/New_York", datetime(2024, 11, 3, 1, 30), "2024-11-03T05:30:00Z", "2024-11-03T06:30:00Z"),
        ("America/New_York", datetime(2024, 11, 3, 2), "2024-11-03T07:00:00Z", "2024-11-03T07:00:00Z"),
        # Lord Howe moves its clocks by half an hour.
        ("Australia/Lord_Howe", datetime(2024, 10, 6, 2, 15), "2024-10-05T15:30:00Z", "2024-10-05T15:45:00Z"),
        ("Australia/Lord_Howe", datetime(2024, 4, 7, 1, 45), "2024-04-06T14:45:00Z", "2024-04-06T15:15:00Z"),
        # Samoa left out a whole day.
        ("Pacific/Apia", datetime(2011, 12, 30, 12), "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"),
        ("Asia/Kolkata", datetime(2024, 1, 1), "2023-12-31T18:30:00Z", "2023-12-31T18:30:00Z"),
        ("UTC", datetime(2024, 1, 1, 0, 0, 0, 1), "2024-01-01T00:00:00.001Z", "2024-01-01T00:00:00.001Z"),
    ],
)
def test_what_a_local_time_means(name: str, local: datetime, earliest: str, latest: str) -> None:
    assert earliest_ms(local, zone(name)) == ms(earliest)
    assert latest_ms(local, zone(name)) == ms(latest)


@given(st.sampled_from(ZONES), st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1)))
@example("Australia/Lord_Howe", datetime(2024, 10, 6, 2, 29, 59, 999_999))
@example("America/New_York", datetime(2024, 11, 3, 1, 59, 59, 999_999))
def test_the_first_instant_of_a_local_time(name: str, local: datetime) -> None:
    """At it clocks show the time or later; for a day before it they showed earlier ones."""
    first = earliest_ms(local, zone(name))
    assert local_time(first, zone(name)) >= local
    for before in (1, 2, 999, 60_000, HOUR_MS // 2, HOUR_MS, 2 * HOUR_MS, 24 * HOUR_MS):
        assert local_time(first - before, zone(name)) < local
    assert first <= latest_ms(local, zone(name))


@given(st.sampled_from(ZONES), st.integers(0, 2_000_000_000_000))
def test_there_and_back(name: str, epoch_ms: int) -> None:
    """An instant lies between the first and the last that its local time can mean."""
    local = local_time(epoch_ms, zone(name))
    assert local.tzinfo is None
    assert earliest_ms(local, zone(name)) <= epoch_ms <= latest_ms(local, zone(name))


@pytest.mark.parametrize("epoch_ms", [-(1 << 63), (1 << 63) - 1, -(10**14), 10**15])
@pytest.mark.parametrize("name", ["UTC", "+18:00", "-18:00", "Pacific/Apia"])
def test_times_of_no_calendar(epoch_ms: int, name: str) -> None:
    """A damaged document may hold any number; it becomes the end of the calendar and no exception."""
    local = local_time(epoch_ms, zone(name))
    assert local.year in (1, 9999)
    assert abs(earliest_ms(local, zone(name))) < 1 << 62
    assert abs(latest_ms(local, zone(name))) < 1 << 62


def test_the_ends_of_the_calendar() -> None:
    for local in (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)):
        for where in (UTC, timezone(timedelta(hours=18)), timezone(-timedelta(hours=18))):
            assert earliest_ms(local, where) == latest_ms(local, where)
            assert (earliest_ms(local, where) > 0) == (local.year == 9999)
