"""Times and durations as callers write them."""

import pytest

from lakesweep.errors import UsageError
from lakesweep.runs.parameters.times import parse_past, parse_span_ms, parse_time_ms, say_time


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("0", 0),
        ("1769860800000", 1769860800000),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T19:00-05:00", 0),
        ("1970-01-01T00:00:00.0019Z", 1),
        ("1969-12-31T23:59:59.9991Z", -1),
        ("2026-01-31T12:00:00Z", 1769860800000),
        ("9999-12-31T23:59:59-23:59", 253402387139000),
    ],
)
def test_times(text: str, time_ms: int) -> None:
    """Exact to the millisecond, cut off below."""
    assert parse_time_ms(text, "older_than") == time_ms


@pytest.mark.parametrize(
    "text",
    ["", " ", "now", "2026-01-31", "2026-01-31T12:00:00", "-1", "1.5", "2026-13-01T00:00:00Z", "\u0661", "1" * 20],
)
def test_no_times(text: str) -> None:
    """Anything that could be read in two ways is refused, by name."""
    with pytest.raises(UsageError, match="older_than: expected a time with its zone"):
        parse_time_ms(text, "older_than")


@pytest.mark.parametrize(
    ("text", "span_ms"),
    [("0", 0), ("500 ms", 500), ("10 min", 600_000), ("1 d", 86_400_000), ("1999 micros", 1), ("0 ns", 0)],
)
def test_durations(text: str, span_ms: int) -> None:
    """As Paimon writes them."""
    assert parse_span_ms(text, "grace") == span_ms


@pytest.mark.parametrize(
    "text",
    ["", "-1 s", "1 fortnight", "1.5 h", "PT1H", "3 d\0", "3 d\n", "\t3 d", "1 ns", "1 \u00b5s", "999 micros"],
)
def test_no_durations(text: str) -> None:
    """Nothing else."""
    with pytest.raises(UsageError, match="grace: expected a duration"):
        parse_span_ms(text, "grace")


@pytest.mark.parametrize(
    "text", ["3 d\0", "3 d\n", "1 ns", "1 \u00b5s", "2026-01-31\n12:00:00Z", "2026-01-31\x0012:00:00Z"]
)
def test_no_ages(text: str) -> None:
    """An age that nobody can see, or that silently would be 0, is none."""
    with pytest.raises(UsageError, match="older_than: expected an age with its unit"):
        parse_past(text, "older_than")


def test_times_are_said_with_their_zone() -> None:
    """What is printed can be typed again; what no calendar has stays a number."""
    for time_ms in (-1, 0, 1769860800123):
        assert parse_time_ms(say_time(time_ms), "t") == time_ms
    assert say_time(1769860800123) == "2026-01-31T12:00:00.123+00:00"
    assert say_time(10**17) == f"{10**17} ms after the epoch"
