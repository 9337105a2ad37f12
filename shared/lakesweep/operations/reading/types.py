"""Arrow's types for Paimon's.

Texts become `string` and bytes `binary`, whatever their length. Time stamps have the unit that holds their precision:
milliseconds up to 3 digits, microseconds up to 6, else nanoseconds; those with a zone are in UTC. A TIME is the
millisecond of the day, also with more digits, as in Paimon. Every column may be NULL, also where Paimon's may not: a
data file can be older than the column.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from lakesweep.errors import RefusedError, UnsupportedFormatError
from lakesweep.format.values.data_type import DataType
from lakesweep.model.reading.plan import ReadColumn

_PLAIN = {
    "BOOLEAN": "bool_",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "DATE": "date32",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "VARBINARY": "binary",
}


def load_arrow() -> Any:
    """Return pyarrow.

    Raises:
        RefusedError: It is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise RefusedError(
            "expected pyarrow, which reads data files, found none: pip install 'lakesweep[read]'",
            code="read_needs_pyarrow",
        ) from error
    return pyarrow


def load_numpy() -> Any:
    """Return numpy.

    Raises:
        RefusedError: It is not installed.
    """
    try:
        import numpy
    except ImportError as error:
        raise RefusedError(
            "expected numpy, which merges rows by their keys, found none: pip install 'lakesweep[read]'",
            code="read_needs_numpy",
        ) from error
    return numpy


def arrow_type(type_: DataType) -> Any:
    """Return Arrow's type.

    Raises:
        RefusedError: There is none (`unsupported_type`).
    """
    arrow = load_arrow()
    if name := _PLAIN.get(type_.root):
        return getattr(arrow, name)()
    match type_.root:
        case "DECIMAL":
            return arrow.decimal128(type_.precision, type_.scale)
        case "TIME":
            return arrow.time32("ms")
        case "TIMESTAMP":
            return arrow.timestamp(unit_of(type_))
        case "TIMESTAMP_LTZ":
            return arrow.timestamp(unit_of(type_), tz="UTC")
        case "ROW":
            return arrow.struct([(field.name, arrow_type(field.type)) for field in type_.fields])
        case "ARRAY":
            return arrow.list_(arrow.field("element", arrow_type(type_.children[0])))
        case "MAP":
            return arrow.map_(arrow_type(type_.children[0]), arrow_type(type_.children[1]))
        case "MULTISET":
            return arrow.map_(arrow_type(type_.children[0]), arrow.int32())
    raise RefusedError(f"expected a type that can be read, found {type_.root}", code="unsupported_type")


def arrow_schema(columns: Iterable[ReadColumn]) -> Any:
    """Return Arrow's schema of the result."""
    return load_arrow().schema([(column.name, arrow_type(column.field.type)) for column in columns])


def out_of_range(path: str, column: str, found: str = "others") -> UnsupportedFormatError:
    """Return the error for time stamps that Arrow cannot hold."""
    return UnsupportedFormatError(
        f"{path}: expected time stamps of {column} between 1678 and 2262, which nanoseconds reach, found {found}; "
        "read other columns, or use Paimon",
        code="out_of_range",
    )


def has_time_stamps(type_: Any) -> bool:
    """Tell whether a type of Arrow is or contains a time stamp."""
    inner = [type_.field(number).type for number in range(type_.num_fields)]
    return bool(load_arrow().types.is_timestamp(type_)) or any(map(has_time_stamps, inner))


def time_stamps(array: Any) -> Iterator[Any]:
    """Yield the arrays of time stamps in an array: itself, or nested ones."""
    types = load_arrow().types
    if types.is_timestamp(array.type):
        yield array
    elif types.is_struct(array.type):
        for part in array.flatten():
            yield from time_stamps(part)
    elif types.is_map(array.type):
        yield from time_stamps(array.keys)
        yield from time_stamps(array.items)
    elif types.is_list(array.type):
        yield from time_stamps(array.flatten())


def unit_of(type_: DataType) -> str:
    """Return the unit of a time stamp."""
    precision = type_.precision or 0
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"
