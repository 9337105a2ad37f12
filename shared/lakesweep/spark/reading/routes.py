"""Which data files Spark reads itself, and which go through Arrow.

Spark reads what it certainly reads as Paimon does: Parquet files in which each wanted column has the type of the
version, none of them nested. Its names may differ. Everything else is read by `operations/reading/arrow.py` in Python
workers, which takes more CPU time (`benchmarks/results/read.md`).
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesweep.format.values.data_type import DataField
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.reading.columns import VALUE_KIND, file_columns, is_same
from lakesweep.model.reading.plan import ReadFile, ReadPlan
from lakesweep.spark.reading.keys import file_key
from lakesweep.storage.location import parse_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAME_EVERYWHERE = frozenset(
    ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "DECIMAL")
    + ("CHAR", "VARCHAR", "BINARY", "VARBINARY", "TIMESTAMP", "TIMESTAMP_LTZ")
)
_MICROSECONDS = 6
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
_OF_SPARK = ("_metadata", "_tmp_metadata")
"""Beginnings of names that have a meaning of their own for Spark."""
_OF_KEYS = ("_key_", "_sequence_number")
"""Beginnings of further columns in primary-key files, which Spark could take for those of the table."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]*")
MOST_MARKED_ROWS = 1 << 31
"""Rows of the files with vectors that Spark reads itself. Their vectors are broadcast, as one bit for each row, and so
take at most 256 MiB. Vectors of further files are read by the tasks that need them."""

Shape = tuple[int, tuple[str, ...] | None, bool]
"""Schema, written columns, and whether the files have vectors."""


@dataclass(frozen=True, slots=True)
class Routes:
    """The files of a plan, by how they are read."""

    spark: Mapping[Shape, tuple[ReadFile, ...]]
    arrow: frozenset[str]
    """The paths of all others."""


def choose(plan: ReadPlan, *, spark_sees_table: bool) -> Routes:
    """Choose the route of each file of a plan.

    Args:
        plan: The plan.
        spark_sees_table: See `spark_root`.
    """
    files = [file for split in plan.splits for file in split.files]
    if not spark_sees_table:
        return Routes({}, frozenset(file.path for file in files))
    found: defaultdict[Shape, list[ReadFile]] = defaultdict(list)
    shapes: dict[tuple[int, tuple[str, ...] | None], bool] = {}
    keys: set[int] = set()
    marked_rows = 0
    for file in files:
        shape = file.schema_id, file.write_cols
        if shape not in shapes:
            shapes[shape] = _has_plain_columns(plan, file)
        key = file_key(file.path.rpartition("/")[2])  # rows find their vector by it
        rows = 0 if file.vector is None else file.rows
        if (
            not (shapes[shape] and file.format == "parquet" and _has_plain_path(file.path))
            or key in keys
            or marked_rows + rows > MOST_MARKED_ROWS
        ):
            continue
        keys.add(key)
        marked_rows += rows
        found[*shape, file.vector is not None].append(file)
    taken = {file.path for group in found.values() for file in group}
    spark = {shape: tuple(group) for shape, group in found.items()}
    return Routes(spark, frozenset(file.path for file in files if file.path not in taken))


def spark_root(session: "SparkSession", location: str, *, has_endpoint: bool) -> str | None:
    """Return the URI of a table for Spark's own readers, `None` if they cannot read there.

    Args:
        session: The session.
        location: The table.
        has_endpoint: The table lies in an S3 of its own address, which Spark may not know.
    """
    place = parse_location(location)
    if place.scheme == "file":
        return f"file://{place.path}"
    if place.scheme != "s3" or has_endpoint:
        return None
    for scheme in ("s3", "s3a"):  # EMR has the first one; `pip install pyspark` has none
        try:
            session._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(  # type: ignore[union-attr]
                scheme, session._jsc.hadoopConfiguration()
            )
        except Exception:  # noqa: BLE001 - py4j wraps what Hadoop raises
            continue
        return f"{scheme}://{place.bucket}/{place.path}".rstrip("/")
    return None


def _has_plain_columns(plan: ReadPlan, file: ReadFile) -> bool:
    fields = plan.schemas[file.schema_id]
    names = [each.name.lower() for each in fields] + [VALUE_KIND.lower()] * plan.has_kinds
    if any(name.startswith((*_OF_SPARK, *_OF_KEYS) if plan.has_kinds else _OF_SPARK) for name in names):
        return False
    # Unless told otherwise, Spark takes `a` and `A` for one column.
    if any(len(set(each)) < len(each) for each in (names, [column.name.lower() for column in plan.read_columns])):
        return False
    return all(
        column.found is None or (_is_plain(column.found) and is_same(column.found.type, column.column.field.type))
        for column in file_columns(plan, file)
    )


def _is_plain(field: DataField) -> bool:
    type_ = field.type
    return type_.root in _SAME_EVERYWHERE and not (type_.root in _TIMES and (type_.precision or 0) > _MICROSECONDS)


def _has_plain_path(path: str) -> bool:
    """Tell whether Spark finds a file, and gives it the same name: it leaves out hidden files, and shortens paths."""
    *folders, name = path.split("/")
    return (
        not is_external(path) and not any(part in ("", ".", "..") for part in folders) and bool(_NAME.fullmatch(name))
    )
