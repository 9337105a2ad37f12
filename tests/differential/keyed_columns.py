"""Columns of tables with primary keys: types, values as the engine's driver says them, and Arrow of these."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from random import Random
from typing import Any

import pyarrow as pa

from tests.support.binary_row import parse_type

KEYS: Sequence[Sequence[str]] = (
    ("BIGINT",), ("BIGINT",), ("STRING",), ("STRING",), ("INT", "STRING"), ("INT", "STRING"), ("STRING", "STRING"),
    ("DECIMAL(20, 3)",), ("DATE", "TINYINT"), ("TIMESTAMP(6)",), ("TIMESTAMP(3)", "BOOLEAN"), ("DECIMAL(5, 2)",),
    ("SMALLINT", "TIMESTAMP_LTZ(6)"),
)  # fmt: skip
"""Types of primary keys, without those of partitions."""
TEXTS = (
    "", "a", "ab", "abc", "b", "é", "zz", "z" * 20, "z" * 21, "key with blanks", "\uffff", "\U0001f600", "\U0001f600a",
    "A", "0", "10", "9", "long " * 8, "long " * 8 + "x", "\x7f",
)  # fmt: skip
"""UTF-8 sorts some of them otherwise than UTF-16 would."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    type: str

    def some(self, random: Random, nulls: float = 0.0) -> Any:
        """Draw a value."""
        if random.random() < nulls:
            return None
        keyword, precision, scale = parse_type(self.type)
        if keyword in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
            bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[keyword]
            return random.choice((random.randint(-50, 50), random.randint(-50, 50), -(1 << bits), (1 << bits) - 1))
        if keyword == "BOOLEAN":
            return random.random() < 0.5
        if keyword == "DATE":
            return random.choice((-719_162, -1, 0, 19_720, 19_721, 2_932_896))
        if keyword == "DECIMAL":
            unscaled = random.choice((0, 1, -1, 10**precision - 1, 1 - 10**precision, random.randint(-(10**5), 10**5)))
            return f"{Decimal(unscaled).scaleb(-scale, _EXACT):f}"
        if keyword.startswith("TIMESTAMP"):
            moment = random.choice((-1, 0, 1, 1_704_164_645_678, -2_208_988_800_001))
            if precision == 0:
                return [moment // 1000 * 1000, 0]
            nanos = random.choice((0, 1000, 999_000, 999_999 if precision > 6 else 1000))
            return [abs(moment) if precision > 6 else moment, nanos if precision > 3 else 0]
        if keyword == "TIME":
            return random.randrange(86_400_000)
        if keyword == "CHAR":
            return random.choice(("", "a", "ab", "\uffff", "\U0001f600")).ljust(precision)
        return random.choice(TEXTS)

    def arrow(self, values: Sequence[Any]) -> pa.Array:
        """Return values as pypaimon takes them."""
        keyword, precision, scale = parse_type(self.type)
        match keyword:
            case "DECIMAL":
                known = [None if value is None else Decimal(value) for value in values]
                return pa.array(known, pa.decimal128(precision, scale))
            case "DATE":
                return pa.array(values, pa.int32()).cast(pa.date32())
            case "TIMESTAMP" | "TIMESTAMP_LTZ":
                unit, per_ms = ("ms", 1) if precision <= 3 else ("us", 1000) if precision <= 6 else ("ns", 10**6)
                numbers = [None if each is None else each[0] * per_ms + each[1] * per_ms // 10**6 for each in values]
                zone = "UTC" if keyword == "TIMESTAMP_LTZ" else None
                return pa.array(numbers, pa.int64()).cast(pa.timestamp(unit, zone))
        return pa.array(values, _ARROW[keyword])


_EXACT = Context(prec=40)
_ARROW = {
    "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_(),
    "STRING": pa.string(),
}  # fmt: skip


def text_of(values: Sequence[Any]) -> str:
    """Return values as one text that can be compared and hashed."""
    return json.dumps(values)
