"""Read a Parquet file row group by row group, and say where in the file each batch begins."""

from collections.abc import Iterator, Sequence
from io import RawIOBase
from typing import Any

from lakesweep.errors import FormatError, MaintenanceError
from lakesweep.format.values.data_type import DataField
from lakesweep.format.values.json_document import shorten
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.reading.types import load_arrow

BATCH_ROWS = 16_384


def parquet_batches(source: RawIOBase, file: ReadFile, fields: Sequence[DataField]) -> Iterator[tuple[int, Any]]:
    """Yield record batches with the position of their first row.

    Args:
        source: The file.
        file: What metadata state of it.
        fields: The file's own columns that are wanted. None of them: batches have rows without columns.

    Raises:
        FormatError: The file is damaged, has another number of rows, or lacks a column.
        StorageError: A read failed.
    """
    load_arrow()
    from pyarrow import parquet

    names = [field.name for field in fields]
    # pyarrow reports damage as OSError, ValueError or an own class, depending on where it notices the damage.
    try:
        with parquet.ParquetFile(source, pre_buffer=True) as reader:
            if reader.metadata.num_rows != file.rows:
                raise FormatError(f"{file.path}: expected {file.rows} rows, found {reader.metadata.num_rows}")
            check_columns(names, reader.schema_arrow.names, file.path)
            first = 0
            for number in range(reader.metadata.num_row_groups):
                end = first + reader.metadata.row_group(number).num_rows
                for batch in reader.iter_batches(BATCH_ROWS, row_groups=[number], columns=names, use_threads=False):
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
