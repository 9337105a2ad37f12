"""Find the rows of a condition, and return where in their data files they lie.

Rows count from 0, with rows that a deletion vector deletes. Those are never found again.
"""

from array import array
from collections.abc import Iterator
from functools import cache
from typing import Any

from lakesweep.errors import ObjectNotFoundError
from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.model.reading.plan import ReadFile, ReadPlan, Split
from lakesweep.model.where.arrow import filtered
from lakesweep.model.where.where import Where
from lakesweep.operations.reading.arrow import file_vectors, kept_rows, missing_file
from lakesweep.operations.reading.parquet import BATCH_ROWS
from lakesweep.operations.reading.types import arrow_schema, load_arrow
from lakesweep.operations.reading.values import partition_array
from lakesweep.table.stores import TableStores

_MOST_NARROW = 1 << 32
_STEP = 1 << 16
_BATCH_ROWS = 1 << 17
_PLAIN = frozenset(
    ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIME", "DECIMAL")
    + ("TIMESTAMP", "TIMESTAMP_LTZ")
)
"""Types whose values have a few bytes."""
_MOST_PLAIN = 8


def matched_positions(stores: TableStores, plan: ReadPlan, split: Split) -> "Iterator[tuple[ReadFile, array[int]]]":
    """Yield each data file of a split that has rows of the condition, with their positions, ascending.

    Args:
        stores: The table's store, and those of its external roots.
        plan: The plan, with a condition; it may be `ReadPlan.shared`.
        split: One of its splits.

    Raises:
        RefusedError: A data file does not exist (`missing_data_file`), or a vector contradicts it (`corrupt_vectors`).
        FormatError: A file is damaged.
        StorageError: A read failed.
    """
    vectors = file_vectors(stores, plan, split)
    for file in split.files:
        try:
            found = _positions(stores, plan, file, vectors.get(file.path))
        except ObjectNotFoundError as error:
            raise missing_file(plan, file) from error
        if found:
            yield file, found


def matching_partition(plan: ReadPlan, partition: bytes) -> bool:
    """Tell whether a condition on partition keys alone is true for the rows of a partition.

    Raises:
        FormatError: The bytes are no partition of this table.
    """
    assert plan.where is not None
    arrow = load_arrow()
    values = plan.partition_values(partition)
    fields = [column.field for column in plan.read_columns]
    arrays = [partition_array(values[field.name], field.type, 1) for field in fields]
    batch = arrow.RecordBatch.from_arrays(arrays, schema=arrow_schema(plan.read_columns))
    return bool(len(_chosen(plan.where, batch)))


def _positions(stores: TableStores, plan: ReadPlan, file: ReadFile, vector: DeletionVector | None) -> "array[int]":
    from pyarrow import compute

    assert plan.where is not None
    arrow = load_arrow()
    is_narrow = file.rows <= _MOST_NARROW
    type_ = arrow.uint32() if is_narrow else arrow.uint64()
    found = array("I" if is_narrow else "Q")
    for first, kept, batch in kept_rows(stores, plan, file, vector, _batch_rows(plan)):
        chosen = _chosen(plan.where, batch)
        if not len(chosen):
            continue
        if kept is not None:
            chosen = _numbers(len(kept)).filter(kept).take(chosen)
        positions = compute.add(chosen.cast(type_), arrow.scalar(first, type_))
        data = positions.buffers()[1]
        start = positions.offset * found.itemsize
        found.frombytes(memoryview(data)[start : start + len(positions) * found.itemsize])
    return found


def _batch_rows(plan: ReadPlan) -> int:
    """Return how many rows a batch has. Each takes some time, however small it is; texts may take much memory."""
    columns = plan.read_columns
    is_plain = len(columns) <= _MOST_PLAIN and all(column.field.type.root in _PLAIN for column in columns)
    return _BATCH_ROWS if is_plain else BATCH_ROWS


def _chosen(where: Where, batch: Any) -> Any:
    """Return the numbers of the rows of a batch for which the condition is true."""
    arrow = load_arrow()
    numbers = _numbers(batch.num_rows)
    name = max(batch.schema.names, key=len, default="") + "#"  # no column has this name
    table = arrow.Table.from_batches([batch]).append_column(name, numbers)
    return filtered(where, table).column(name).combine_chunks()


def _numbers(count: int) -> Any:
    """Return 0, 1, 2 and so on."""
    return _numbers_to(-(-count // _STEP) * _STEP).slice(0, count)


@cache
def _numbers_to(count: int) -> Any:
    arrow = load_arrow()
    return arrow.Array.from_buffers(arrow.uint32(), count, [None, arrow.py_buffer(array("I", range(count)))])
