"""The tests' own binary rows against bytes that engines wrote."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.binary_row import decode_row, encode_row, partition_path

ROWS = [
    ((), (), "00000000 00000000 00000000"),
    (("INT",), (10,), "00000001 00000000 00000000 0a000000 00000000"),
    (("BOOLEAN",), (True,), "00000001 00000000 00000000 01000000 00000000"),
    (("TINYINT",), (-3,), "00000001 00000000 00000000 fd000000 00000000"),
    (("SMALLINT",), (300,), "00000001 00000000 00000000 2c010000 00000000"),
    (("BIGINT",), (1 << 40,), "00000001 00000000 00000000 00000000 00010000"),
    (("FLOAT",), (1.5,), "00000001 00000000 00000000 0000c03f 00000000"),
    (("DOUBLE",), (1e10,), "00000001 00000000 00000000 00000020 5fa00242"),
    (("STRING",), ("abcdefg",), "00000001 00000000 00000000 61626364 65666787"),
    (("STRING",), ("abcdefgh",), "00000001 00000000 00000000 08000000 10000000 61626364 65666768"),
    (("STRING",), ("",), "00000001 00000000 00000000 00000000 00000080"),
    (("STRING",), (" ",), "00000001 00000000 00000000 20000000 00000081"),
    (("STRING",), (None,), "00000001 00010000 00000000 00000000 00000000"),
    (("STRING", "INT"), ("Alice", 1), "00000002 00000000 00000000 416c6963 65000085 01000000 00000000"),
    (("DATE",), (date(2024, 1, 2),), "00000001 00000000 00000000 0c4d0000 00000000"),
    (("DECIMAL(10, 2)",), (Decimal("12.34"),), "00000001 00000000 00000000 d2040000 00000000"),
    (
        ("DECIMAL(20, 2)",),
        (Decimal("-12.34"),),
        "00000001 00000000 00000000 02000000 10000000 fb2e0000 00000000 00000000 00000000",
    ),
    (("TIMESTAMP(3)",), (datetime(2024, 1, 2, 3, 4),), "00000001 00000000 00000000 00c520c8 8c010000"),
    (
        ("TIMESTAMP(6)",),
        (datetime(2024, 1, 2, 3, 4, 5, 123456),),
        "00000001 00000000 00000000 40f50600 10000000 03d920c8 8c010000",
    ),
    (("TIMESTAMP(6)",), (None,), "00000001 00010000 00000000 00000000 10000000 00000000 00000000"),
]


@pytest.mark.parametrize(("types", "values", "expected"), ROWS)
def test_a_row_is_what_engines_write(types: tuple[str, ...], values: tuple[Any, ...], expected: str) -> None:
    data = bytes.fromhex(expected)
    assert encode_row(types, values) == data
    assert decode_row(types, data) == values


def test_a_row_of_many_columns_has_a_wider_null_region() -> None:
    types, values = ("INT",) * 57, (*range(56), None)
    data = encode_row(types, values)
    assert len(data) == 4 + 16 + 57 * 8
    assert decode_row(types, data) == values


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-01-01", "k=2024-01-01/"),
        (7, "k=7/"),
        (True, "k=true/"),
        (None, "k=__DEFAULT_PARTITION__/"),
        ("", "k=__DEFAULT_PARTITION__/"),
        (" ", "k=__DEFAULT_PARTITION__/"),
        ("a/b c=%:é", "k=a%2Fb c%3D%25%3Aé/"),
        (date(2024, 1, 2), "k=19724/"),
        (datetime(2024, 1, 2, 3, 4), "k=2024-01-02T03%3A04/"),
        (datetime(2024, 1, 2, 3, 4, 5, 123000), "k=2024-01-02T03%3A04%3A05.123/"),
    ],
)
def test_the_folder_of_a_partition(value: Any, expected: str) -> None:
    assert partition_path(("k",), (value,)) == expected


def test_the_folder_of_a_date_by_its_new_name() -> None:
    assert partition_path(("k",), (date(2024, 1, 2),), legacy_name=False) == "k=2024-01-02/"
