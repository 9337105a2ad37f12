"""Binary rows that Java and pypaimon wrote, and values of each type."""

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from lakesweep.format.values.binary_row import Timestamp

ONE = "00000001 00000000 00000000 "

VERIFIED = [
    ((), "00000000 00000000 00000000", ()),
    (("INT",), ONE + "0a000000 00000000", (10,)),
    (("BOOLEAN",), ONE + "01000000 00000000", (True,)),
    (("TINYINT",), ONE + "fd000000 00000000", (-3,)),
    (("SMALLINT",), ONE + "2c010000 00000000", (300,)),
    (("BIGINT",), ONE + "00000000 00010000", (2**40,)),
    (("FLOAT",), ONE + "0000c03f 00000000", (1.5,)),
    (("DOUBLE",), ONE + "00000020 5fa00242", (1e10,)),
    (("STRING",), ONE + "61626364 65666787", ("abcdefg",)),
    (("STRING",), ONE + "08000000 10000000 61626364 65666768", ("abcdefgh",)),
    (("STRING",), ONE + "00000000 00000080", ("",)),
    (("STRING",), ONE + "20000000 00000081", (" ",)),
    (("STRING",), "00000001 00010000 00000000 00000000 00000000", (None,)),
    (
        ("STRING", "INT"),
        "00000002 00000000 00000000 416c6963 65000085 01000000 00000000",
        ("Alice", 1),
    ),
    (("DATE",), ONE + "0c4d0000 00000000", (19724,)),
    (("DECIMAL(10, 2)",), ONE + "d2040000 00000000", (Decimal("12.34"),)),
    (
        ("DECIMAL(20, 2)",),
        ONE + "02000000 10000000 fb2e0000 00000000 00000000 00000000",
        (Decimal("-12.34"),),
    ),
    (("TIMESTAMP(3)",), ONE + "00c520c8 8c010000", (Timestamp(1_704_164_640_000, 0),)),
    (
        ("TIMESTAMP(6)",),
        ONE + "40f50600 10000000 03d920c8 8c010000",
        (Timestamp(1_704_164_645_123, 456_000),),
    ),
    (("TIMESTAMP(6)",), "00000001 00010000 00000000 00000000 10000000 00000000 00000000", (None,)),
    (("TIMESTAMP(6)",), "00000001 00010000 00000000 00000000 00000000", (None,)),
    (("DECIMAL(20, 2)",), "00000001 00010000 00000000 00000000 10000000 " + "00" * 16, (None,)),
    (("TIME",), ONE + "80ee3600 00000000", (3_600_000,)),
    (("BYTES",), ONE + "61620000 00000082", (b"ab",)),
    (("TIMESTAMP(3) WITH LOCAL TIME ZONE",), ONE + "ffffffff ffffffff", (Timestamp(-1, 0),)),
]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-(1 << 7), (1 << 7) - 1),
    "SMALLINT": st.integers(-(1 << 15), (1 << 15) - 1),
    "INT": st.integers(-(1 << 31), (1 << 31) - 1),
    "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DATE": st.dates(),
    "STRING": TEXTS,
    "CHAR(9)": TEXTS,
    "BYTES": st.binary(max_size=20),
    "BINARY(8)": st.binary(max_size=8),
    "DECIMAL(9, 2)": st.integers(1 - 10**9, 10**9 - 1).map(lambda number: Decimal(number).scaleb(-2)),
    "DECIMAL(18, 0)": st.integers(1 - 10**18, 10**18 - 1).map(Decimal),
    "DECIMAL(28, 9)": st.integers(1 - 10**28, 10**28 - 1).map(lambda number: Decimal(number).scaleb(-9)),
    "TIMESTAMP(3)": st.datetimes().map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    "TIMESTAMP(6)": st.datetimes(),
    "TIMESTAMP_LTZ(6)": st.datetimes(),
}
