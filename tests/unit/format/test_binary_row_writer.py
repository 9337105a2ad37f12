"""Binary rows are written byte by byte as Java and the tests' own encoder write them."""

import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import UnsupportedFormatError
from lakesweep.format.values.binary_row import Timestamp, decode_row
from lakesweep.format.values.binary_row_writer import encode_row
from lakesweep.format.values.data_type import parse_data_type
from tests.support import binary_row as independent
from tests.unit.format.row_samples import VALUES, VERIFIED

EPOCH = datetime(1970, 1, 1)
WITHOUT_ROOM = "00000001 00010000 00000000 00000000 00000000"
"""Null without the room of its type, as releases before 1.2 wrote it into statistics."""


def ours(value: Any) -> Any:
    """A value of the independent encoder as Lakesweep has it."""
    if isinstance(value, datetime):
        micros = (value - EPOCH) // timedelta(microseconds=1)
        return Timestamp(micros // 1000, micros % 1000 * 1000)
    return (value - EPOCH.date()).days if isinstance(value, date) else value


@st.composite
def rows(draw: st.DrawFn) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=draw(st.sampled_from((3, 70)))))
    return tuple(types), tuple(draw(st.none() | VALUES[type_]) for type_ in types)


@given(rows())
def test_the_independent_encoder_writes_the_same_bytes(row: tuple[tuple[str, ...], tuple[Any, ...]]) -> None:
    """Rows of all types, nulls and more than 56 fields: from values, and from the bytes read back."""
    names, values = row
    types = [parse_data_type(name, "p") for name in names]
    expected = independent.encode_row(names, values)
    assert encode_row([ours(value) for value in values], types) == expected
    assert encode_row(decode_row(expected, types, "p"), types) == expected


@pytest.mark.parametrize(
    ("names", "text", "values"), [row for row in VERIFIED if row[:2] != (("TIMESTAMP(6)",), WITHOUT_ROOM)]
)
def test_rows_that_java_and_pypaimon_wrote(names: tuple[str, ...], text: str, values: tuple[Any, ...]) -> None:
    assert encode_row(values, [parse_data_type(name, "p") for name in names]) == bytes.fromhex(text)


@given(st.integers(1 - 10**38, 10**38 - 1), st.integers(0, 999_999), st.integers(-(1 << 63), (1 << 63) - 1))
def test_the_longest_values(unscaled: int, nanos: int, epoch_ms: int) -> None:
    """38 digits, nanoseconds, and times beyond Python's own: what is read back is the same."""
    types = [parse_data_type(name, "p") for name in ("DECIMAL(38, 9)", "TIMESTAMP(9)", "TIMESTAMP(0)")]
    digits = tuple(map(int, str(abs(unscaled))))
    values = (Decimal((int(unscaled < 0), digits, -9)), Timestamp(epoch_ms, nanos), Timestamp(epoch_ms, 0))
    row = encode_row(values, types)
    assert decode_row(row, types, "p") == values
    assert len(row) == 4 + 8 + 3 * 8 + 16 + 8


def test_null_keeps_the_room_of_long_values() -> None:
    types = [parse_data_type(name, "p") for name in ("DECIMAL(19, 0)", "TIMESTAMP(4)", "DECIMAL(18, 0)", "STRING")]
    expected = (4).to_bytes(4, "big") + b"\x00\x0f" + bytes(6) + struct.pack("<QQQQ", 40 << 32, 56 << 32, 0, 0)
    assert encode_row([None] * 4, types) == expected + bytes(24)


def test_a_decimal_of_another_scale_is_the_same_number() -> None:
    type_ = parse_data_type("DECIMAL(5, 2)", "p")
    expected = encode_row([Decimal("12.30")], [type_])
    for text in ("12.3", "1.23E+1", "12.300"):
        assert encode_row([Decimal(text)], [type_]) == expected
    assert encode_row([Decimal("-0.00")], [type_]) == encode_row([Decimal(0)], [type_])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TINYINT", 128),
        ("INT", 1 << 31),
        ("BIGINT", 1 << 63),
        ("INT", True),
        ("BOOLEAN", 1),
        ("INT", "1"),
        ("DOUBLE", 1),
        ("FLOAT", 1e300),
        ("STRING", b"x"),
        ("BYTES", "x"),
        ("DECIMAL(3, 1)", Decimal("100")),
        ("DECIMAL(3, 1)", Decimal("1.25")),
        ("DECIMAL(3, 1)", Decimal("NaN")),
        ("DECIMAL(3, 1)", Decimal("Infinity")),
        ("DECIMAL(3, 1)", 1),
        ("DECIMAL(38, 0)", Decimal(10**38)),
        ("TIMESTAMP(3)", Timestamp(0, 1)),
        ("TIMESTAMP(6)", Timestamp(0, 1_000_000)),
        ("TIMESTAMP(6)", Timestamp(0, -1)),
        ("TIMESTAMP(6)", Timestamp(1 << 63, 0)),
        ("TIMESTAMP(6)", 0),
    ],
)
def test_values_that_do_not_fit(name: str, value: Any) -> None:
    type_ = parse_data_type(name, "p")
    with pytest.raises(ValueError, match=rf"^expected a value of the type {type_.root}( of precision \d+)?, found "):
        encode_row([value], [type_])


def test_a_row_has_a_value_for_each_type() -> None:
    with pytest.raises(ValueError, match=r"^expected a row of 1 values, found 2$"):
        encode_row([1, 2], [parse_data_type("INT", "p")])


@pytest.mark.parametrize("type_", ["VARIANT", "BLOB", {"type": "ARRAY", "element": "INT"}])
def test_types_that_are_no_partition_keys(type_: object) -> None:
    """They have no value in a row. Statistics have null for them."""
    with pytest.raises(UnsupportedFormatError, match=r"^expected a type that partition keys have, found "):
        encode_row([1], [parse_data_type(type_, "p")])
    assert encode_row([None], [parse_data_type(type_, "p")]) == encode_row([None], [parse_data_type("INT", "p")])
