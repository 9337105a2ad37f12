"""Rewrite the data files of one bin: rows that are not deleted, in the columns of the latest schema."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from lakesweep.commit.files import write_new
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.entry_writer import NewDataFile
from lakesweep.format.manifest import COMPACT
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.vector import DeletionVector, read_vector
from lakesweep.model.reading.plan import ReadPlan, Split
from lakesweep.operations.reading.ahead import read_ahead
from lakesweep.operations.reading.arrow import file_vectors, kept_rows, missing_file
from lakesweep.operations.reading.parquet import BATCH_ROWS
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.options import Writing
from lakesweep.operations.writing.parquet import parquet_files
from lakesweep.storage.together import waits
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores

_SMALL_BYTES = 8 << 20
"""A smaller file is read with one request."""
_AHEAD_BYTES = 32 << 20
"""So much is read at a time, and kept in memory."""
_BATCH_BYTES = 1 << 20
"""So much of a file becomes a batch, or fewer bytes."""
MOST_COLUMN_BYTES = 1 << 30
"""A larger column of a row group is not rewritten: one value may take all of it, and more than once."""


@dataclass(frozen=True, slots=True)
class Work:
    """What all bins of a run share. It pickles."""

    plan: ReadPlan
    """Without splits and condition, with all columns in the order of the schema."""
    schema: TableSchema
    """The latest schema of the branch."""
    writing: Writing
    """How data files are written."""
    creation_time_ms: int
    """See `NewDataFile`."""
    source: int = COMPACT
    """See `NewDataFile`. Sequence numbers of new files begin at 0 if it is not `COMPACT`, as those of each writer."""


def creation_time_ms(now_ms: int, zone: tzinfo | None) -> int:
    """Return a time as the clock of a zone shows it, as if that were UTC; see `NewDataFile`.

    Args:
        now_ms: The time, epoch milliseconds.
        zone: The zone of the writers' clocks; `None`: UTC.
    """
    local = datetime.fromtimestamp(now_ms / 1000, zone or UTC).replace(tzinfo=UTC)
    return int(local.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class RewrittenBin:
    """The new data files of one bin. It pickles small."""

    files: tuple[NewDataFile, ...]
    """None: every row was deleted."""
    rows: int
    """Of the new files."""


def rewrite_bin(
    stores: TableStores, work: Work, found: Bin, before_each: Callable[[], None] = lambda: None
) -> RewrittenBin:
    """Rewrite the files of a bin.

    Args:
        stores: The table's store.
        work: What all bins share.
        found: The bin.
        before_each: Called before each file is written; may raise.

    Raises:
        RefusedError: A data file does not exist (`missing_data_file`), a vector contradicts it (`corrupt_vectors`), or
            a value has no place in the latest schema.
        UnsupportedFormatError: A Parquet file has values too large for the memory of a task.
        FormatError: A file is damaged, or has another number of rows than metadata state.
        StorageError: A request failed. Some new files may exist; they are orphans.
    """
    plan, writing = work.plan, work.writing
    fields = tuple(column.field for column in plan.columns)
    vectors = _vectors(stores, plan, found)
    expected = sum(file.rows for file in found.files) - sum(vector.cardinality for vector in vectors.values())
    sequence = found.files[0].min_sequence if work.source == COMPACT else 0
    rows, made = 0, list[NewDataFile]()
    folder = TablePaths(work.schema).bucket_dir(found.partition, 0)

    def read(split: Split) -> Iterator[Any]:
        (file,) = split.files
        vector, is_small = vectors.get(file.path), file.size_bytes <= _SMALL_BYTES
        batch_rows = max(1, min(BATCH_ROWS, _BATCH_BYTES * file.rows // max(1, file.size_bytes)))
        try:
            kept = kept_rows(stores, plan, file, vector, batch_rows, is_whole=is_small, most_bytes=MOST_COLUMN_BYTES)
            for _, _, batch in kept:
                yield batch
        except ObjectNotFoundError as error:
            raise missing_file(plan, file) from error

    splits = [Split((file,)) for file in found.files]
    batches = read_ahead(splits, read, in_threads=waits(stores.table), most_bytes=_AHEAD_BYTES)
    for new in parquet_files((batch for _, batch in batches), fields, writing):
        before_each()
        write_new(stores.table, f"{folder}/{new.name}", new.body)
        made.append(
            NewDataFile(
                name=new.name,
                size_bytes=len(new.body),
                rows=new.rows,
                stats=new.stats,
                stats_cols=writing.stats_cols,
                schema_id=work.schema.id,
                min_sequence=sequence + rows,
                max_sequence=sequence + rows + new.rows - 1,
                creation_time_ms=work.creation_time_ms,
                source=work.source,
            )
        )
        rows += new.rows
    if rows != expected:
        raise FormatError(
            f"table {plan.table}: expected {expected} rows of {len(found.files)} data files, found {rows}"
        )
    return RewrittenBin(tuple(made), rows)


def _vectors(stores: TableStores, plan: ReadPlan, found: Bin) -> dict[str, DeletionVector]:
    """Return path of a data file -> the rows that are left out."""
    vectors = dict(file_vectors(stores, plan, Split(found.files)))
    for file, blob in zip(found.files, found.gone, strict=False):
        assert file.path not in vectors, "a file whose vector readers apply gets another vector; it is not rewritten"
        vectors[file.path] = read_vector(blob, None, file.path)
    return vectors
