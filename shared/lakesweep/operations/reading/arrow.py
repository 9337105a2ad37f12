"""Read one split as Arrow record batches.

The rows of a data file go through these steps, in this order:

1. Rows that the deletion vector deletes are masked. Positions count all rows of the file, so the reader of the format
   says where each batch begins, also if it has left out row groups.
2. In primary-key files, rows of a kind other than 0 and 2 are dropped.
3. Columns are brought to the types and names of the version's schema; partition values and NULLs are added.
4. Rows are left out for which the condition is not true.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.values.data_type import DataField
from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.model.reading.columns import KEPT_KINDS, KIND_FIELD, VALUE_KIND, FileColumn, file_columns
from lakesweep.model.reading.plan import ReadFile, ReadPlan, Split
from lakesweep.model.reading.pruning import may_match
from lakesweep.model.where.arrow import filtered
from lakesweep.model.where.facts import ColumnRange
from lakesweep.operations.reading.avro import avro_batches
from lakesweep.operations.reading.casting import converted
from lakesweep.operations.reading.object_file import ObjectFile
from lakesweep.operations.reading.orc import orc_batches
from lakesweep.operations.reading.parquet import BATCH_ROWS, Choose, parquet_batches
from lakesweep.operations.reading.types import arrow_schema, arrow_type, load_arrow, out_of_range
from lakesweep.operations.reading.values import partition_array
from lakesweep.storage.store import Store
from lakesweep.table.fence import FenceRules
from lakesweep.table.stores import TableStores
from lakesweep.table.vectors import CORRUPT_VECTORS, read_vectors

MISSING = "missing_data_file"
_READERS = {"orc": orc_batches, "avro": avro_batches}

Missing = Callable[[ReadFile], None]


def stores_of(plan: ReadPlan, store: Store, open_store: Callable[[str], Store] | None) -> TableStores:
    """Return the stores of a plan: the table's, and those of its external roots."""
    return TableStores(store, FenceRules(plan.external_roots), open_store)


def read_split(
    stores: TableStores, plan: ReadPlan, split: Split, *, on_missing: Missing | None = None
) -> Iterator[Any]:
    """Yield the rows of a split as record batches of the schema `arrow_schema(plan.columns)`, none of them empty.

    Args:
        stores: See `stores_of`.
        plan: The plan; it may be `ReadPlan.shared`.
        split: One of its splits.
        on_missing: Called with each data file that does not exist; its rows are left out. Without it, the first such
            file is an error.

    Raises:
        RefusedError: A data file does not exist (`missing_data_file`), or a vector contradicts it (`corrupt_vectors`).
        FormatError: A file is damaged.
        StorageError: A read failed.
    """
    vectors = file_vectors(stores, plan, split)
    for file in split.files:
        has_begun = False
        try:
            for batch in _read_file(stores, plan, file, vectors.get(file.path)):
                has_begun = True
                yield batch
        except ObjectNotFoundError as error:
            if on_missing is None or has_begun:
                raise missing_file(plan, file) from error
            on_missing(file)


def missing_file(plan: ReadPlan, file: ReadFile) -> RefusedError:
    """Return the error for a data file that does not exist, or not any more."""
    return RefusedError(
        f"table {plan.table}: expected the data file {file.path}, which the version needs, found none; "
        "`lakesweep check` says what to do",
        code=MISSING,
    )


def file_vectors(stores: TableStores, plan: ReadPlan, split: Split) -> Mapping[str, DeletionVector]:
    """Return path of a data file -> its vector."""
    by_file: defaultdict[str, list[ReadFile]] = defaultdict(list)
    for file in split.files:
        if file.vector is not None:
            by_file[file.vector.index_file].append(file)
    found: dict[str, DeletionVector] = {}
    for path, files in by_file.items():
        located = [file.vector for file in files if file.vector is not None]
        try:
            for file, vector in zip(files, read_vectors(stores, located), strict=True):
                _check(plan, file, vector)
                found[file.path] = vector
        except ObjectNotFoundError as error:
            raise RefusedError(
                f"table {plan.table}: expected the index file {path}, which says what rows are deleted, found none",
                code="missing_index_file",
            ) from error
    return found


def _check(plan: ReadPlan, file: ReadFile, vector: DeletionVector) -> None:
    if vector.last >= file.rows:
        raise RefusedError(
            f"table {plan.table}, {vector.path}: expected deleted rows below {file.rows} of {file.path}, found row "
            f"{vector.last}",
            code=CORRUPT_VECTORS,
        )


def _read_file(stores: TableStores, plan: ReadPlan, file: ReadFile, vector: DeletionVector | None) -> Iterator[Any]:
    for _, _, batch in kept_rows(stores, plan, file, vector):
        yield from _matching(plan, batch)


def kept_rows(
    stores: TableStores,
    plan: ReadPlan,
    file: ReadFile,
    vector: DeletionVector | None,
    batch_rows: int = BATCH_ROWS,
    *,
    is_whole: bool = False,
    most_bytes: int | None = None,
    buffer_bytes: int | None = None,
    batch_bytes: int | None = None,
    choose: Choose | None = None,
) -> Iterator[tuple[int, Any, Any]]:
    """Yield the rows of a file that readers see, before the condition.

    Args:
        stores: See `stores_of`.
        plan: The plan.
        file: The file.
        vector: Its deletion vector.
        batch_rows: The most rows of a batch, if the file is a Parquet file.
        is_whole: See `ObjectFile`.
        most_bytes: See `parquet_batches`.
        buffer_bytes: See `parquet_batches`.
        batch_bytes: See `parquet_batches`.
        choose: Chooses row groups of a Parquet file for a plan without a condition.

    Yields:
        The position of a batch's first row, which of its rows are kept (`None`: all), and the kept rows as a record
        batch of `plan.read_columns`, never empty.
    """
    arrow = load_arrow()
    wanted = file_columns(plan, file)
    values = plan.partition_values(file.partition)
    store, key = stores.resolve(file.path)
    source = ObjectFile(store, key, file.size_bytes, is_whole=is_whole)
    schema = arrow_schema(plan.read_columns)
    physical = _physical(plan, wanted)
    if file.format != "parquet":
        batches = _READERS[file.format](source, file, physical)
    else:
        choose = choose or _choice(plan, file)
        batches = parquet_batches(source, file, physical, choose, batch_rows, most_bytes, buffer_bytes, batch_bytes)
    for first, batch in batches:
        kept = _kept(plan, batch, first, vector)
        left = batch if kept is None else batch.filter(kept)
        if left.num_rows:
            arrays = [_array(file, column, left, values) for column in wanted]
            yield first, kept, arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _choice(plan: ReadPlan, file: ReadFile) -> Choose | None:
    where = plan.where
    if where is None:
        return None

    def choose(rows: int, ranges: Mapping[str, ColumnRange]) -> bool:
        return may_match(where, plan, file, rows, ranges)

    return choose


def _matching(plan: ReadPlan, batch: Any) -> Iterator[Any]:
    """Yield the rows of a condition, with the columns of the result."""
    if plan.where is None:
        yield batch
        return
    table = filtered(plan.where, load_arrow().Table.from_batches([batch]))
    yield from (part for part in table.select([column.name for column in plan.columns]).to_batches() if part.num_rows)


def _physical(plan: ReadPlan, wanted: Sequence[FileColumn]) -> tuple[DataField, ...]:
    """Return the columns to read of a file."""
    found = tuple(column.found for column in wanted if column.found is not None)
    return (*found, KIND_FIELD) if plan.has_kinds else found


def _kept(plan: ReadPlan, batch: Any, first: int, vector: DeletionVector | None) -> Any:
    """Return whether each row is kept, `None`: all are."""
    from pyarrow import compute

    arrow = load_arrow()
    kept = None
    if vector is not None and vector.cardinality:
        bits = arrow.py_buffer(vector.deleted(first, batch.num_rows))
        kept = compute.invert(arrow.Array.from_buffers(arrow.bool_(), batch.num_rows, [None, bits]))
    if plan.has_kinds:
        kinds = batch.column(batch.schema.get_field_index(VALUE_KIND))
        whole = compute.is_in(kinds, arrow.array(KEPT_KINDS, kinds.type))
        kept = whole if kept is None else compute.and_(kept, whole)
    return kept


def _array(file: ReadFile, column: FileColumn, batch: Any, partition: Mapping[str, object]) -> Any:
    """Return the values of one column of the result."""
    type_ = arrow_type(column.column.field.type)
    if column.column.is_partition:
        try:
            return partition_array(partition[column.column.name], column.column.field.type, batch.num_rows)
        except OverflowError as error:
            raise out_of_range(file.path, column.column.name) from error
    if column.found is None:
        return load_arrow().nulls(batch.num_rows, type_)
    found = _as_stated(batch.column(batch.schema.get_field_index(column.found.name)), file, column.found)
    try:
        return converted(found, column.found.type, column.column.field.type)
    except UnicodeDecodeError as error:  # Java writes bytes as text without a look at them
        raise FormatError(
            f"{file.path}: expected text in the column {column.column.name}, found bytes that are not UTF-8"
        ) from error
    except load_arrow().ArrowInvalid as error:
        raise out_of_range(file.path, column.column.name) from error


def _as_stated(found: Any, file: ReadFile, field: DataField) -> Any:
    """Return a file's values in Arrow's type for the file's own schema; the values stay the same."""
    type_ = arrow_type(field.type)
    if found.type == type_:
        return found
    try:
        return found.cast(type_, safe=True)
    except load_arrow().ArrowException as error:
        raise FormatError(
            f"{file.path}: expected values of {field.name} that fit {field.type.root}, found {found.type}"
        ) from error
