"""Partition paths as Paimon names directories."""

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import UnsupportedFormatError
from lakesweep.format.values import partition_path as java_text
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import parse_data_type
from lakesweep.format.values.partition_path import escape, partition_path

AT = Timestamp(1_704_164_645_123, 456_000)  # 2024-01-02T03:04:05.123456
MINUTE = Timestamp(1_704_164_640_000, 0)
SECOND = Timestamp(1_704_164_645_000, 0)


def path(type_: str, value: object, *, legacy_name: bool = True) -> str:
    whole = partition_path(
        ["k"], [parse_data_type(type_, "p")], [value], default_name="DEFAULT", legacy_name=legacy_name
    )
    assert whole.startswith("k=") and whole.endswith("/")
    return whole[2:-1]


@pytest.mark.parametrize(
    ("type_", "value", "legacy", "plain"),
    [
        ("STRING", "x", "x", "x"),
        ("INT", 10, "10", "10"),
        ("BIGINT", -(2**40), "-1099511627776", "-1099511627776"),
        ("BOOLEAN", True, "true", "true"),
        ("BOOLEAN", False, "false", "false"),
        ("DECIMAL(10, 2)", Decimal("12.30"), "12.30", "12.30"),
        ("DECIMAL(38, 0)", Decimal("1E+20"), "100000000000000000000", "100000000000000000000"),
        ("DECIMAL(20, 10)", Decimal("1E-10"), "0.0000000001", "0.0000000001"),
        ("FLOAT", 1.5, "1.5", "1.5"),
        ("DOUBLE", 1e10, "1.0E10", "1.0E10"),
        ("DATE", 19724, "19724", "2024-01-02"),
        ("DATE", -1, "-1", "1969-12-31"),
        ("TIME", 3_723_000, "3723000", "01%3A02%3A03"),
        ("TIME(3)", 3_723_050, "3723050", "01%3A02%3A03.05"),
        ("TIME(1)", 3_723_050, "3723050", "01%3A02%3A03.0"),
        ("TIMESTAMP(6)", AT, "2024-01-02T03%3A04%3A05.123456", "2024-01-02 03%3A04%3A05.123456"),
        ("TIMESTAMP(3)", MINUTE, "2024-01-02T03%3A04", "2024-01-02 03%3A04%3A00.000"),
        ("TIMESTAMP(0)", SECOND, "2024-01-02T03%3A04%3A05", "2024-01-02 03%3A04%3A05"),
        ("TIMESTAMP(9)", Timestamp(0, 1), "1970-01-01T00%3A00%3A00.000000001", "1970-01-01 00%3A00%3A00.000000001"),
        ("TIMESTAMP(3)", Timestamp(1500, 0), "1970-01-01T00%3A00%3A01.500", "1970-01-01 00%3A00%3A01.500"),
        ("TIMESTAMP(3)", Timestamp(-1, 0), "1969-12-31T23%3A59%3A59.999", "1969-12-31 23%3A59%3A59.999"),
    ],
)
def test_values(type_: str, value: object, legacy: str, plain: str) -> None:
    assert path(type_, value) == legacy
    assert path(type_, value, legacy_name=False) == plain


def test_the_writers_own_zone_is_unknown() -> None:
    type_ = "TIMESTAMP(3) WITH LOCAL TIME ZONE"
    assert path(type_, MINUTE) == "2024-01-02T03%3A04"
    with pytest.raises(UnsupportedFormatError) as raised:
        path(type_, MINUTE, legacy_name=False)
    assert raised.value.code == "unsupported_partition"
    with pytest.raises(UnsupportedFormatError):
        path("BYTES", b"x")


@pytest.mark.parametrize("value", [None, "", " ", "\t\n", "\u2003", "\u3000"])
def test_blank_values_take_the_default_name(value: object) -> None:
    assert path("STRING", value) == "DEFAULT"


@pytest.mark.parametrize("value", ["\u00a0", "\u2007", "\u202f", "\u0085", " \u00a0", "\u200b", "0"])
def test_what_java_does_not_call_blank(value: str) -> None:
    assert path("STRING", value) == value


def test_several_keys() -> None:
    types = [parse_data_type("STRING", "p"), parse_data_type("INT", "p")]
    assert partition_path(["a", "b=c"], types, ["x/y", 1]) == "a=x%2Fy/b%3Dc=1/"
    assert partition_path(["a", "b"], types, [None, None]) == "a=__DEFAULT_PARTITION__/b=__DEFAULT_PARTITION__/"
    assert partition_path([], [], []) == ""


def test_escapes() -> None:
    assert escape("a/b c=%:é") == "a%2Fb c%3D%25%3Aé"
    assert escape("\x00\x1f\x7f") == "%00%1F%7F"
    assert escape("\"#%'*/:=?\\{}[]^") == "%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%7D%5B%5D%5E"
    plain = " !$&()+,-.0129;<>@AZ_`az|~\x80é日"
    assert escape(plain) == plain


@given(st.text())
def test_an_escaped_text_is_one_path_part(text: str) -> None:
    assert "/" not in escape(text)
    assert "=" not in escape(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1e-5, "1.0E-5"),
        (1e21, "1.0E21"),
        (1e23, "1.0E23"),
        (-2.5e-10, "-2.5E-10"),
        (5e-324, "4.9E-324"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    assert java_text.double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.10000000149011612, "0.1"),
        (0.30000001192092896, "0.3"),
        (16777216.0, "1.6777216E7"),
        (3.4028234663852886e38, "3.4028235E38"),
        (1.401298464324817e-45, "1.4E-45"),
        (-1.5, "-1.5"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_floats(value: float, text: str) -> None:
    assert java_text.float_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_read_back(value: float) -> None:
    assert float(java_text.double_text(value)) == value


@given(st.dates())
def test_dates(date: datetime.date) -> None:
    epoch_day = (date - datetime.date(1970, 1, 1)).days
    assert java_text.civil_date(epoch_day) == (date.year, date.month, date.day)
    assert java_text.date_text(epoch_day) == date.isoformat()


def test_dates_beyond_pythons() -> None:
    assert java_text.civil_date(2_932_897) == (10000, 1, 1)
    assert java_text.local_date_time_text(253_402_300_800_000, 0) == "+10000-01-01T00:00"
    assert java_text.civil_date(-719_529) == (-1, 12, 31)
    assert java_text.local_date_time_text(-62_167_219_200_001, 0) == "-0001-12-31T23:59:59.999"
