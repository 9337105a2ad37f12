"""Tags: a snapshot document with a creation time and a time to live."""

import json
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.format.tag import Tag, parse_tag, tag_body
from tests.unit.format.samples import SNAPSHOT

SECOND = 1_000_000_000


def tag(**fields: object) -> Tag:
    return parse_tag(json.dumps(SNAPSHOT | fields).encode(), "tag/tag-a")


def retained(text: str) -> int | None:
    return parse_tag(
        json.dumps(SNAPSHOT).encode()[:-1] + f', "tagTimeRetained": {text}}}'.encode(), "p"
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


ALL_FIELDS = """{
  "version" : 3,
  "id" : 7,
  "schemaId" : 2,
  "baseManifestList" : "b",
  "baseManifestListSize" : 10,
  "deltaManifestList" : "d",
  "deltaManifestListSize" : 11,
  "changelogManifestList" : "c",
  "changelogManifestListSize" : 12,
  "indexManifest" : "i",
  "commitUser" : "u \\"q\\" \\\\ \\u0001\\u001F\\b\\t\\n\\f\\r\x7f\u2028 / \u00e9 \u6f22 \U0001f600",
  "commitIdentifier" : 9223372036854775807,
  "commitKind" : "APPEND",
  "timeMillis" : 1700000000000,
  "totalRecordCount" : 5,
  "deltaRecordCount" : -1,
  "changelogRecordCount" : 0,
  "watermark" : -9223372036854775808,
  "statistics" : "s",
  "properties" : {
    "b" : "1",
    "a" : "x"
  },
  "nextRowId" : 9
}"""
"""A snapshot as Java prints it."""

A_DAY = 86_400 * SECOND


def body_of(snapshot: str, create_time: datetime | None = None, nanos: int | None = None) -> str:
    return tag_body(snapshot.encode(), "p", create_time, nanos).decode()


def test_a_tag_is_its_snapshot_as_the_engine_prints_it() -> None:
    """Without a time to live it has no field of its own, whatever the source was printed like."""
    assert body_of(ALL_FIELDS) == ALL_FIELDS
    flat = json.dumps(json.loads(ALL_FIELDS), sort_keys=True)
    assert body_of(flat).replace('"a" : "x",\n    "b" : "1"', '"b" : "1",\n    "a" : "x"') == ALL_FIELDS


def test_a_tag_with_a_time_to_live() -> None:
    """Printed by Java: a day, made when a day began."""
    expected = (
        ALL_FIELDS[:-2] + ',\n  "tagCreateTime" : [ 2024, 3, 1, 0, 0 ],\n  "tagTimeRetained" : 86400.000000000\n}'
    )
    assert body_of(ALL_FIELDS, datetime(2024, 3, 1), A_DAY) == expected
    assert body_of(ALL_FIELDS, datetime(2024, 3, 1)) == ALL_FIELDS, "the time of creation goes with a time to live"
    with pytest.raises(ValueError, match="without the time of creation"):
        body_of(ALL_FIELDS, None, A_DAY)


@pytest.mark.parametrize(
    ("time", "array"),
    [
        (datetime(2024, 3, 1), "[ 2024, 3, 1, 0, 0 ]"),
        (datetime(2024, 3, 1, 23, 59), "[ 2024, 3, 1, 23, 59 ]"),
        (datetime(2024, 3, 1, 0, 0, 5), "[ 2024, 3, 1, 0, 0, 5 ]"),
        (datetime(2024, 3, 1, 0, 0, 0, 1), "[ 2024, 3, 1, 0, 0, 0, 1000 ]"),
        (datetime(2024, 12, 31, 23, 59, 59, 999_999), "[ 2024, 12, 31, 23, 59, 59, 999999000 ]"),
    ],
)
def test_times_of_creation_as_printed_by_java(time: datetime, array: str) -> None:
    found = body_of(ALL_FIELDS, time, 1)
    assert f'"tagCreateTime" : {array},' in found
    assert parse_tag(found.encode(), "p").create_time == time


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "0.0"),
        (1, "1E-9"),
        (10, "1.0E-8"),
        (100, "1.00E-7"),
        (999, "9.99E-7"),
        (1000, "0.000001000"),
        (1001, "0.000001001"),
        (1_000_000, "0.001000000"),
        (500_000_000, "0.500000000"),
        (1_500_000_000, "1.500000000"),
        (A_DAY, "86400.000000000"),
        (A_DAY + 1, "86400.000000001"),
        (-1, "-1E-9"),
        (-1000, "-0.000001000"),
        (-1_500_000_000, "-1.500000000"),
        (-5_271_088_147_419_103_232, "-5271088147.419103232"),
    ],
)
def test_times_to_live_as_printed_by_java(nanos: int, text: str) -> None:
    found = body_of(ALL_FIELDS, datetime(2024, 3, 1), nanos)
    assert f'"tagTimeRetained" : {text}\n}}' in found
    assert parse_tag(found.encode(), "p").time_retained_ns == nanos


def test_fields_of_other_versions_stay() -> None:
    """Known ones at their place, unknown ones behind them and before the tag's own; numbers as they are written."""
    document = json.loads(ALL_FIELDS) | {"uuid": "u", "writerVersion": "w", "operation": "WRITE"}
    text = json.dumps(document)[:-1] + ', "later": {"a": [1.50, {}]}, "nothing": null}'
    names = [
        line.split('"')[1] for line in body_of(text, datetime(2024, 3, 1), 1).splitlines() if line.startswith('  "')
    ]
    assert names[:3] == ["version", "uuid", "id"]
    assert names[names.index("commitUser") + 1] == "writerVersion"
    assert names[-6:] == ["nextRowId", "operation", "later", "nothing", "tagCreateTime", "tagTimeRetained"]
    assert '"later" : {\n    "a" : [ 1.50, { } ]\n  },\n  "nothing" : null\n}' in body_of(text)


def test_the_source_may_be_another_tag() -> None:
    """Its time to live is not inherited, and neither is one that does not parse."""
    source = body_of(ALL_FIELDS, datetime(2024, 3, 1), A_DAY)
    assert body_of(source) == ALL_FIELDS
    assert '"tagTimeRetained" : 2.000000000' in body_of(source, datetime(2024, 4, 1), 2 * SECOND)
    assert body_of(source.replace("86400.000000000", '"soon"')) == ALL_FIELDS


def test_optional_fields_that_are_null_are_left_out() -> None:
    text = ALL_FIELDS.replace('"indexManifest" : "i"', '"indexManifest" : null').replace('"b" : "1"', '"b" : null')
    found = body_of(text)
    assert "indexManifest" not in found
    assert '"b" : null' in found, "what is inside stays"
    assert '"properties" : { }' in body_of(json.dumps(json.loads(ALL_FIELDS) | {"properties": {}}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        ALL_FIELDS[:-1],
        ALL_FIELDS.replace('"id" : 7', '"id" : "7"'),
        ALL_FIELDS.replace("commitUser", "user"),
    ],
)
def test_no_tag_of_what_is_no_snapshot(text: str) -> None:
    with pytest.raises(FormatError):
        body_of(text)


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)), st.integers(-(10**27), 10**27))
def test_what_is_written_is_read(time: datetime, nanos: int) -> None:
    found = parse_tag(body_of(ALL_FIELDS, time, nanos).encode(), "p")
    assert (found.create_time, found.time_retained_ns) == (time, nanos)
    assert found.snapshot == parse_tag(ALL_FIELDS.encode(), "p").snapshot
