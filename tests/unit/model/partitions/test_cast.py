"""Texts of specs become values of each type, or are refused."""

import struct
from decimal import Decimal

import pytest

from lakesweep.errors import RefusedError
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataType, parse_data_type
from lakesweep.format.values.zone import parse_zone
from lakesweep.model.partitions.cast import cast, comparable

DAY_MS = 86_400_000
BERLIN = parse_zone("Europe/Berlin", "time_zone")


def type_of(text: str) -> DataType:
    return parse_data_type(text, "schema")


def single(number: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return found


@pytest.mark.parametrize(
    ("type_", "given", "expected"),
    [
        ("BOOLEAN", "true", True),
        ("BOOLEAN", "YES", True),
        ("BOOLEAN", "0", False),
        ("BOOLEAN", False, False),
        ("TINYINT", "+08", 8),
        ("TINYINT", -128, -128),
        ("SMALLINT", "32767", 32767),
        ("INT", "-2147483648", -(1 << 31)),
        ("INT", 20240101, 20240101),
        ("BIGINT", "9223372036854775807", (1 << 63) - 1),
        ("STRING", "", ""),
        ("STRING", "us,ca/=%\n$\\ ", "us,ca/=%\n$\\ "),
        ("CHAR(2)", "ab", "ab"),
        ("VARCHAR(2)", "\u65e5\U0001f600", "\u65e5\U0001f600"),
        ("DOUBLE", "1.5", 1.5),
        ("DOUBLE", "-Infinity", float("-inf")),
        ("DOUBLE", 1.5, 1.5),
        ("FLOAT", "0.1", single(0.1)),
        ("FLOAT", "1.5", 1.5),
        ("FLOAT", Decimal("0.5"), 0.5),
        ("DECIMAL(4, 2)", "1", Decimal("1.00")),
        ("DECIMAL(4, 2)", "-99.99", Decimal("-99.99")),
        ("DECIMAL(4, 2)", "1E1", Decimal("10")),
        ("DECIMAL(4, 2)", "1.5000", Decimal("1.5")),
        ("DECIMAL(4, 2)", Decimal("1.25"), Decimal("1.25")),
        ("DECIMAL(38, 0)", "9" * 38, Decimal("9" * 38)),
        ("DECIMAL(4, 2)", "-0.000", Decimal(0)),
        ("DATE", "2024-01-01", 19723),
        ("DATE", "2024-1-1", 19723),
        ("DATE", "1969-12-31", -1),
        ("DATE", "19723", 19723),
        ("DATE", 19723, 19723),
        ("DATE", "20240101", 20240101),  # days, as in Paimon
        ("TIME(3)", "08:30:00.250", 30_600_250),
        ("TIME(0)", "36672000", 36_672_000),
        ("TIMESTAMP(3)", "1700000000000", Timestamp(1_700_000_000_000, 0)),
        ("TIMESTAMP(3)", "2024-01-01", Timestamp(19723 * DAY_MS, 0)),
        ("TIMESTAMP(6)", "2024-1-1 0:0:1.000001", Timestamp(19723 * DAY_MS + 1000, 1000)),
        ("TIMESTAMP(9)", "1969-12-31 23:59:59.999999999", Timestamp(-1, 999_999)),
        ("TIMESTAMP(3)", "2024-01-01T00:00", Timestamp(19723 * DAY_MS, 0)),
        ("TIMESTAMP(3)", "2024-01-01T00:00:01.500", Timestamp(19723 * DAY_MS + 1500, 0)),
        (
            "TIMESTAMP(3) WITH LOCAL TIME ZONE",
            "2024-01-01 01:00:00",
            Timestamp(19723 * DAY_MS, 0),
        ),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-01-01T01:00Z", Timestamp(19723 * DAY_MS + 3_600_000, 0)),
    ],
)
def test_values(type_: str, given: object, expected: object) -> None:
    """The zone matters for the last type alone."""
    found = cast(given, "k", type_of(type_), BERLIN)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        ("BOOLEAN", "on"),
        ("BOOLEAN", 1),
        ("TINYINT", "128"),
        ("SMALLINT", "-32769"),
        ("INT", "2147483648"),
        ("INT", "1.0"),
        ("INT", " 1"),
        ("INT", "1\n"),
        ("INT", ""),
        ("INT", "\u0663"),
        ("INT", "1_0"),
        ("INT", True),
        ("INT", 1.0),
        ("INT", [1]),
        ("INT", {}),
        ("BIGINT", "9223372036854775808"),
        pytest.param("BIGINT", "9" * 1_000_000, id="a long text"),
        pytest.param("BIGINT", 10**5000, id="a large number"),
        ("STRING", 8),
        ("STRING", True),
        ("STRING", "\ud800"),
        ("CHAR(2)", "abc"),
        ("DOUBLE", "1e400"),
        ("DOUBLE", "inf"),
        ("DOUBLE", "1.5f"),
        ("DOUBLE", " 1"),
        ("DOUBLE", "1\n"),
        ("DOUBLE", True),
        ("FLOAT", "0.1000000001"),
        ("FLOAT", "1e39"),
        ("DECIMAL(4, 2)", "12345"),
        ("DECIMAL(4, 2)", "100"),
        ("DECIMAL(4, 2)", "1.005"),
        ("DECIMAL(4, 2)", "1e9999"),
        ("DECIMAL(4, 2)", "1e-9999"),
        ("DECIMAL(4, 2)", "NaN"),
        ("DATE", "2024-01"),
        ("DATE", "2024-02-30"),
        ("DATE", "2024-01-01 10:00"),
        ("DATE", "2147483648"),
        ("DATE", "2024-01-01\n"),
        ("DATE", ""),
        ("TIME(3)", "24:00:00"),
        ("TIME(3)", "86400000"),
        ("TIMESTAMP(3)", "2024-02-30"),
        ("TIMESTAMP(3)", "2024-01-01 24:00:00"),
        ("TIMESTAMP(3)", "2024-01-01 00:00"),
        ("TIMESTAMP(3)", "2024-01-01 00:00:00.0001"),
        ("TIMESTAMP(3)", "0000-01-01"),
        ("TIMESTAMP(3)", "2024-01-01T00:00Z"),
        ("TIMESTAMP(3)", "99999999999999999999"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-01-01T01:00"),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-10-27 02:30:00"),  # shown twice
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "2024-03-31 02:30:00"),  # never shown
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "1700000000000"),
        ("BYTES", "abc"),
        ("BINARY(3)", "abc"),
        ("VARIANT", "1"),
    ],
)
def test_refused_values(type_: str, given: object) -> None:
    """Paimon reads some of these as something else than they seem to be."""
    with pytest.raises(RefusedError) as caught:
        cast(given, "k", type_of(type_), BERLIN)
    assert caught.value.code == "bad_partition"
    assert "partition key k" in str(caught.value) and "expected" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_time_of_a_zone_needs_a_zone() -> None:
    """A time in UTC does not."""
    type_ = type_of("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    with pytest.raises(RefusedError) as caught:
        cast("2024-01-01 00:00:00", "k", type_)
    assert caught.value.code == "zone_not_declared"
    assert cast("2024-01-01T00:00:00Z", "k", type_) == Timestamp(19723 * DAY_MS, 0)


def test_floats_are_equal_by_their_bits() -> None:
    """As partitions are in Paimon: the two zeros differ, and NaN is one value."""
    assert comparable(0.0) != comparable(-0.0)
    assert comparable(cast("NaN", "k", type_of("DOUBLE"))) == comparable(float("nan"))
    assert comparable("x") == "x"
