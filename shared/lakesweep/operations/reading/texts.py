"""Rows as text: JSON lines and CSV.

JSON has no decimals, times or bytes. So decimals are texts, and bytes are Base64. Dates and times are texts as in
ISO-8601, with a Z if they have a zone. A map is an array of objects with `key` and `value`. Numbers that JSON does not
know are the texts `NaN`, `Infinity` and `-Infinity`.

In CSV, NULL is an empty field and an empty text is `""`. ROWs, ARRAYs and MAPs are JSON.
"""

import base64
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lakesweep.errors import FormatError
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.format.values.partition_path import date_text, float_text, second_of_day
from lakesweep.operations.reading.types import load_arrow

_INT = DataType("INT", nullable=False)
_DAY_MS = 86_400_000
_NANOS = {"ms": 1_000_000, "us": 1_000, "ns": 1}
_QUOTED = frozenset('",\n\r')


def json_lines(batch: Any, fields: Sequence[DataField]) -> Iterator[str]:
    """Yield each row as one line of JSON, with its line break.

    Args:
        batch: A record batch or table.
        fields: Its columns.
    """
    names = [field.name for field in fields]
    for row in _rows(batch, fields):
        yield json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n"


def csv_head(fields: Sequence[DataField]) -> str:
    """Return the line of names."""
    return ",".join(_csv(field.name) for field in fields) + "\n"


def csv_lines(batch: Any, fields: Sequence[DataField]) -> Iterator[str]:
    """Yield each row as one line of CSV, with its line break."""
    for row in _rows(batch, fields):
        yield ",".join(map(_csv, row)) + "\n"


def _csv(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)
    return text if text and not _QUOTED & set(text) else '"' + text.replace('"', '""') + '"'


def _rows(batch: Any, fields: Sequence[DataField]) -> Iterator[tuple[Any, ...]]:
    columns = []
    for number, field in enumerate(fields):
        try:
            columns.append(_values(batch.column(number), field.type))
        except UnicodeDecodeError as error:  # Paimon casts bytes to text without a look at them.
            raise FormatError(f"expected text in the column {field.name}, found bytes that are not UTF-8") from error
    return zip(*columns, strict=True)


def _values(array: Any, type_: DataType) -> list[Any]:
    """Return values as JSON has them."""
    arrow = load_arrow()
    match type_.root:
        case "FLOAT" | "DOUBLE":
            return _each(array.to_pylist(), _short if type_.root == "FLOAT" else _number)
        case "DECIMAL":
            return _each(array.to_pylist(), lambda value: f"{value:f}")
        case "BINARY" | "VARBINARY":
            return _each(array.to_pylist(), lambda value: base64.b64encode(value).decode())
        case "DATE":
            return _each(array.cast(arrow.int32()).to_pylist(), date_text)
        case "TIME":
            return _each(array.cast(arrow.int32()).to_pylist(), lambda value: _clock(value * _NANOS["ms"], 3))
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            nanos, digits = _NANOS[array.type.unit], {"ms": 3, "us": 6, "ns": 9}[array.type.unit]
            end = "Z" if type_.root == "TIMESTAMP_LTZ" else ""
            numbers = array.cast(arrow.int64()).to_pylist()
            return _each(numbers, lambda value: _time_stamp(value * nanos, digits) + end)
        case "ROW" | "ARRAY" | "MAP" | "MULTISET":
            return [None if not scalar.is_valid else _nested(scalar, type_) for scalar in array]
    return array.to_pylist()  # type: ignore[no-any-return]


def _nested(scalar: Any, type_: DataType) -> Any:
    if type_.root == "ROW":
        arrow = load_arrow()
        return {
            field.name: _values(arrow.array([value], value.type), field.type)[0]
            for field, value in zip(type_.fields, scalar.values(), strict=True)
        }
    if type_.root == "ARRAY":
        return _values(scalar.values, type_.children[0])
    keys, items = scalar.values.field(0), scalar.values.field(1)
    item = type_.children[1] if type_.root == "MAP" else _INT
    pairs = zip(_values(keys, type_.children[0]), _values(items, item), strict=True)
    return [{"key": key, "value": value} for key, value in pairs]


def _each(values: list[Any], function: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else function(value) for value in values]


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _short(value: float) -> float | str:
    """Return a number of single precision by its shortest digits."""
    return float(float_text(value)) if math.isfinite(value) else _number(value)


def _time_stamp(nanos: int, digits: int) -> str:
    milliseconds, rest = divmod(nanos, 1_000_000)
    seconds, fraction = second_of_day(milliseconds, rest)
    return f"{date_text(milliseconds // _DAY_MS)}T{_clock(seconds * 1_000_000_000 + fraction, digits)}"


def _clock(nanos: int, digits: int) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{clock}.{fraction:09d}"[: len(clock) + 1 + digits]
