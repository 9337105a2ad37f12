"""What a data file has of each wanted column.

Columns are found by field id: their names may change, and a column that was dropped and added again has another id. A
file has no column that was added after it was written, so its rows have NULL there. Inside of ROWs the same holds for
each field, also in ARRAYs and MAPs. A ROW of which a file has no wanted field at all is NULL as a whole.

Source: Paimon `FormatReaderMapping.Builder`, `SchemaEvolutionUtil`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.model.reading.plan import ReadColumn, ReadFile, ReadPlan

VALUE_KIND = "_VALUE_KIND"
SEQUENCE_FIELD = DataField((1 << 31) - 2, "_SEQUENCE_NUMBER", DataType("BIGINT", nullable=False))
KIND_FIELD = DataField((1 << 31) - 3, VALUE_KIND, DataType("TINYINT", nullable=False))
KEPT_KINDS = (0, 2)
"""Rows that were added, and the later state of rows that were changed."""


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A wanted column in one data file."""

    column: ReadColumn
    found: DataField | None
    """The file's column; `None`: it has none, or the value is the partition's."""


def file_columns(plan: ReadPlan, file: ReadFile) -> tuple[FileColumn, ...]:
    """Return what a data file has of each of `ReadPlan.read_columns`, in their order."""
    return tuple(FileColumn(column, _found(plan, file, column)) for column in plan.read_columns)


def _found(plan: ReadPlan, file: ReadFile, column: ReadColumn) -> DataField | None:
    if column.is_partition:
        return None
    field = by_id(plan.schemas[file.schema_id], column.field.id)
    if field is None or (file.write_cols is not None and field.name not in file.write_cols):
        return None
    return field if shares(field.type, column.field.type) else None


def by_id(fields: Sequence[DataField], field_id: int) -> DataField | None:
    """Return the field of an id."""
    return next((field for field in fields if field.id == field_id), None)


def shares(found: DataType, wanted: DataType) -> bool:
    """Tell whether a file has anything of a wanted type: of a ROW at least one field."""
    if found.root != wanted.root:
        return True
    if wanted.root == "ROW":
        pairs = ((by_id(found.fields, field.id), field) for field in wanted.fields)
        return any(mine is not None and shares(mine.type, field.type) for mine, field in pairs)
    return all(shares(mine, theirs) for mine, theirs in zip(found.children, wanted.children, strict=True))


def is_same(found: DataType, wanted: DataType) -> bool:
    """Tell whether two types have the same values, whatever may be NULL."""
    if (found.root, found.length, found.precision, found.scale) != (
        wanted.root,
        wanted.length,
        wanted.precision,
        wanted.scale,
    ):
        return False
    if len(found.fields) != len(wanted.fields):
        return False
    fields = zip(found.fields, wanted.fields, strict=True)
    children = zip(found.children, wanted.children, strict=True)
    return all(
        mine.id == theirs.id and mine.name == theirs.name and is_same(mine.type, theirs.type) for mine, theirs in fields
    ) and all(is_same(mine, theirs) for mine, theirs in children)
