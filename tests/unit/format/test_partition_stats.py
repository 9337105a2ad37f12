"""Statistics of partitions, value by value as Java compares them."""

import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.partition_stats import PartitionStats
from lakesweep.format.values.binary_row import Timestamp, decode_row
from lakesweep.format.values.binary_row_writer import encode_row
from lakesweep.format.values.data_type import parse_data_type
from tests.support import binary_row as independent
from tests.support import metadata_files
from tests.unit.format.row_samples import VALUES

from .samples import EMPTY_ROW


def collected(names: tuple[str, ...], rows: list[bytes]) -> tuple[bytes, bytes, tuple[int, ...]]:
    stats = PartitionStats([parse_data_type(name, "p") for name in names], "p")
    for row in rows:
        stats.add(row)
    return stats.result()


def extremes(name: str, *values: Any) -> tuple[Any, Any]:
    """The smallest and the largest of some values in one column, whatever their order."""
    types = [parse_data_type(name, "p")]
    found = set()
    for ordered in (values, values[::-1]):
        low, high, nulls = collected((name,), [encode_row([value], types) for value in ordered])
        assert nulls == (sum(value is None for value in values),)
        found.add((low, high))
    ((low, high),) = found
    return decode_row(low, types, "p")[0], decode_row(high, types, "p")[0]


@pytest.mark.parametrize(
    ("name", "smallest", "between", "largest"),
    [
        ("BOOLEAN", False, False, True),
        ("INT", -(2**31), 0, 2**31 - 1),
        ("STRING", "", "\U0001f600"[:0] + "a", "b"),
        ("STRING", "\uffff", "\U00010000", "\U0010ffff"),
        ("STRING", "Z", "a", "\xe9"),
        ("STRING", "abcdefg", "abcdefgh", "abcdefghi"),
        ("CHAR(3)", "a", "a ", "b"),
        ("DECIMAL(5, 2)", Decimal("-9.99"), Decimal("-1.00"), Decimal("10.00")),
        ("DECIMAL(38, 2)", Decimal(-(10**30)).scaleb(-2), Decimal("0.00"), Decimal("10.00")),
        ("TIMESTAMP(3)", Timestamp(-1, 0), Timestamp(0, 0), Timestamp(1, 0)),
        ("TIMESTAMP(9)", Timestamp(-1, 999_999), Timestamp(5, 1), Timestamp(5, 2)),
        ("DATE", -1, 0, 1),
        ("DOUBLE", -math.inf, 1e300, math.inf),
        ("FLOAT", -1.5, -0.5, 2.0),
    ],
)
def test_orders(name: str, smallest: Any, between: Any, largest: Any) -> None:
    """UTF-8 beyond U+FFFF is where Java's own texts, in UTF-16, have another order."""
    assert extremes(name, between, smallest, None, largest, between) == (smallest, largest)


@pytest.mark.parametrize("name", ["FLOAT", "DOUBLE"])
def test_floats_as_java_compares_them(name: str) -> None:
    """-0.0 is less than 0.0, and NaN is greater than infinity."""
    low, high = extremes(name, 0.0, -0.0)
    assert (math.copysign(1, low), math.copysign(1, high)) == (-1, 1)
    low, high = extremes(name, math.nan, math.inf, -math.inf)
    assert low == -math.inf
    assert math.isnan(high)
    low, high = extremes(name, math.nan)
    assert math.isnan(low)
    assert math.isnan(high)


def test_of_equal_values_the_first_counts() -> None:
    """Two NaN of other bits: Java keeps the first."""
    first, second = (
        bytes.fromhex("00000001") + bytes(8) + struct.pack("<Q", bits) for bits in (0x7FF8 << 48, 0xFFF8 << 48)
    )
    assert collected(("DOUBLE",), [first, second])[:2] == (first, first)
    assert collected(("DOUBLE",), [second, first])[:2] == (second, second)


@pytest.mark.parametrize("name", ["BYTES", "BINARY(3)"])
def test_bytes_have_no_order(name: str) -> None:
    assert extremes(name, b"a", None, b"b") == (None, None)


def test_text_that_is_no_utf_8() -> None:
    """It is compared as bytes, and so never hides a partition."""
    low, high = (bytes.fromhex("00000001") + bytes(8) + bytes((0xC0, 0x80 + n, *bytes(5), 0x82)) for n in (0, 1))
    assert collected(("STRING",), [high, low]) == (low, high, (0,))


def test_only_null() -> None:
    names = ("STRING", "DECIMAL(20, 0)")
    row = independent.encode_row(names, (None, None))
    assert collected(names, [row] * 3) == (row, row, (3, 3))


def test_null_without_the_room_of_its_type() -> None:
    """As old releases wrote it; the statistics have the room."""
    short = bytes.fromhex("00000001 00010000 00000000 00000000 00000000")
    row = independent.encode_row(("TIMESTAMP(6)",), (None,))
    assert collected(("TIMESTAMP(6)",), [short]) == (row, row, (1,))


def test_a_table_without_partition_keys() -> None:
    assert collected((), [EMPTY_ROW] * 2) == (EMPTY_ROW, EMPTY_ROW, ())
    assert collected((), []) == (EMPTY_ROW, EMPTY_ROW, ())


def test_other_rows_and_types_are_refused() -> None:
    with pytest.raises(FormatError, match=r"^p: expected a row of 1 fields, found 0$"):
        collected(("INT",), [EMPTY_ROW])
    with pytest.raises(UnsupportedFormatError, match=r"^p: expected a type that partition keys have, found VARIANT$"):
        collected(("VARIANT",), [independent.encode_row(("INT",), (1,))])


COMPARED = sorted(VALUES.keys() - {"BYTES", "BINARY(8)", "FLOAT", "DOUBLE"})


@given(st.data())
def test_random_partitions(data: st.DataObject) -> None:
    """The tests' own writer makes the same rows; it compares Python's values."""
    names = tuple(data.draw(st.lists(st.sampled_from(COMPARED), max_size=4)))
    row = st.tuples(*(st.none() | VALUES[name] for name in names))
    partitions = data.draw(st.lists(row, min_size=1, max_size=8))
    expected = metadata_files._partition_stats(names, partitions)
    found = collected(names, [independent.encode_row(names, values) for values in partitions])
    assert found == (expected["_MIN_VALUES"], expected["_MAX_VALUES"], tuple(expected["_NULL_COUNTS"]))
