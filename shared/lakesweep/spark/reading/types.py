"""Spark's types for Paimon's, and Arrow's values as Spark takes them.

Texts become `string` and bytes `binary`, whatever their length. A TIMESTAMP is a `timestamp_ntz`, one with local time
zone a `timestamp`; Spark has six digits of a second, so further ones are cut off. A TIME is the millisecond of the day
as `int`. Every column may be NULL.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lakesweep.errors import RefusedError
from lakesweep.format.values.data_type import DataField, DataType

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructType

_PLAIN = {
    "BOOLEAN": "BooleanType",
    "TINYINT": "ByteType",
    "SMALLINT": "ShortType",
    "INT": "IntegerType",
    "BIGINT": "LongType",
    "FLOAT": "FloatType",
    "DOUBLE": "DoubleType",
    "DATE": "DateType",
    "CHAR": "StringType",
    "VARCHAR": "StringType",
    "BINARY": "BinaryType",
    "VARBINARY": "BinaryType",
    "TIME": "IntegerType",
    "TIMESTAMP": "TimestampNTZType",
    "TIMESTAMP_LTZ": "TimestampType",
}


def spark_type(type_: DataType) -> "SparkType":
    """Return Spark's type.

    Raises:
        RefusedError: There is none (`unsupported_type`).
    """
    from pyspark.sql import types

    if name := _PLAIN.get(type_.root):
        found: SparkType = getattr(types, name)()
        return found
    match type_.root:
        case "DECIMAL":
            return types.DecimalType(type_.precision or 10, type_.scale or 0)
        case "ROW":
            return spark_schema(type_.fields)
        case "ARRAY":
            return types.ArrayType(spark_type(type_.children[0]))
        case "MAP":
            return types.MapType(spark_type(type_.children[0]), spark_type(type_.children[1]))
        case "MULTISET":
            return types.MapType(spark_type(type_.children[0]), types.IntegerType())
    raise RefusedError(f"expected a type that Spark has, found {type_.root}", code="unsupported_type")


def spark_schema(fields: Iterable[DataField]) -> "StructType":
    """Return Spark's schema of some columns."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(each.name, spark_type(each.type)) for each in fields])


def quoted(name: str) -> "Column":
    """Return a column by its name, whatever characters it has."""
    from pyspark.sql import functions

    return functions.col(f"`{name.replace('`', '``')}`")


def for_spark(found: Any) -> Any:
    """Return an Arrow array in the types that Spark takes: times as numbers, time stamps in microseconds."""
    import pyarrow as arrow
    from pyarrow import compute

    type_ = found.type
    if arrow.types.is_time32(type_):
        return found.cast(arrow.int32())
    if arrow.types.is_timestamp(type_) and type_.unit != "us":
        whole = compute.floor_temporal(found, unit="microsecond") if type_.unit == "ns" else found
        return whole.cast(arrow.timestamp("us", type_.tz))
    if arrow.types.is_struct(type_):
        names = [type_.field(number).name for number in range(type_.num_fields)]
        parts = [for_spark(found.field(number)) for number in range(type_.num_fields)]
        return arrow.StructArray.from_arrays(parts, names, mask=found.is_null()) if names else found
    if arrow.types.is_list(type_):
        return _with_buffers(found, arrow.list_(arrow.field("element", (inner := for_spark(found.values)).type)), inner)
    if arrow.types.is_map(type_):
        keys, items = for_spark(found.keys), for_spark(found.items)
        entries = arrow.StructArray.from_arrays(
            [keys, items], fields=[arrow.field("key", keys.type, nullable=False), arrow.field("value", items.type)]
        )
        return _with_buffers(found, arrow.map_(keys.type, items.type), entries)
    return found


def _with_buffers(found: Any, type_: Any, values: Any) -> Any:
    """Return a list or a map with other values; validity, offsets and the place in them stay."""
    import pyarrow as arrow

    buffers = found.buffers()[:2]
    return arrow.Array.from_buffers(type_, len(found), buffers, found.null_count, found.offset, [values])
