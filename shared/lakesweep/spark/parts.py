"""Parts: files in the control location by which one stage hands rows to the next.

Every attempt of every task writes parts under its own names and reports them to the driver. A task that died or ran
twice may leave parts that it did not report; these are never read. A part is a Parquet file that is read as a whole;
`PART_ROWS` bounds its size. The report of a part includes a hash of its bytes. Parquet itself reads most damaged bytes
as other names: then the name of a live file would be lost, and the file would look like an orphan.
"""

import io
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, ObjectNotFoundError

PART_ROWS = 100_000
"""Rows of a part. They take some 20 MB of memory."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part that was written."""

    name: str
    """Name below the scans of the table."""
    rows: int
    hash: str
    """Hash of the part's bytes."""


def write_part(area: ControlArea, folder: str, kind: str, rows: pa.Table) -> Part:
    """Write rows under a name that no other writer uses."""
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd")
    body = buffer.getvalue()
    part = Part(f"{folder}{kind}-{uuid.uuid4().hex}.parquet", rows.num_rows, _hash(body))
    area.put(part.name, body, if_absent=True)
    return part


def read_part(area: ControlArea, part: Part) -> pa.Table:
    """Return the rows of a part.

    Raises:
        FormatError: The part is gone, or its bytes are not the bytes that were written.
    """
    path = area.path(part.name)
    try:
        body = area.read(part.name).data
    except ObjectNotFoundError as error:
        raise FormatError(f"{path}: expected a part of the scan, found nothing; begin another scan") from error
    if _hash(body) != part.hash:
        raise FormatError(
            f"{path}: expected the part of the scan that was written, found damaged or other bytes; begin another scan"
        )
    try:
        rows = pq.read_table(io.BytesIO(body))
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: expected a part of the scan in Parquet: {error}") from error
    if rows.num_rows != part.rows:
        raise FormatError(f"{path}: expected {part.rows} rows, found {rows.num_rows}")
    return rows


def _hash(body: bytes) -> str:
    return blake2b(body, digest_size=16).hexdigest()


class Columns:
    """Rows that are collected, column by column, until they make a part."""

    def __init__(self, area: ControlArea, folder: str, kind: str, schema: pa.Schema) -> None:
        self._area = area
        self._folder = folder
        self._kind = kind
        self._schema = schema
        self._columns: list[list[Any]] = [[] for _ in schema]

    def add(self, *values: Any) -> None:
        """Add a row."""
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)

    def extend(self, columns: Sequence[Iterable[Any]]) -> None:
        """Add rows, given as columns."""
        for column, values in zip(self._columns, columns, strict=True):
            column.extend(values)

    def full(self) -> Iterator[Part]:
        """Write the collected rows if they are enough for a part."""
        if len(self._columns[0]) >= PART_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[Part]:
        """Write all collected rows."""
        while self._columns[0]:
            head = [column[:PART_ROWS] for column in self._columns]
            for column in self._columns:
                del column[:PART_ROWS]
            arrays = [pa.array(values, field.type) for values, field in zip(head, self._schema, strict=True)]
            yield write_part(self._area, self._folder, self._kind, pa.Table.from_arrays(arrays, schema=self._schema))


def part_row(part: Part) -> dict[str, Any]:
    """Return a part as a row of an answer."""
    return {"part": part.name, "rows": part.rows, "hash": part.hash}


def part_of(row: Mapping[str, Any]) -> Part:
    """Return the part in a row."""
    return Part(str(row["part"]), int(row["rows"]), str(row["hash"]))


def as_bytes(text: str) -> bytes:
    """Return a name or key as bytes for a part. Every text has such bytes, and different texts have different bytes."""
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    """Return the text that `as_bytes` encoded."""
    return data.decode("utf-8", "surrogatepass")
