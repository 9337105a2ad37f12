"""Arrow's types for new data files, so that Parquet gets the columns that Paimon's Java engine writes.

Unlike the types that are read, these say at every depth what may be null, and carry Paimon's field ids: pypaimon reads
no field of a ROW that may be null in the file and not in the table.

Source: Paimon 1.4 `ParquetSchemaConverter`, `SpecialFields#getArrayElementFieldId`.
"""

from collections.abc import Sequence
from typing import Any

from lakesweep.errors import RefusedError
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.operations.reading.casting import rebuilt
from lakesweep.operations.reading.types import arrow_type, load_arrow

_ID = b"PARQUET:field_id"
_NESTED_ID = (1 << 29) - 1
"""Elements, keys and values have ids around this one."""
_DEPTHS = 1 << 10
_COUNT = DataType("INT", nullable=False)
"""How often a MULTISET has an element."""


def parquet_schema(fields: Sequence[DataField]) -> Any:
    """Return Arrow's schema for the columns of a data file, with Paimon's field ids."""
    return load_arrow().schema([_column(field) for field in fields])


def _column(field: DataField) -> Any:
    return _field(field.name, field.type, field.id, field.id, 0)


def _field(name: str, type_: DataType, number: int, column: int, depth: int, *, is_key: bool = False) -> Any:
    """Return Arrow's field.

    Args:
        name: Its name.
        type_: Its type.
        number: Its own id.
        column: The id of the field of a schema in which it lies.
        depth: How many arrays and maps are between the two.
        is_key: It is the key of a map, which is never null in Parquet.
    """
    arrow, below = load_arrow(), depth + 1
    away = column * _DEPTHS + below
    match type_.root:
        case "ROW":
            found = arrow.struct([_column(each) for each in type_.fields])
        case "ARRAY":
            found = arrow.list_(_field("element", type_.children[0], _NESTED_ID + away, column, below))
        case "MAP" | "MULTISET":
            value = type_.children[1] if type_.root == "MAP" else _COUNT
            found = arrow.map_(
                _field("key", type_.children[0], _NESTED_ID - away, column, below, is_key=True),
                _field("value", value, _NESTED_ID + away, column, below),
            )
        case _:
            found = arrow_type(type_)
    return arrow.field(name, found, nullable=type_.nullable and not is_key, metadata={_ID: str(number)})


def written(array: Any, field: Any, column: str) -> Any:
    """Return the same values in the type of a field of `parquet_schema`.

    Args:
        array: Values in the type that columns have when they are read.
        field: The field.
        column: The name of the column, for the message.

    Raises:
        RefusedError: A value is null where none may be (`null_value`).
    """
    if _has_nulls(array, field):
        raise RefusedError(f"column {column} may not be null, and a row has no value there", code="null_value")
    return _shaped(array, field)


def _has_nulls(array: Any, field: Any) -> bool:
    """Tell whether a value is null that may not be, in the array or in what it holds."""
    if array.null_count and not field.nullable:
        return True
    types, type_ = load_arrow().types, field.type
    if not type_.num_fields:
        return False
    if types.is_struct(type_):
        held = array.filter(array.is_valid()) if array.null_count else array
        return any(_has_nulls(held.field(number), inner) for number, inner in enumerate(type_))
    if types.is_map(type_):
        items = rebuilt(array, load_arrow().list_(array.type.item_type), array.items)
        return _has_nulls(items.flatten(), type_.item_field)
    return _has_nulls(array.flatten(), type_.value_field)


def _shaped(array: Any, field: Any) -> Any:
    """Return the values in the type of a field, which says other things of null; pyarrow does not cast a ROW so."""
    arrow, type_ = load_arrow(), field.type
    if not type_.num_fields:
        found = array.cast(type_)
    elif arrow.types.is_struct(type_):
        parts = [_shaped(array.field(number), inner) for number, inner in enumerate(type_)]
        found = arrow.StructArray.from_arrays(parts, fields=list(type_), mask=array.is_null())
    elif arrow.types.is_map(type_):
        fields = [type_.key_field, type_.item_field]
        parts = [_shaped(part, inner) for part, inner in zip((array.keys, array.items), fields, strict=True)]
        found = rebuilt(array, type_, arrow.StructArray.from_arrays(parts, fields=fields))
    else:
        found = rebuilt(array, type_, _shaped(array.values, type_.value_field))
    return _without_nulls(found) if found.null_count and not field.nullable else found


def _without_nulls(array: Any) -> Any:
    """Return an array whose nulls nobody sees, since what holds them is null; pyarrow does not write them."""
    arrow, type_ = load_arrow(), array.type
    if arrow.types.is_struct(type_):
        return arrow.StructArray.from_arrays(
            [array.field(each) for each in range(type_.num_fields)], fields=list(type_)
        )
    inner = [array.values] if type_.num_fields else None
    return arrow.Array.from_buffers(
        type_, len(array), [None, *array.buffers()[1 : type_.num_buffers]], offset=array.offset, children=inner
    )
