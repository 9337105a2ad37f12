"""Partition values as Arrow's values."""

from typing import Any

from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataType
from lakesweep.operations.reading.types import arrow_type, load_arrow, unit_of

_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def partition_array(value: object, type_: DataType, count: int) -> Any:
    """Return one value `count` times.

    Args:
        value: As `decode_row` returns it.
        type_: Its type.
        count: The number of rows.
    """
    arrow = load_arrow()
    result = arrow_type(type_)
    if isinstance(value, Timestamp):
        unit = unit_of(type_)
        number = value.epoch_ms * _PER_MS[unit] + value.nano_of_ms * _PER_MS[unit] // 1_000_000
        scalar = arrow.scalar(number, arrow.int64()).cast(result)
    elif type_.root in ("DATE", "TIME") and value is not None:
        scalar = arrow.scalar(value, arrow.int32()).cast(result)
    else:
        scalar = arrow.scalar(value, result)
    return arrow.repeat(scalar, count)
