"""The bytes of a Parquet file: which columns get dictionaries and statistics.

Source: Paimon 1.4 `ParquetRowDataWriter`, `RowDataParquetBuilder`.
"""

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.operations.reading.types import load_arrow, unit_of
from lakesweep.operations.writing.options import Writing

_DIGITS_OF_64_BITS = 18
_TRIED_ROWS = 20_000
"""So many rows of a file say which columns get dictionaries, as in Java, whose first page they are."""
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")


class Body:
    """The bytes of a file while it is written."""

    def __init__(self, fields: Sequence[DataField], writing: Writing) -> None:
        """Begin without rows.

        Args:
            fields: The columns.
            writing: How.
        """
        self._sink = BytesIO()
        self._codec, self._level = writing.codec, writing.level
        self._is_long = any(unit == "ns" for field in fields for unit in units(field.type))
        self._writer: Any = None

    def _opened(self, first: Any) -> Any:
        """Return the writer of a file with this first row group."""
        from pyarrow import parquet

        return parquet.ParquetWriter(
            self._sink,
            first.schema,
            compression=self._codec,
            compression_level=self._level,
            store_decimal_as_integer=True,
            store_schema=False,
            use_deprecated_int96_timestamps=self._is_long,
            use_compliant_nested_type=True,
            use_dictionary=_with_dictionaries(first),
            write_statistics=_has_statistics(first.schema),
        )

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._sink.tell()

    def write(self, group: Any) -> None:
        """Write one row group."""
        self._writer = self._writer or self._opened(group)
        self._writer.write_table(group, row_group_size=max(1, group.num_rows))

    def close(self) -> bytes:
        """End the file, and return it."""
        self._writer.close()
        return self._sink.getvalue()


def _with_dictionaries(first: Any) -> list[str]:
    """Return the paths of the columns that get dictionaries: those that need less room so, but no wide decimals.

    Paimon's readers look for such a decimal in a dictionary by other bytes than it has there, and find no row.
    """
    pairs = zip(first.schema, first.columns, strict=True)
    return [path for field, column in pairs if _repeats(column) for path in _paths(field, field.name)]


def _repeats(column: Any) -> bool:
    """Tell whether the first values of a column need less room with a dictionary; of a nested one nobody knows."""
    from pyarrow import compute

    if column.type.num_fields:
        return True
    some = column.slice(0, _TRIED_ROWS)
    size, distinct = float(some.nbytes), int(compute.count_distinct(some).as_py())
    return distinct * size / len(some) + distinct.bit_length() * len(some) / 8 < size


def _paths(field: Any, path: str) -> Iterator[str]:
    types, type_ = load_arrow().types, field.type
    if types.is_struct(type_):
        for inner in type_:
            yield from _paths(inner, f"{path}.{inner.name}")
    elif types.is_map(type_):
        yield from _paths(type_.key_field, f"{path}.key_value.key")
        yield from _paths(type_.item_field, f"{path}.key_value.value")
    elif types.is_list(type_):
        yield from _paths(type_.value_field, f"{path}.list.element")
    elif not (types.is_decimal(type_) and type_.precision > _DIGITS_OF_64_BITS):
        yield path


def _has_statistics(schema: Any) -> Any:
    """Return the columns that get statistics in the file: bounds of pyarrow do not count NaN, and readers lose rows."""
    floats = {field.name for field in schema if _has_floats(field.type)}
    return True if not floats else [name for name in schema.names if name not in floats] or False


def _has_floats(type_: Any) -> bool:
    arrow = load_arrow()
    inner = [type_.field(number).type for number in range(type_.num_fields)]
    return bool(arrow.types.is_floating(type_)) or any(map(_has_floats, inner))


def units(type_: DataType) -> Iterator[str]:
    """Yield the units of the time stamps in a type."""
    if type_.root in _TIMES:
        yield unit_of(type_)
    for each in (*type_.children, *(field.type for field in type_.fields)):
        yield from units(each)
