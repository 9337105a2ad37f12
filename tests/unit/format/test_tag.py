"""Tags: a snapshot document with a creation time and a time to live."""

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.format.tag import Tag, parse_tag

from .test_roots import DOCUMENT

SECOND = 1_000_000_000


def tag(**fields: object) -> Tag:
    return parse_tag(json.dumps(DOCUMENT | fields).encode(), "tag/tag-a")


def retained(text: str) -> int | None:
    return parse_tag(
        json.dumps(DOCUMENT).encode()[:-1] + f', "tagTimeRetained": {text}}}'.encode(), "p"
    ).time_retained_ns


def test_a_tag_without_time_to_live() -> None:
    found = tag()
    assert (found.snapshot.id, found.create_time, found.time_retained_ns) == (4, None, None)
    assert tag(tagCreateTime=None, tagTimeRetained=None) == found


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ([2024, 3, 1, 0, 0], datetime(2024, 3, 1)),
        ([2024, 3, 1, 0, 0, 5], datetime(2024, 3, 1, 0, 0, 5)),
        ([2024, 3, 1, 0, 0, 0, 1000], datetime(2024, 3, 1, 0, 0, 0, 1)),
        ([2024, 12, 31, 23, 59, 59, 999_999_999], datetime(2025, 1, 1)),
        ("2024-03-01T00:00", datetime(2024, 3, 1)),
        ("2024-03-01T01:02:03", datetime(2024, 3, 1, 1, 2, 3)),
        ("2024-03-01T01:02:03.5", datetime(2024, 3, 1, 1, 2, 3, 500_000)),
        ("2024-03-01T01:02:03.123456", datetime(2024, 3, 1, 1, 2, 3, 123_456)),
    ],
)
def test_creation_times(value: object, time: datetime) -> None:
    """Nanoseconds are rounded up, so that no tag looks older than it is."""
    assert tag(tagCreateTime=value).create_time == time


@pytest.mark.parametrize(
    "value",
    [
        [],
        [2024, 3, 1, 0],
        [2024, 3, 1, 0, 0, 0, 0, 0],
        [2024, 13, 1, 0, 0],
        [2024, 2, 30, 0, 0],
        [2024, 3, 1, 0, 0, 0, 1_000_000_000],
        [2024, 3, 1, 0, 0, 0, -1],
        [10000, 3, 1, 0, 0],
        [9999, 12, 31, 23, 59, 59, 999_999_999],
        [2024, 3, 1, 0, 0.5],
        [2024, 3, 1, 0, True],
        [2024, 3, 1, 0, None],
        [2**70, 3, 1, 0, 0],
        "2024-03-01",
        "2024-03-01T00:00Z",
        "2024-03-01T00:00\n",
        "",
        1709251200000,
        {},
    ],
    ids=repr,
)
def test_damaged_creation_times(value: object) -> None:
    with pytest.raises(FormatError, match="expected a local date and time in tagCreateTime, found "):
        tag(tagCreateTime=value)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("86400.000000000", 86_400 * SECOND),
        ("5", 5 * SECOND),
        ("0", 0),
        ("0E-9", 0),
        ("0.0", 0),
        ("0.500000000", SECOND // 2),
        ("1E-9", 1),
        ("1.5e3", 1500 * SECOND),
        ("-1.5", -1_500_000_000),
        ("9007199254740993.000000001", 9_007_199_254_740_993 * SECOND + 1),
        ("1e-400", 0),
        ('"PT24H"', 86_400 * SECOND),
        ('"PT0S"', 0),
        ('"P1DT2H3M4.5S"', 93_784 * SECOND + SECOND // 2),
        ('"pt1m"', 60 * SECOND),
        ('"-PT1M"', -60 * SECOND),
        ('"PT-1M"', -60 * SECOND),
        ('"PT-0.5S"', -SECOND // 2),
        ('"P2D"', 172_800 * SECOND),
    ],
)
def test_times_to_live(text: str, nanos: int) -> None:
    assert retained(text) == nanos


@pytest.mark.parametrize(
    "text",
    [
        '""',
        '"1 d"',
        '"P"',
        '"PT"',
        '"P1DT"',
        '"P1Y"',
        '"PT1.5H"',
        '"PT1S "',
        '"PT9999999999999999999S"',
        "true",
        "[]",
        "{}",
        "1e30",
        "1e999999",
        "9223372036854775808",
        "9" * 4000,
        "1." + "9" * 4000,
    ],
)
def test_damaged_times_to_live(text: str) -> None:
    with pytest.raises(FormatError, match="in tagTimeRetained, found "):
        retained(text)


@given(st.integers(0, 2**62), st.integers(0, SECOND - 1))
def test_decimal_seconds_are_exact(seconds: int, nanos: int) -> None:
    assert retained(f"{seconds}.{nanos:09d}") == seconds * SECOND + nanos
