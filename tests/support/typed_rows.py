"""Values of Arrow as the engine's driver writes them in JSON, so that rows can be compared without loss."""

import struct
from collections.abc import Sequence
from typing import Any

from lakesweep.format.values.data_type import DataField, DataType

_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


def shown_rows(table: Any, fields: Sequence[DataField]) -> list[list[Any]]:
    """Return the rows of an Arrow table with columns of these fields."""
    columns = [shown(table.column(field.name).combine_chunks(), field.type) for field in fields]
    return [list(row) for row in zip(*columns, strict=True)]


def shown(array: Any, type_: DataType) -> list[Any]:
    """Return the values of an Arrow array."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in shown(chunk, type_)]
    valid = array.is_valid().to_pylist()
    match type_.root:
        case "BINARY" | "VARBINARY":
            return [None if value is None else value.hex() for value in array.to_pylist()]
        case "DECIMAL":
            return [None if value is None else f"{value:f}" for value in array.to_pylist()]
        case "FLOAT":
            return [None if value is None else _bits(value, "f", "i") for value in array.to_pylist()]
        case "DOUBLE":
            return [None if value is None else _bits(value, "d", "q") for value in array.to_pylist()]
        case "DATE" | "TIME":
            return array.cast(pa.int32()).to_pylist()
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            ms_per, per_ms = _PER_MS[array.type.unit]
            numbers = array.cast(pa.int64()).to_pylist()
            return [
                None if n is None else [n * ms_per // per_ms, (n % per_ms) * (1_000_000 // per_ms)] for n in numbers
            ]
        case "ROW":
            columns = [shown(array.field(number), field.type) for number, field in enumerate(type_.fields)]
            rows = [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * len(array)
            return [row if is_valid else None for row, is_valid in zip(rows, valid, strict=True)]
        case "ARRAY":
            return [None if value is None else shown(value, type_.children[0]) for value in _lists(array)]
        case "MAP" | "MULTISET":
            item = type_.children[1] if type_.root == "MAP" else DataType("INT")
            return [None if value is None else _pairs(value, type_.children[0], item) for value in _lists(array)]
    return array.to_pylist()


def _lists(array: Any) -> list[Any]:
    return [scalar.values if scalar.is_valid else None for scalar in array]


def _pairs(entries: Any, key: DataType, item: DataType) -> list[list[Any]]:
    keys, items = shown(entries.field(0), key), shown(entries.field(1), item)
    return [[mine, theirs] for mine, theirs in zip(keys, items, strict=True)]


def _bits(value: float, code: str, number: str) -> str:
    if value != value:  # Java knows one NaN
        return "2143289344" if code == "f" else "9221120237041090560"
    return str(struct.unpack(f"<{number}", struct.pack(f"<{code}", value))[0])
