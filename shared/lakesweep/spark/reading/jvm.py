"""Parquet files that Spark reads itself.

One scan reads the files of one shape. Each row finds the *mark* of its file by the file's key (`keys.py`): the bits of
the deletion vector, and the values of the partition. Marks are broadcast.

A row is left out only because a vector says so, never because something was not found: a row without a mark ends the
job. Spark's `row_index` counts the rows of the whole file, also if row groups or pages of it are left out, or if
several tasks share it. `tests/spark/test_read_positions.py` proves that.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakesweep.errors import FormatError, MaintenanceError, RefusedError
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.model.reading.columns import KEPT_KINDS, VALUE_KIND, FileColumn, file_columns
from lakesweep.model.reading.plan import ReadColumn, ReadFile, ReadPlan, pack
from lakesweep.model.where.spark_text import to_spark_sql
from lakesweep.operations.reading.arrow import MISSING
from lakesweep.spark.reading.routes import Routes
from lakesweep.spark.reading.tasks import MarkReader, pieces
from lakesweep.spark.reading.types import quoted, spark_schema, spark_type
from lakesweep.spark.tasks import Access

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_KIND = DataField(2147483645, VALUE_KIND, DataType("TINYINT", nullable=False))
_OPTIONS = {
    # The plan has the list of files. Nothing may add to it, be left out of it, or be taken from names of folders.
    "__globPaths__": "false",
    "recursiveFileLookup": "true",
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    # Paimon counts days before 1582 as Spark does from version 3 on.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_NO_MARK = "raise_error('lakesweep: expected a mark of each data file, and no more rows than metadata state')"
_IS_KEPT = (
    f"(shiftright(coalesce(get(words, cast(shiftright(position, 6) AS int)), {_NO_MARK}), "
    "cast(position & 63 AS int)) & 1) = 0"
)
_IS_MARKED = f"if(file IS NULL, {_NO_MARK}, true)"
_IS_OF_KIND = (
    f"coalesce(kind, raise_error('lakesweep: expected a column {VALUE_KIND} in each data file')) "
    f"IN ({', '.join(map(str, KEPT_KINDS))})"
)
_SPLIT_BYTES, _OPEN_BYTES = 1 << 30, 16 << 20
"""A task reads the vectors of data files of this size together; a smaller data file counts as the second number."""


def frames(session: "SparkSession", access: Access, plan: ReadPlan, routes: Routes, root: str) -> "Iterator[DataFrame]":
    """Yield a frame for each shape of files.

    Raises:
        RefusedError: A data file does not exist (`missing_data_file`).
        FormatError: A data file has another size.
    """
    from pyspark.sql import functions

    partition = [column for column in plan.read_columns if column.is_partition]
    for (*_, has_vectors), files in routes.spark.items():
        columns = file_columns(plan, files[0])
        physical = [column.found for column in columns if column.found is not None]
        scan = _scan(session, plan, files, root, [*physical, _KIND] if plan.has_kinds else physical)
        chosen = [quoted(field.name).alias(f"c{number}") for number, field in enumerate(physical)]
        if plan.has_kinds:
            chosen.append(quoted(VALUE_KIND).alias("kind"))
        if has_vectors or partition:
            chosen.append(functions.xxhash64("_metadata.file_name").alias("key"))
        if has_vectors:
            chosen.append(functions.col("_metadata.row_index").alias("position"))
        rows = scan.select(*chosen)
        if has_vectors or partition:
            marks = functions.broadcast(_marks(session, access, plan, files, partition))
            rows = rows.join(marks, functions.expr("key = file"), "left")
            rows = rows.where(_IS_KEPT if has_vectors else _IS_MARKED)
        if plan.has_kinds:
            rows = rows.where(_IS_OF_KIND)
        rows = rows.select(*_result(columns))
        if plan.where is not None:
            rows = rows.where(to_spark_sql(plan.where)).select(*(quoted(column.name) for column in plan.columns))
        yield rows


def _scan(
    session: "SparkSession", plan: ReadPlan, files: Sequence[ReadFile], root: str, physical: Sequence[DataField]
) -> "DataFrame":
    from pyspark.errors import AnalysisException

    reader = session.read.schema(spark_schema(physical)).options(**_OPTIONS)
    try:
        scan = reader.parquet(*(f"{root}/{file.path}" for file in files))
    except AnalysisException as error:
        found = next((file.path for file in files if file.path.rpartition("/")[2] in str(error)), None)
        if found is None:
            raise
        raise RefusedError(
            f"table {plan.table}: expected the data file {found}, which the version needs, found none; "
            "`lakesweep check` says what to do",
            code=MISSING,
        ) from error
    listed = len(scan.inputFiles())
    if listed != len(files):
        raise MaintenanceError(
            f"table {plan.table}: expected Spark to read {len(files)} data files, found {listed}", code="spark_failed"
        )
    _check_sizes(scan, plan, files)
    return scan


def _check_sizes(scan: "DataFrame", plan: ReadPlan, files: Sequence[ReadFile]) -> None:
    """Make sure that the data files have the sizes that metadata state: Spark leaves out files without bytes.

    Raises:
        FormatError: One has not.
    """
    index = scan._jdf.queryExecution().analyzed().relation().location()
    expected = sum(file.size_bytes for file in files)
    if index.sizeInBytes() == expected:
        return
    listed = index.allFiles()
    statuses = (listed.apply(number) for number in range(listed.size()))
    sizes = {status.getPath().getName(): status.getLen() for status in statuses}
    for file in files:
        found = sizes.get(file.path.rpartition("/")[2], 0)
        if found != file.size_bytes:
            raise FormatError(
                f"table {plan.table}, {file.path}: expected {file.size_bytes} bytes, as metadata state, found {found}"
            )


def _marks(
    session: "SparkSession",
    access: Access,
    plan: ReadPlan,
    files: Sequence[ReadFile],
    partition: Sequence[ReadColumn],
) -> "DataFrame":
    """Return the marks of some files; see `MarkReader`."""
    from pyspark.sql.types import ArrayType, LongType, StructType

    schema = StructType().add("file", LongType()).add("words", ArrayType(LongType()))
    for number, column in enumerate(partition):
        schema = schema.add(f"p{number}", spark_type(column.field.type))
    # One request reads the vectors of one index file.
    ordered = sorted(files, key=lambda file: "" if file.vector is None else file.vector.index_file)
    reader = MarkReader(access, plan.shared, tuple(column.name for column in partition))
    return pieces(session, pack(ordered, _SPLIT_BYTES, _OPEN_BYTES)).mapInArrow(reader, schema)


def _result(columns: Sequence[FileColumn]) -> "Iterator[Column]":
    """Yield the columns of the result."""
    from pyspark.sql import functions

    found = partition = 0
    for each in columns:
        if each.column.is_partition:
            column = functions.expr(f"if(file IS NULL, {_NO_MARK}, p{partition})")
            partition += 1
        elif each.found is None:
            column = functions.lit(None).cast(spark_type(each.column.field.type))
        else:
            column = _whole(functions.col(f"c{found}"), each.column.field.type)
            found += 1
        yield column.alias(each.column.name)


def _whole(column: "Column", type_: DataType) -> "Column":
    """Return a column whose NaN no condition loses.

    Bounds that pyarrow writes into Parquet do not count NaN, which is larger than every number. By them Spark would
    leave out row groups. It compares bounds with plain columns only.
    """
    from pyspark.sql import functions

    if type_.root not in ("FLOAT", "DOUBLE"):
        return column
    return functions.nanvl(column, functions.lit(float("nan")).cast(spark_type(type_)))
