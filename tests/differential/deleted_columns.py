"""Columns of tables whose rows are deleted by conditions: types, values, and how others are told of these.

A column has the name of a type of `tests.support.conditions`, whose conditions look at it, while it has that name.
Values are those of its rows: whole numbers for days and times, and so on.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from lakesweep.format.values.data_type import DataField, parse_data_type
from tests.support.conditions import NANOS, TYPES, as_float, value_of

ROW_ID = "rid"
"""Numbers the rows. It is never changed or dropped."""
NARROW = {"si": "TINYINT", "i": "SMALLINT", "bi": "INT", "d": "FLOAT", "dec": "DECIMAL(8, 2)"}
"""Column -> the type that it may have before it is widened."""
KEYS = ("ti", "i", "bi", "d", "dec", "s", "bo", "dt", "ts")
"""What partition keys may be."""
_KEY_VALUES: dict[str, tuple[Any, ...]] = {
    "d": (0.0, -0.0, 2.5),
    "s": ("a", "b", "é", "a b", "%", "_"),
    "dt": (0, 19_720, 19_721),
    "ts": (0, 1_704_067_200_000_000, 1_704_067_200_000_001),
}
"""Of the others the values of columns do, which are as good for the names of folders."""
_BITS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31}
_LARGEST = Decimal("999999.99")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    number: int
    """Under which rows keep its values. A column of the same name that comes later has another one."""
    name: str
    meant: str
    """The name under which conditions look at it."""
    type: str
    is_key: bool = False
    """Partitions go by it."""

    @property
    def field(self) -> DataField:
        return DataField(self.number, self.name, parse_data_type(self.type, "a test"))

    @property
    def is_named(self) -> bool:
        """Tell whether conditions look at it."""
        return self.name == self.meant and self.name in TYPES

    @property
    def is_narrow(self) -> bool:
        """Tell whether it is still to be widened."""
        return NARROW.get(self.meant) == self.type

    def value(self, random: Random) -> Any:
        """Draw a value."""
        if self.meant == "k" or random.random() > 0.2:
            return self._some(random)
        return None

    def _some(self, random: Random) -> Any:
        if self.is_key:
            some = _KEY_VALUES.get(self.meant)
            return random.choice(some) if some else value_of(self.meant, Random(random.randrange(3)))
        value = value_of(self.meant, random)
        if self.meant in NANOS:
            return abs(value)  # before 1970 pyarrow cannot tell them; see test_typed_reads.py
        if self.is_narrow and self.type in _BITS:
            bits = _BITS[self.type]
            return min(max(value, -(1 << bits)), (1 << bits) - 1)
        if self.is_narrow and self.type == "FLOAT":
            return as_float(value)
        if self.is_narrow:
            return min(max(value, -_LARGEST), _LARGEST)
        return value

    def stated(self, value: Any) -> Any:
        """Return a value as the engine's driver takes and gives it."""
        if value is None:
            return None
        match self.type.partition("(")[0]:
            case "FLOAT":
                return "2143289344" if math.isnan(value) else str(struct.unpack("<i", struct.pack("<f", value))[0])
            case "DOUBLE":
                nan = "9221120237041090560"
                return nan if math.isnan(value) else str(struct.unpack("<q", struct.pack("<d", value))[0])
            case "DECIMAL":
                return f"{value:f}"
            case "BYTES":
                return value.hex()
            case "TIMESTAMP":
                nanos = value if self.meant in NANOS else value * 1000
                return [nanos // 1_000_000, nanos % 1_000_000]
        return value

    def arrow(self, values: Sequence[Any]) -> pa.Array:
        """Return values in the type that pypaimon wants."""
        match self.type.partition("(")[0]:
            case "DATE":
                return pa.array(values, pa.int32()).cast(pa.date32())
            case "TIME":
                return pa.array(values, pa.int32()).cast(pa.time32("ms"))
            case "TIMESTAMP":
                unit, zone = "ns" if self.meant in NANOS else "us", "UTC" if "LOCAL" in self.type else None
                return pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone))
        return pa.array(values, _ARROW[self.type] if self.type in _ARROW else _decimal(self.type))


_ARROW = {
    "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "INT NOT NULL": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(), "CHAR(3)": pa.string(), "BYTES": pa.binary(),
    "BOOLEAN": pa.bool_(),
}  # fmt: skip


def _decimal(type_: str) -> pa.DataType:
    precision, scale = type_.removeprefix("DECIMAL(").removesuffix(")").split(", ")
    return pa.decimal128(int(precision), int(scale))


def draw_column(random: Random, number: int, name: str) -> Column:
    """Draw a column of a name, which may be narrower than it will be."""
    narrow = name in NARROW and random.random() < 0.5
    return Column(number, name, name, NARROW[name] if narrow else TYPES[name])


def draw_columns(random: Random, names: Iterable[str]) -> list[Column]:
    """Draw the columns of a new table."""
    there = sorted(names)
    keys = random.sample([name for name in KEYS if name in there], random.choice((0, 0, 1, 1, 2)))
    chosen = random.sample([name for name in there if name not in keys], random.randint(3, 8))
    columns = [draw_column(random, number, name) for number, name in enumerate(chosen, 1)]
    columns += [Column(number, key, key, TYPES[key], is_key=True) for number, key in enumerate(keys, 100)]
    columns.append(Column(0, ROW_ID, ROW_ID, "BIGINT"))
    random.shuffle(columns)
    return columns
