"""Formatters read times as Java does. The expected times are answers of Java 17 and Paimon 1.4.2."""

import pytest

from lakesweep.errors import FormatError
from lakesweep.format.values.partition_path import local_date_time_text
from lakesweep.model.partitions.formatter import DEFAULT, parse_pattern

ANSWERS: list[tuple[str | None, str, str | None]] = [
    ("yyyyMMdd", "20240105", "2024-01-05T00:00"),
    ("yyyyMMdd", "20240230", "2024-02-29T00:00"),
    ("yyyyMMdd", "20230231", "2023-02-28T00:00"),
    ("yyyyMMdd", "20240132", None),
    ("yyyyMMdd", "20241305", None),
    ("yyyyMMdd", "2024010", None),
    ("yyyyMMdd", "202401055", None),
    ("yyyyMMdd", "+120240105", "+12024-01-05T00:00"),
    ("yyyyMMdd", "20240105 ", None),
    ("yyyyMMdd", "00000105", None),
    ("yyyy-MM-dd", "2024-01-05", "2024-01-05T00:00"),
    ("yyyy-MM-dd", "2024-1-5", None),
    ("yyyy-MM-dd", "12024-01-05", None),
    ("yyyy-MM-dd", "+12024-01-05", "+12024-01-05T00:00"),
    ("yyyy-MM-dd", "-2024-01-05", None),
    ("uuuu-MM-dd", "-2024-01-05", "-2024-01-05T00:00"),
    ("uuuu-MM-dd", "0000-01-05", "0000-01-05T00:00"),
    ("yyyy-MM", "2024-01", None),
    ("yyyy-M-d", "2024-1-5", "2024-01-05T00:00"),
    ("y-M-d", "7-1-5", "0007-01-05T00:00"),
    ("yyMMdd", "240105", "2024-01-05T00:00"),
    ("yyMMdd", "991231", "2099-12-31T00:00"),
    ("yyyyDDD", "2024366", "2024-12-31T00:00"),
    ("yyyyDDD", "2023366", None),
    ("yyyyMMddHH", "2024010508", "2024-01-05T08:00"),
    ("yyyyMMddHH", "2024010524", "2024-01-06T00:00"),
    ("yyyyMMddHH", "2024010525", None),
    ("yyyyMMddHHmm", "202401050830", "2024-01-05T08:30"),
    ("yyyyMMddHHmmss", "20240105240000", "2024-01-06T00:00"),
    ("yyyyMMddHHmmss", "20240105240001", None),
    ("yyyyMMddHHmmss", "20240105235960", None),
    ("yyyyMMddHHmmssSSS", "20240105083059123", "2024-01-05T08:30:59.123"),
    ("yyyyMMdd hha", "20240105 12AM", "2024-01-05T00:00"),
    ("yyyyMMdd hha", "20240105 12PM", "2024-01-05T12:00"),
    ("yyyyMMdd hha", "20240105 00AM", "2024-01-05T00:00"),
    ("yyyyMMdd hha", "20240105 08pm", None),
    ("yyyyMMdd hh", "20240105 08", "2024-01-05T00:00"),
    ("yyyyMMdd a", "20240105 PM", "2024-01-05T18:00"),
    ("yyyyMMdd KKa", "20240105 11PM", "2024-01-05T23:00"),
    ("yyyyMMdd kk", "20240105 24", "2024-01-05T00:00"),
    ("yyyyMMdd mm", "20240105 30", "2024-01-05T00:00"),
    ("yyyyMMdd mm", "20240105 60", None),
    ("yyyyMMdd HH SSS", "20240105 99 123", "2024-01-05T00:00"),
    ("yyyyMMdd HH hh", "20240105 14 02", "2024-01-05T14:00"),
    ("yyyyMMdd HH hh", "20240105 14 03", None),
    ("yyyy-MM-dd'T'HH:mm[:ss[.SSS]]", "2024-01-05T08:30", "2024-01-05T08:30"),
    ("yyyy-MM-dd'T'HH:mm[:ss[.SSS]]", "2024-01-05T08:30:59", "2024-01-05T08:30:59"),
    ("yyyy-MM-dd'T'HH:mm[:ss[.SSS]]", "2024-01-05T08:30:59.250", "2024-01-05T08:30:59.250"),
    ("yyyy-MM-dd'T'HH:mm[:ss[.SSS]]", "2024-01-05T08:30:5", None),
    ("yyyy-MM-dd[ HH]", "2024-01-05", "2024-01-05T00:00"),
    ("yyyy-MM-dd[ HH", "2024-01-05 08", "2024-01-05T08:00"),
    ("'day '''yyyyMMdd", "day '20240105", "2024-01-05T00:00"),
    ("yyyy/MM/dd", "2024/01/05", "2024-01-05T00:00"),
    ("yyyyMMdd'\u65e5'", "20240105\u65e5", "2024-01-05T00:00"),
    ("yyyyMMdd", "\u0662\u0660\u0662\u0664\u0660\u0661\u0660\u0665", None),
    ("yyyy uuuu-MM-dd", "2024 2024-01-05", "2024-01-05T00:00"),
    ("yyyy uuuu-MM-dd", "2024 2023-01-05", None),
    ("yyyyMMdd n", "20240105 7", "2024-01-05T00:00"),
    (None, "2024-01-05", "2024-01-05T00:00"),
    (None, "2024-1-5 8:3:9", "2024-01-05T08:03:09"),
    (None, "2024-01-05 08:30:59.123456789", "2024-01-05T08:30:59.123456789"),
    (None, "2024-01-05 08:30", None),
    (None, "2024-01-05T08:30:59", None),
    (None, "20240105", None),
    (None, "2023-02-30", "2023-03-02T00:00"),
    (None, "2023-13-01", "2024-01-01T00:00"),
    (None, "2023-00-00", "2022-11-30T00:00"),
    (None, "2023-01-01 25:00:00", "2023-01-02T01:00"),
    (None, "2024-01-05 24:61:61", "2024-01-06T01:02:01"),
    (None, "-1-1-1", "-0001-01-01T00:00"),
    (None, "-0-1-1", None),
    (None, "+2024-01-05", None),
    (None, "2024--1-05", "2023-11-05T00:00"),
    (None, "1234567890-01-01", None),
    (None, "999999999-12-31", "+999999999-12-31T00:00"),
    (None, "999999999-13-01", None),
    (None, "19723", None),
    (None, "2024-01-05 ", None),
]


@pytest.mark.parametrize(("pattern", "text", "expected"), ANSWERS)
def test_times(pattern: str | None, text: str, expected: str | None) -> None:
    """Without a pattern, Paimon's own format counts."""
    formatter = DEFAULT if pattern is None else parse_pattern(pattern, "partition.timestamp-formatter")
    found = formatter.time_ns(text)
    assert (None if found is None else local_date_time_text(*divmod(found, 1_000_000))) == expected


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("yyyy-MMM-dd", "fewer letters M"),
        ("yyyy-MM-ddd", "fewer letters d"),
        ("yyyy-MM-dd aa", "fewer letters a"),
        ("yyyyMMddSSSSSSSSSS", "fewer letters S"),
        ("y" * 20, "fewer letters y"),
        ("DDDD", "fewer letters D"),
        ("EEE yyyy", "the letter E is not supported"),
        ("YYYY-MM-dd", "the letter Y is not supported"),
        ("yyyy-ww", "the letter w is not supported"),
        ("yyyyMMddz", "the letter z is not supported"),
        ("yyyyMMddj", "the letter j is not supported"),
        ("ppyyyy", "the letter p is not supported"),
        ("yyyy]", "a [ before each ]"),
        ("yyyy'T", "a quote at the end"),
        ("yyyy'", "a quote at the end"),
        ("yyyy{", "without {"),
        ("yyyy#", "without #"),
        ("", "1 to 1000 characters"),
        ("y-" * 501, "1 to 1000 characters"),
    ],
)
def test_refused_patterns(pattern: str, says: str) -> None:
    """The message names the option, and what is wrong with it."""
    with pytest.raises(FormatError) as caught:
        parse_pattern(pattern, "partition.timestamp-formatter")
    assert caught.value.code == "bad_option"
    assert str(caught.value).startswith("option partition.timestamp-formatter: ") and says in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "text",
    ["9" * 1_000_000, "2024-01-05 " + " " * 1_000_000, "\x00", "$dt", "\\", "\n", ""],
    ids=lambda text: ascii(text[:12]),
)
def test_hostile_texts_are_no_times(text: str) -> None:
    """Long texts do not take long either: each number has an end."""
    assert DEFAULT.time_ns(text) is None
    assert parse_pattern("yyyyMMdd[ HH:mm]", "o").time_ns(text) is None


def test_a_line_break_is_a_character_like_any_other() -> None:
    """A pattern that ends at a line break does not accept more than it says."""
    assert parse_pattern("yyyyMMdd", "o").time_ns("20240105\n") is None
    assert DEFAULT.time_ns("2024-01-05\n") is None
