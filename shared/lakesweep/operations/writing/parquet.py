"""Write rows into Parquet files as Paimon's Java engine does: types, field ids, codec and names.

Source: Paimon 1.4 `ParquetSchemaConverter`, `ParquetRowDataWriter`, `DataFilePathFactory`.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from lakesweep.errors import RefusedError
from lakesweep.format.row_entries import ValueStats
from lakesweep.format.values.data_type import DataField
from lakesweep.operations.reading.ahead import one_ahead
from lakesweep.operations.reading.types import load_arrow
from lakesweep.operations.writing.body import Body, units
from lakesweep.operations.writing.options import Writing
from lakesweep.operations.writing.statistics import Statistics
from lakesweep.operations.writing.types import parquet_schema, written

Made_co = TypeVar("Made_co", covariant=True)


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
    found = {unit for field in fields for unit in units(field.type)}
    if "ns" in found and len(found) > 1:
        raise RefusedError(
            "expected time stamps of one kind, found some with more than 6 digits of the second beside others; "
            "Lakesweep does not write such data files",
            code="unsupported_type",
        )


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
    yield from rolled(batches, fields, writing, lambda: _Appended(fields, writing))


class Collector(Protocol[Made_co]):
    """Collects what an entry says of a file."""

    def add(self, group: Any) -> None:
        """Add a row group, a table with the columns of the file."""

    def result(self, name: str, body: bytes) -> Made_co:
        """Return the file."""


def rolled(
    batches: Iterable[Any], fields: Sequence[DataField], writing: Writing, collector: Callable[[], Collector[Made_co]]
) -> Iterator[Made_co]:
    """Yield data files as `parquet_files` does.

    Args:
        batches: Record batches with these columns, in Arrow's types for them.
        fields: The columns of the files.
        writing: How.
        collector: Begins to collect what an entry says of a file.

    Raises:
        RefusedError: As `parquet_files`.
    """
    check_types(fields)
    writer = uuid4()
    number = 0
    body: Body | None = None
    collected = collector()
    for group in one_ahead(_row_groups(batches, parquet_schema(fields), writing.row_group_bytes)):
        if body is None:
            body, collected = Body(fields, writing), collector()
        collected.add(group)
        body.write(group)
        if body.size >= writing.target_bytes:
            yield collected.result(f"{writing.prefix}{writer}-{number}{writing.suffix}", body.close())
            body, number = None, number + 1
    if body is not None:
        yield collected.result(f"{writing.prefix}{writer}-{number}{writing.suffix}", body.close())


class _Appended:
    def __init__(self, fields: Sequence[DataField], writing: Writing) -> None:
        self._rows, self._stats = 0, Statistics(fields, writing)

    def add(self, group: Any) -> None:
        self._rows += group.num_rows
        self._stats.add(group)

    def result(self, name: str, body: bytes) -> FileBytes:
        return FileBytes(name, body, self._rows, self._stats.result())


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
