"""Write rows into Parquet files as Paimon's Java engine does: types, field ids, codec and names.

Source: Paimon 1.4 `ParquetSchemaConverter`, `ParquetRowDataWriter`, `DataFilePathFactory`.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from uuid import uuid4

from lakesweep.errors import RefusedError
from lakesweep.format.row_entries import ValueStats
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.operations.reading.ahead import one_ahead
from lakesweep.operations.reading.types import load_arrow, unit_of
from lakesweep.operations.writing.options import Writing
from lakesweep.operations.writing.statistics import Statistics
from lakesweep.operations.writing.types import parquet_schema, written

_DIGITS_OF_64_BITS = 18
_TRIED_ROWS = 20_000
"""So many rows of a file say which columns get dictionaries, as in Java, whose first page they are."""
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")


@dataclass(frozen=True, slots=True)
class FileBytes:
    """A new data file that lies nowhere yet."""

    name: str
    body: bytes
    rows: int
    stats: ValueStats


def check_types(fields: Sequence[DataField]) -> None:
    """Make sure that columns can be written.

    Raises:
        RefusedError: Time stamps of more than 6 digits lie beside others (`unsupported_type`): pyarrow writes all of
            them with 96 bits, or none.
    """
    units = {unit for field in fields for unit in _units(field.type)}
    if "ns" in units and len(units) > 1:
        raise RefusedError(
            "expected time stamps of one kind, found some with more than 6 digits of the second beside others; "
            "Lakesweep does not write such data files",
            code="unsupported_type",
        )


def _units(type_: DataType) -> Iterator[str]:
    if type_.root in _TIMES:
        yield unit_of(type_)
    for each in (*type_.children, *(field.type for field in type_.fields)):
        yield from _units(each)


def parquet_files(batches: Iterable[Any], fields: Sequence[DataField], writing: Writing) -> Iterator[FileBytes]:
    """Yield data files with the rows of batches, in their order. No rows: no file.

    While one row group is written, a thread takes the batches of the next one.
    Memory: one file, and the values of two row groups.

    Args:
        batches: Record batches with these columns, in Arrow's types for them.
        fields: The columns.
        writing: How.

    Raises:
        RefusedError: A column cannot be written, or a value is null where the column may not be (`null_value`).
    """
    check_types(fields)
    writer = uuid4()
    number = 0
    file: _File | None = None
    for group in one_ahead(_row_groups(batches, parquet_schema(fields), writing.row_group_bytes)):
        if file is None:
            file = _File(f"{writing.prefix}{writer}-{number}{writing.suffix}", fields, writing)
            number += 1
        file.write(group)
        if file.size >= writing.target_bytes:
            yield file.close()
            file = None
    if file is not None:
        yield file.close()


def _row_groups(batches: Iterable[Any], schema: Any, size_bytes: int) -> Generator[Any, None, None]:
    """Yield tables of about this size."""
    arrow = load_arrow()
    part, weight = list[Any](), 0
    for batch in batches:
        for piece in _pieces(batch, size_bytes):
            if part and weight + piece.nbytes > size_bytes:
                yield arrow.Table.from_batches(part, schema)
                part, weight = [], 0
            part.append(_cast(piece, schema))
            weight += piece.nbytes
    if part:
        yield arrow.Table.from_batches(part, schema)


def _pieces(batch: Any, size_bytes: int) -> Iterator[Any]:
    """Divide a batch that is too large."""
    count = min(batch.num_rows, -(-batch.nbytes // size_bytes)) if batch.num_rows else 0
    step = -(-batch.num_rows // max(1, count))
    yield from (batch.slice(first, step) for first in range(0, batch.num_rows, step))


def _cast(batch: Any, schema: Any) -> Any:
    arrow = load_arrow()
    arrays = [written(column, field, field.name) for column, field in zip(batch.columns, schema, strict=True)]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


class _File:
    def __init__(self, name: str, fields: Sequence[DataField], writing: Writing) -> None:
        self._name, self._rows, self._stats = name, 0, Statistics(fields, writing)
        self._sink = BytesIO()
        self._codec, self._level = writing.codec, writing.level
        self._is_long = any(unit == "ns" for field in fields for unit in _units(field.type))
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
        self._stats.add(group)
        self._rows += group.num_rows
        self._writer.write_table(group, row_group_size=max(1, group.num_rows))

    def close(self) -> FileBytes:
        """End the file, and return it."""
        self._writer.close()
        return FileBytes(self._name, self._sink.getvalue(), self._rows, self._stats.result())


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
