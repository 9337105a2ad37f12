"""Statistics of new data files: they never rule out a row that is there."""

import math
import struct
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import Timestamp, decode_row
from lakesweep.format.values.data_type import DataField, parse_data_type
from lakesweep.operations.reading.types import arrow_type
from lakesweep.operations.writing.options import StatsMode, Writing, writing_of
from lakesweep.operations.writing.statistics import Statistics, upper

TRUNCATE = StatsMode("truncate", 4)
FULL = StatsMode("full")


def bounds(text: str, *batches: list[Any], mode: StatsMode = TRUNCATE) -> tuple[Any, Any, Any]:
    """Return the least value, the largest one, and the number of nulls, as an entry has them."""
    type_ = parse_data_type(text, "a type")
    writing = Writing("zstd", 1, 1, 1, "", "", {"c": mode}, is_dense=True)
    found = Statistics([DataField(0, "c", type_)], writing)
    for values in batches:
        found.add(pa.record_batch([pa.array(values, arrow_type(type_))], names=["c"]))
    low, high, nulls = found.result()
    (least,), (most,) = decode_row(low, (type_,), "bounds"), decode_row(high, (type_,), "bounds")
    assert nulls is not None
    return least, most, nulls[0]


@pytest.mark.parametrize(
    ("text", "batches", "expected"),
    [
        ("INT", ([3, None, 1], [7]), (1, 7, 1)),
        ("INT", ([None, None], []), (None, None, 2)),
        ("BIGINT", ([None], [5], [None]), (5, 5, 2)),
        ("BOOLEAN", ([True], [False]), (False, True, 0)),
        ("DECIMAL(20, 2)", ([Decimal("1.50"), Decimal("-2.25")],), (Decimal("-2.25"), Decimal("1.50"), 0)),
        ("STRING", (["abcdef", "b"], ["aa"]), ("aa", "b", 0)),
        ("STRING", (["abcdef", None],), ("abcd", "abce", 1)),
        ("STRING", (["\uffff", "\U00010000"],), ("\uffff", "\U00010000", 0)),
        ("STRING", (["\U0010ffff" * 5],), (None, None, 0)),
        ("BYTES", ([b"a", b"b"],), (None, None, 0)),
        ("TIMESTAMP(3)", ([datetime(1969, 12, 31, 23, 59, 59, 999000)],), (Timestamp(-1, 0), Timestamp(-1, 0), 0)),
    ],
)
def test_bounds(text: str, batches: tuple[list[Any], ...], expected: tuple[Any, Any, int]) -> None:
    assert bounds(text, *batches) == expected


def test_time_stamps_before_the_epoch_have_positive_nanoseconds() -> None:
    value = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert bounds("TIMESTAMP(6) WITH LOCAL TIME ZONE", [value])[0] == Timestamp(-1, 999_000)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("text", ["DOUBLE", "FLOAT"])
def test_a_nan_leaves_a_column_without_bounds(text: str, place: int) -> None:
    """In whichever batch it comes: readers do not agree how it compares."""
    batches = [[1.0, 2.0], [3.0], [None, 4.0]]
    assert bounds(text, *batches) == (1.0, 4.0, 1)
    batches[place] = [*batches[place], math.nan]
    assert bounds(text, *batches) == (None, None, 1)


@pytest.mark.parametrize("mode", [TRUNCATE, FULL])
@pytest.mark.parametrize("body", [b"\xff", b"\xe4\xb8" * 9, b"\0\xfe"])
def test_bytes_that_are_no_text_leave_a_column_without_bounds(mode: StatsMode, body: bytes) -> None:
    """Java writes them as they are."""
    data = pa.array([body, None], pa.binary())
    found = Statistics(
        [DataField(0, "c", parse_data_type("STRING", "a type"))],
        Writing("", 1, 1, 1, "", "", {"c": mode}, is_dense=True),
    )
    found.add(pa.record_batch([pa.Array.from_buffers(pa.string(), 2, data.buffers())], names=["c"]))
    low, high, nulls = found.result()
    types = (parse_data_type("STRING", "a type"),)
    assert (decode_row(low, types, "bounds"), decode_row(high, types, "bounds"), nulls) == ((None,), (None,), (1,))


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_zero_is_widened(zero: float) -> None:
    """Java orders -0.0 before 0.0, and SQL takes them for equal."""
    low, high, _ = bounds("DOUBLE", [zero])
    assert [struct.pack(">d", each) for each in (low, high)] == [struct.pack(">d", -0.0), struct.pack(">d", 0.0)]


@pytest.mark.parametrize("mode", [StatsMode("none"), StatsMode("counts")])
def test_modes_without_bounds(mode: StatsMode) -> None:
    if mode.mode == "counts":
        assert bounds("INT", [1, None], mode=mode) == (None, None, 1)
    else:
        writing = Writing("zstd", 1, 1, 1, "", "", {"c": mode}, is_dense=True)
        found = Statistics([DataField(0, "c", parse_data_type("INT", "a type"))], writing)
        assert found.result()[2] == ()
        assert writing.stats_cols == ()


@pytest.mark.parametrize("seed", range(4))
def test_cut_bounds_hold_every_text(seed: int) -> None:
    """By the bytes of UTF-8, in which Java and readers compare."""
    random_ = Random(seed)
    letters = ["a", "b", "\x7f", "é", "\ud7ff", "\uffff", "\U00010000", "\U0010ffff"]
    for _ in range(200):
        text = "".join(random_.choices(letters, k=random_.randint(1, 7)))
        above = upper(text, 3)
        assert above is None or (len(above) <= 3 and above.encode() >= text.encode()), text
        low, high, _ = bounds("STRING", [text])
        assert low is None or low.encode() <= text.encode() <= high.encode()


def test_all_modes_of_a_table_are_read() -> None:
    """The option of a column comes before that of the table."""
    fields = (DataField(0, "a", parse_data_type("INT", "a type")), DataField(1, "b", parse_data_type("INT", "a type")))
    options = {"metadata.stats-mode": "full", "fields.b.stats-mode": "none"}
    writing = writing_of(TableSchema(0, 3, fields, (), (), options, 0, None), fields)
    assert writing.modes == {"a": FULL, "b": StatsMode("none")}
    assert writing.stats_cols == ("a",)
