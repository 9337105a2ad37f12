"""The columns that a reading asks for, and whether they can be read."""

from collections.abc import Sequence

from lakesweep.errors import RefusedError, UsageError, some_of
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.data_type import DataField, DataType, type_name
from lakesweep.model.reading.casts import unsupported
from lakesweep.model.reading.columns import by_id
from lakesweep.model.reading.plan import ReadColumn, ReadPlan
from lakesweep.runs.session import Table

_UNREADABLE_TYPES = frozenset(("VARIANT", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY"))


def columns_of(table: Table, schema: TableSchema, names: Sequence[str] | None) -> tuple[ReadColumn, ...]:
    """Return some columns of a table, in the order of their names; `None` for all.

    Raises:
        UsageError: A column does not exist (`no_such_column`), or is named twice.
        RefusedError: A column has a type that is not read (`unsupported_type`).
    """
    fields = {field.name: field for field in schema.fields}
    chosen = list(fields) if names is None else list(names)
    for name in chosen:
        if name not in fields:
            raise UsageError(
                f"table {table.ref}: expected one of the columns {some_of(list(fields))}, found {name!r}",
                code="no_such_column",
            )
        check_readable(table, fields[name])
    if len(set(chosen)) < len(chosen) or not chosen:
        raise UsageError(f"table {table.ref}: expected each column once, found {', '.join(chosen) or 'none'}")
    return tuple(ReadColumn(fields[name], name in schema.partition_keys) for name in chosen)


def check_readable(table: Table, field: DataField) -> None:
    """Make sure that a column has a type that is read.

    Raises:
        RefusedError: It has not (`unsupported_type`).
    """
    if found := _unreadable(field.type):
        raise RefusedError(
            f"table {table.ref}: column {field.name} has the type {found}, which Lakesweep does not read; leave it out",
            code="unsupported_type",
        )


def _unreadable(type_: DataType) -> str | None:
    if type_.root in _UNREADABLE_TYPES:
        return type_.root
    inner = (*type_.children, *(field.type for field in type_.fields))
    return next((found for each in inner if (found := _unreadable(each)) is not None), None)


def check_casts(table: Table, plan: ReadPlan) -> None:
    """Make sure that each column can be read from the files of each schema.

    Raises:
        RefusedError: One has changed its type in such a way (`unsupported_cast`).
    """
    for schema_id, fields in plan.schemas.items():
        for column in plan.read_columns:
            mine = None if column.is_partition else by_id(fields, column.field.id)
            for found, wanted in () if mine is None else unsupported(mine.type, column.field.type):
                raise RefusedError(
                    f"table {table.ref}: column {column.name} has files of schema {schema_id} with the type "
                    f"{type_name(found)}, which Lakesweep does not read as {type_name(wanted)}; read other columns, "
                    "or use Paimon",
                    code="unsupported_cast",
                )
