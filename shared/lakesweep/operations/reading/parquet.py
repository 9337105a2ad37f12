"""Read a Parquet file row group by row group, and say where in the file each batch begins.

Row groups whose statistics rule a condition out are not read. Of the statistics, bounds of types are used whose
physical form is certain: not of decimals with more than 18 digits, and not of nanoseconds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from io import RawIOBase
from typing import Any

from lakesweep.errors import FormatError, MaintenanceError, UnsupportedFormatError
from lakesweep.format.values.binary_row import Timestamp
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.format.values.json_document import shorten
from lakesweep.model.reading.plan import ReadFile
from lakesweep.model.where.facts import ColumnRange
from lakesweep.operations.reading.types import load_arrow, out_of_range, time_stamps

BATCH_ROWS = 16_384
_PER_MS = {"ms": 1, "us": 1_000}

Choose = Callable[[int, Mapping[str, ColumnRange]], bool]
"""Tells by the number of rows and the ranges of columns whether some rows may be wanted."""


def parquet_batches(
    source: RawIOBase,
    file: ReadFile,
    fields: Sequence[DataField],
    choose: Choose | None = None,
    batch_rows: int = BATCH_ROWS,
    most_bytes: int | None = None,
    buffer_bytes: int | None = None,
    batch_bytes: int | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yield record batches with the position of their first row.

    Args:
        source: The file.
        file: What metadata state of it.
        fields: The file's own columns that are wanted. None of them: batches have rows without columns.
        choose: Chooses row groups; by default all are read.
        batch_rows: The most rows of a batch.
        most_bytes: The most bytes that a column of a row group may have when it is unpacked; `None`: any number.
        buffer_bytes: So much of each column is read and kept at a time; `None`: the columns of a whole row group.
        batch_bytes: A batch has fewer rows if they take more than this, as the row group says; `None`: any number.

    Raises:
        UnsupportedFormatError: A column of a row group is larger than `most_bytes`.
        FormatError: The file is damaged, has another number of rows, or lacks a column.
        StorageError: A read failed.
    """
    load_arrow()
    from pyarrow import parquet

    names = [field.name for field in fields]
    # pyarrow reports damage as OSError, ValueError or an own class, depending on where it notices the damage.
    try:
        with ExitStack() as files:
            reader = files.enter_context(
                parquet.ParquetFile(
                    source,
                    pre_buffer=buffer_bytes is None,
                    buffer_size=buffer_bytes or 0,
                    page_checksum_verification=True,
                )
            )
            if reader.metadata.num_rows != file.rows:
                raise FormatError(f"{file.path}: expected {file.rows} rows, found {reader.metadata.num_rows}")
            check_columns(names, reader.schema_arrow.names, file.path)
            far, micros = _nanoseconds(reader.schema, names), None
            first = 0
            for number in range(reader.metadata.num_row_groups):
                group = reader.metadata.row_group(number)
                end = first + group.num_rows
                if choose is not None and not choose(group.num_rows, _ranges(group, reader.schema_arrow, fields)):
                    first = end
                    continue
                if most_bytes is not None:
                    _check_size(group, most_bytes, f"{file.path}, row group {number}")
                if far and micros is None:
                    micros = files.enter_context(parquet.ParquetFile(source, coerce_int96_timestamp_unit="us"))
                if micros is not None:
                    _check_range(micros.iter_batches(batch_rows, row_groups=[number], columns=far), file)
                most_rows = batch_rows if batch_bytes is None else min(batch_rows, _rows(group, names, batch_bytes))
                for batch in reader.iter_batches(most_rows, row_groups=[number], columns=names, use_threads=False):
                    yield first, batch.select(names)
                    first += batch.num_rows
                if first != end:
                    raise FormatError(f"{file.path}: expected row group {number} to end at row {end}, found {first}")
            if first != file.rows:
                raise FormatError(f"{file.path}: expected row groups of {file.rows} rows, found {first}")
    except MaintenanceError:
        raise
    except Exception as error:
        found = shorten(" ".join(str(error).split()))
        raise FormatError(f"{file.path}: expected a whole Parquet file, found {found}") from error


def check_columns(names: Sequence[str], found: Sequence[str], path: str) -> None:
    """Make sure that a file has each wanted column once.

    Raises:
        FormatError: It has not.
    """
    for name in names:
        if found.count(name) != 1:
            raise FormatError(f"{path}: expected one column {name}, as its schema states, found {found.count(name)}")


def _check_size(group: Any, most_bytes: int, place: str) -> None:
    """Make sure that the columns of a row group fit into memory.

    Raises:
        UnsupportedFormatError: One of them does not.
    """
    for number in range(group.num_columns):
        column = group.column(number)
        if column.total_uncompressed_size > most_bytes:
            raise UnsupportedFormatError(
                f"{place}: expected at most {most_bytes} bytes of the column {column.path_in_schema}, found "
                f"{column.total_uncompressed_size}, which are too many for the memory of one task"
            )


def _rows(group: Any, names: Sequence[str], size_bytes: int) -> int:
    """Return how many rows of some columns of a row group have this size, at least one."""
    columns = [group.column(number) for number in range(group.num_columns)]
    wanted = (each.total_uncompressed_size for each in columns if each.path_in_schema.partition(".")[0] in names)
    return max(1, int(size_bytes * group.num_rows // max(1, sum(wanted))))


def _nanoseconds(schema: Any, names: Sequence[str]) -> list[str]:
    """Return the columns with time stamps of 96 bits, nested ones too."""
    columns = [schema.column(number) for number in range(len(schema.names))]
    roots = {column.path.partition(".")[0] for column in columns if column.physical_type == "INT96"}
    return [name for name in names if name in roots or name.partition(".")[0] in roots]


def _check_range(batches: Iterator[Any], file: ReadFile) -> None:
    """Make sure that nanoseconds of 64 bits reach all time stamps: pyarrow returns other values if they do not.

    Raises:
        RefusedError: They do not.
    """
    arrow = load_arrow()
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                for each in time_stamps(column):
                    each.cast(arrow.timestamp("ns", each.type.tz), safe=True)
            except arrow.ArrowInvalid as error:
                # Paimon writes a negative time of day before 1970, which pyarrow shows like a year after 2262.
                raise out_of_range(file.path, name, "others, or some before 1970 that look like them") from error


def _ranges(group: Any, schema: Any, fields: Sequence[DataField]) -> dict[str, ColumnRange]:
    """Return what the statistics of a row group tell of columns that are not nested."""
    # A path with a dot is a field of a ROW, or a column whose name has a dot: nothing tells them apart.
    wanted = {field.name: field.type for field in fields if "." not in field.name}
    found = {}
    for number in range(group.num_columns):
        column = group.column(number)
        type_ = wanted.get(column.path_in_schema)
        if type_ is None or not column.is_stats_set:
            continue
        stats = column.statistics
        nulls = stats.null_count if stats.has_null_count else None
        low = high = None
        if stats.has_min_max:
            unit = getattr(schema.field(column.path_in_schema).type, "unit", "")
            low, high = (_bound(value, type_, stats.physical_type, unit) for value in (stats.min_raw, stats.max_raw))
        found[column.path_in_schema] = ColumnRange(low, high, nulls)
    return found


def _bound(value: Any, type_: DataType, physical: str, unit: str) -> object:
    """Return a bound as `decode_row` would, `None` if that is not certain."""
    match type_.root, value:
        case ("BOOLEAN", bool()) | ("FLOAT" | "DOUBLE", float()):
            return value
        case ("TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "DATE", int()) if not isinstance(value, bool):
            return value
        case "TIME", int() if unit == "ms":
            return value
        case "DECIMAL", int() if physical in ("INT32", "INT64"):
            return Decimal(value).scaleb(-(type_.scale or 0))
        case (("TIMESTAMP" | "TIMESTAMP_LTZ"), int()) if unit in _PER_MS and physical == "INT64":
            milliseconds, rest = divmod(value, _PER_MS[unit])
            return Timestamp(milliseconds, rest * 1_000)
        case (("CHAR" | "VARCHAR"), bytes()):
            try:
                return value.decode()
            except UnicodeDecodeError:
                return None
        case (("BINARY" | "VARBINARY"), bytes()):
            return value
    return None
