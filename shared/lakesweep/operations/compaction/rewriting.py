"""Rewrite the data files of one bin: rows that are not deleted, in the columns of the latest schema."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from lakesweep.commit.files import write_new
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.entry_writer import NewDataFile
from lakesweep.format.manifest import COMPACT
from lakesweep.format.schema import TableSchema
from lakesweep.model.reading.plan import ReadPlan, Split
from lakesweep.operations.compaction.rules.pick import Bin
from lakesweep.operations.reading.arrow import file_vectors, kept_rows, missing_file
from lakesweep.operations.writing.options import Writing
from lakesweep.operations.writing.parquet import parquet_files
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores


@dataclass(frozen=True, slots=True)
class RewrittenBin:
    """The new data files of one bin. It pickles small."""

    files: tuple[NewDataFile, ...]
    """None: every row was deleted."""
    rows: int
    """Of the new files."""


def rewrite_bin(
    stores: TableStores,
    plan: ReadPlan,
    schema: TableSchema,
    found: Bin,
    writing: Writing,
    creation_time_ms: int,
    before_each: Callable[[], None] = lambda: None,
) -> RewrittenBin:
    """Rewrite the files of a bin.

    Args:
        stores: The table's store.
        plan: The plan with all columns, in the order of the schema; it may be `ReadPlan.shared`.
        schema: The latest schema of the branch.
        found: The bin.
        writing: How data files are written.
        creation_time_ms: See `NewDataFile`.
        before_each: Called before each file is written; may raise.

    Raises:
        RefusedError: A data file does not exist (`missing_data_file`), a vector contradicts it (`corrupt_vectors`), or
            a value has no place in the latest schema.
        FormatError: A file is damaged, or has another number of rows than metadata state.
        StorageError: A request failed. Some new files may exist; they are orphans.
    """
    fields = tuple(column.field for column in plan.columns)
    vectors = file_vectors(stores, plan, Split(found.files))
    expected = sum(file.rows for file in found.files) - sum(vector.cardinality for vector in vectors.values())
    sequence, rows, made = found.files[0].min_sequence, 0, list[NewDataFile]()
    folder = TablePaths(schema).bucket_dir(found.partition, 0)

    def batches() -> Iterator[Any]:
        for file in found.files:
            try:
                for _, _, batch in kept_rows(stores, plan, file, vectors.get(file.path)):
                    yield batch
            except ObjectNotFoundError as error:
                raise missing_file(plan, file) from error

    for new in parquet_files(batches(), fields, writing):
        before_each()
        body = new.body.to_pybytes()
        write_new(stores.table, f"{folder}/{new.name}", body)
        made.append(
            NewDataFile(
                name=new.name,
                size_bytes=len(body),
                rows=new.rows,
                stats=new.stats,
                stats_cols=writing.stats_cols,
                schema_id=schema.id,
                min_sequence=sequence + rows,
                max_sequence=sequence + rows + new.rows - 1,
                creation_time_ms=creation_time_ms,
                source=COMPACT,
            )
        )
        rows += new.rows
    if rows != expected:
        raise FormatError(
            f"table {plan.table}: expected {expected} rows of {len(found.files)} data files, found {rows}"
        )
    return RewrittenBin(tuple(made), rows)
