"""The shuffle of a match: it brings the rows of equal names together in one partition, and sorts them.

Two numbers of 64 bits stand for a name: halves of its hash. Equal names have equal numbers, so they meet in one
partition. Rows travel as Arrow batches inside a shuffle of Spark's RDDs. Nothing here needs Spark SQL: its first query
in a session takes longer than a scan of a hundred thousand objects.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakesweep.errors import MaintenanceError
from lakesweep.spark.listing import LISTING_SCHEMA
from lakesweep.spark.live import LIVE_SCHEMA
from lakesweep.spark.parts import PART_ROWS, Part, read_part
from lakesweep.spark.tasks import Access, Task, check_version

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

LIVE, LISTED = 0, 1
BATCH_ROWS = 50_000
_NUMBERS = [("h1", pa.int64()), ("h2", pa.int64()), ("side", pa.int8())]
_SCHEMAS = {
    LIVE: pa.schema([*_NUMBERS, *list(LIVE_SCHEMA)[1:]]),
    LISTED: pa.schema([*_NUMBERS, *LISTING_SCHEMA]),
}
MATCH_SCHEMA = pa.schema([*_SCHEMAS[LIVE], *LISTING_SCHEMA])
"""Rows of a match. A row has nulls in the columns of the other side."""
_Source = tuple[int, Part]
"""A side, and a part with rows of it."""
_Chunk = tuple[int, tuple[int, bytes]]
"""The number of a partition, and rows of one side for it."""


def numbers_of(names: Iterable[bytes | None]) -> Any:
    """Return an array with the two numbers that stand for each name."""
    digests = b"".join(blake2b(name or b"", digest_size=16).digest() for name in names)
    return np.frombuffer(digests, dtype=">i8").astype(np.int64).reshape(-1, 2)


def shuffled(
    context: "SparkContext",
    access: Access,
    live: Sequence[Part],
    listed: Sequence[Part],
    partitions: int,
    *,
    by_owner: bool,
) -> "RDD[_Chunk]":
    """Return the rows of parts in partitions by name. `sorted_rows` reads a partition."""
    sources = _grouped([*((LIVE, part) for part in live), *((LISTED, part) for part in listed)])
    # A repeated task reads its parts again, but does not list or decode again.
    chunks = context.parallelize(sources, max(1, len(sources))).mapPartitions(
        partial(_chunks, access, partitions, by_owner)
    )
    return chunks.partitionBy(partitions, int)


def _grouped(sources: Sequence[_Source]) -> list[list[_Source]]:
    """Return small parts together, as many as make a full part: Spark's Python needs 50 ms for an empty task."""
    groups: list[list[_Source]] = []
    rows = 0
    for source in sources:
        rows += source[1].rows
        if not groups or rows > PART_ROWS:
            groups.append([])
            rows = source[1].rows
        groups[-1].append(source)
    return groups


def sorted_rows(chunks: Iterable[_Chunk], number: int, partitions: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, sorted by the numbers of names, live names first.

    Raises:
        MaintenanceError: A row is in the wrong partition. It would not meet the rows of the same name.
    """
    tables = [MATCH_SCHEMA.empty_table()]
    for _, (side, body) in chunks:
        batch = pa.ipc.read_record_batch(pa.py_buffer(body), _SCHEMAS[side])
        tables.append(pa.Table.from_batches([batch]))
    rows = pa.concat_tables(tables, promote_options="default").combine_chunks()
    del tables
    h1, h2, sides = (rows.column(name).to_numpy() for name in ("h1", "h2", "side"))
    if (h1 % partitions != number).any():
        raise MaintenanceError(
            "Spark returned the rows of a match in the wrong partition; expected equal names together; nothing was "
            "changed",
            code="spark_failed",
        )
    order = np.lexsort((sides, h2, h1))
    for start in range(0, len(order), BATCH_ROWS):
        yield from rows.take(pa.array(order[start : start + BATCH_ROWS])).to_batches()


def _chunks(access: Access, partitions: int, by_owner: bool, groups: Iterable[Sequence[_Source]]) -> Iterator[_Chunk]:
    """Read parts, and yield their rows for each partition."""
    check_version(access)
    area = Task(access).scans
    for side, part in chain.from_iterable(groups):
        rows = read_part(area, part)
        yield from _split(rows, side, "owner" if by_owner and side == LISTED else "name", partitions)


def _split(rows: pa.Table, side: int, name: str, partitions: int) -> Iterator[_Chunk]:
    schema = _SCHEMAS[side]
    numbers = numbers_of(rows.column(name).to_pylist())
    places = numbers[:, 0] % partitions
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(partitions), side="right").tolist()
    sides = pa.array(np.full(len(order), side, dtype=np.int8))
    columns = [numbers[:, 0], numbers[:, 1], sides, *(rows.column(each) for each in schema.names[3:])]
    whole = pa.Table.from_arrays([*map(_array, columns)], schema=schema).take(pa.array(order)).combine_chunks()
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if end > start:
            for batch in whole.slice(start, end - start).to_batches():
                yield number, (side, batch.serialize().to_pybytes())


def _array(column: Any) -> Any:
    return pa.array(column) if isinstance(column, np.ndarray) else column
