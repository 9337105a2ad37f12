"""Columns of tables with a primary key that Lakesweep compacts: keys in Paimon's order, and types that it writes.

Source: Paimon `TableSchema#crossPartitionUpdate`, `SchemaValidation`.
"""

from collections.abc import Iterable, Iterator, Sequence

from lakesweep.errors import RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.data_type import DataField, DataType, type_name
from lakesweep.format.values.json_document import shorten

INSTEAD = "compact in Paimon instead (CALL sys.compact)"
_ORDERED = frozenset(
    (
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "CHAR", "VARCHAR", "DATE", "TIME", "TIMESTAMP",
        "TIMESTAMP_LTZ",
    )
)  # fmt: skip
"""Types whose order is the same in Java and here. Of FLOAT and DOUBLE, NaN and zeros are not, and bytes are compared by
Paimon in several ways."""
_APART = frozenset(("BLOB", "VECTOR", "VARIANT", "GEOMETRY", "GEOGRAPHY"))
"""Types whose values Lakesweep does not write, or which lie in files of their own."""


def check_columns(schema: TableSchema, latest: TableSchema) -> None:
    """Refuse columns that lie apart from the others, also those of an older schema.

    Raises:
        RefusedError: There is one (`column_type`).
    """
    where = "" if schema is latest else f" in schema {schema.id}"
    for field in schema.fields:
        for root in _roots(field.type):
            if root in _APART:
                raise RefusedError(
                    f"column {shorten(field.name)} has the type {root}{where}, which Lakesweep does not merge; "
                    f"{INSTEAD}",
                    code="column_type",
                )


def _roots(type_: DataType) -> Iterator[str]:
    yield type_.root
    for child in (*type_.children, *(field.type for field in type_.fields)):
        yield from _roots(child)


def check_keys(latest: TableSchema) -> None:
    """Refuse a primary key by which Lakesweep does not merge.

    Raises:
        RefusedError: There is none beside the partition keys (`no_key`), it lacks a partition key
            (`cross_partition`), or a column has another order in Java (`key_type`).
    """
    keys = merge_keys(latest)
    if not keys:
        raise RefusedError(
            f"expected a primary key with columns beside the partition keys, found {_names(latest.primary_keys)}; "
            f"{INSTEAD}",
            code="no_key",
        )
    if missing := [key for key in latest.partition_keys if key not in latest.primary_keys]:
        raise RefusedError(
            f"the primary key {_names(latest.primary_keys)} is without the partition key {_names(missing)}, so a row "
            f"may replace one of another partition; {INSTEAD}",
            code="cross_partition",
        )
    for field in fields(latest, keys):
        check_ordered(field, f"the primary key has the column {shorten(field.name)}", "key_type")


def check_ordered(field: DataField, what: str, code: str) -> None:
    """Refuse a column whose values have another order in Java.

    Args:
        field: The column.
        what: How the sentence begins.
        code: That of the refusal.

    Raises:
        RefusedError: With this code.
    """
    if field.type.root not in _ORDERED:
        raise RefusedError(
            f"{what} of type {type_name(field.type)}, whose values Lakesweep does not order as Paimon does; {INSTEAD}",
            code=code,
        )


def check_same_keys(schema: TableSchema, latest: TableSchema) -> None:
    """Refuse a table whose files may be sorted, or placed, by other keys than the latest ones.

    Raises:
        RefusedError: The columns, their names or types differ (`key_changed`, `partition_changed`).
    """
    for what, own, now, code in (
        ("primary key", schema.primary_keys, latest.primary_keys, "key_changed"),
        ("partition keys", schema.partition_keys, latest.partition_keys, "partition_changed"),
    ):
        if fields(schema, own) != fields(latest, now):
            raise RefusedError(
                f"schema {schema.id} has the {what} {_described(schema, own)}, and the latest one "
                f"{_described(latest, now)}, so older data files have other keys; {INSTEAD}",
                code=code,
            )


def merge_keys(schema: TableSchema) -> tuple[str, ...]:
    """Return the primary key without the partition's keys."""
    return tuple(key for key in schema.primary_keys if key not in schema.partition_keys)


def fields(schema: TableSchema, names: Iterable[str]) -> tuple[DataField, ...]:
    """Return columns by their names."""
    by_name = {field.name: field for field in schema.fields}
    return tuple(by_name[name] for name in names)


def _described(schema: TableSchema, names: Sequence[str]) -> str:
    return _names([f"{field.name} {type_name(field.type)}" for field in fields(schema, names)])


def _names(names: Sequence[str]) -> str:
    return shorten(", ".join(names)) if names else "none"
