"""Read an Avro file block by block, with the decoder of manifests.

Its records have no statistics, so nothing of a file is left out.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from io import RawIOBase
from typing import Any

from lakesweep.errors import FormatError
from lakesweep.format.avro.container import read_container
from lakesweep.format.avro.projection import read_blocks
from lakesweep.format.avro.wants import Want
from lakesweep.format.values.data_type import DataField, DataType
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.reading.types import arrow_type, load_arrow

_INT = DataType("INT")


def avro_batches(source: RawIOBase, file: ReadFile, fields: Sequence[DataField]) -> Iterator[tuple[int, Any]]:
    """Yield record batches with the position of their first row; see `parquet_batches`.

    The whole file is in memory, as it is compressed.

    Raises:
        FormatError: The file is damaged, has another number of rows, or lacks a column.
        UnsupportedFormatError: Its codec is not supported.
        StorageError: A read failed.
    """
    arrow = load_arrow()
    container = read_container(source.readall(), file.path, is_data=True)
    names = [field.name for field in fields]
    _check_names(container.schema, names, file.path)
    first = 0
    for rows in read_blocks(container, tuple(Want(name) for name in names)):
        try:
            columns = [_array([row[number] for row in rows], field.type) for number, field in enumerate(fields)] or [
                arrow.nulls(len(rows))
            ]
        except (arrow.ArrowException, TypeError, ValueError, OverflowError, KeyError) as error:
            raise FormatError(
                f"{file.path}: expected values of its schema from row {first} on, found {error}"
            ) from error
        yield first, arrow.RecordBatch.from_arrays(columns, names=names or [""])
        first += len(rows)
    if first != file.rows:
        raise FormatError(f"{file.path}: expected {file.rows} rows, found {first}")


def _check_names(schema: object, names: Sequence[str], path: str) -> None:
    branches = schema if isinstance(schema, list) else [schema]
    records = [each for each in branches if isinstance(each, dict) and each.get("type") == "record"]
    found = [field.get("name") for record in records for field in record.get("fields", ())]
    for name in names:
        if found.count(name) != 1:
            raise FormatError(f"{path}: expected one column {name}, as its schema states, found {found.count(name)}")


def _array(values: list[Any], type_: DataType) -> Any:
    """Return decoded values as Arrow's."""
    arrow = load_arrow()
    match type_.root:
        case "DECIMAL":
            return arrow.array(_each(values, lambda value: _decimal(value, type_.scale or 0)), arrow_type(type_))
        case "DATE" | "TIME":
            return arrow.array(values, arrow.int32()).cast(arrow_type(type_))
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            if (type_.precision or 0) > 6:
                raise ValueError("a time stamp of more than six digits")
            return arrow.array(values, arrow.int64()).cast(arrow_type(type_))
        case "ROW":
            fields = list(arrow_type(type_))
            columns = [_array(_field(values, field.name), field.type) for field in type_.fields]
            mask = arrow.array([value is None for value in values], arrow.bool_())
            return arrow.StructArray.from_arrays(columns, fields=fields, mask=mask)
        case "ARRAY":
            elements = _array([each for value in values for each in value or ()], type_.children[0])
            return _listed(values, arrow_type(type_), elements)
        case "MAP" | "MULTISET":
            pairs = _each(values, _pairs)
            item = type_.children[1] if type_.root == "MAP" else _INT
            keys = _array([key for value in pairs for key, _ in value or ()], type_.children[0])
            items = _array([each for value in pairs for _, each in value or ()], item)
            result = arrow_type(type_)
            entries = arrow.StructArray.from_arrays([keys, items], fields=[result.key_field, result.item_field])
            return _listed(pairs, result, entries)
    return arrow.array(values, arrow_type(type_))


def _listed(values: list[Any], type_: Any, children: Any) -> Any:
    arrow = load_arrow()
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value or ()))
    valid = arrow.array([value is not None for value in values], arrow.bool_())
    buffers = [valid.buffers()[1], arrow.array(offsets, arrow.int32()).buffers()[1]]
    return arrow.Array.from_buffers(type_, len(values), buffers, children=[children])


def _each(values: list[Any], function: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else function(value) for value in values]


def _field(rows: list[Any], name: str) -> list[Any]:
    return [None if row is None else row[name] for row in rows]


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    """Return the entries of a map: Avro's own, or an array of records if the keys are no texts."""
    return list(value.items()) if isinstance(value, dict) else [(entry["key"], entry["value"]) for entry in value]


def _decimal(value: bytes, scale: int) -> Decimal:
    number = int.from_bytes(value, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
