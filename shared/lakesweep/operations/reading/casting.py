"""Bring the values of a data file to the types of the version's schema; see `model/reading/casts.py`."""

from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from lakesweep.format.values.data_type import DataType
from lakesweep.format.values.partition_path import value_text
from lakesweep.model.reading.casts import BYTES, FLOATS, INTEGERS, TEXTS
from lakesweep.model.reading.columns import by_id, is_same, shares
from lakesweep.operations.reading.types import arrow_type, load_arrow

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_DAY_MS = 86_400_000
_COMPACT = 18
"""Paimon keeps decimals of up to so many digits as one number, which decides how it divides."""
_EXACT = Context(prec=100)


def converted(array: Any, found: DataType, wanted: DataType) -> Any:
    """Return values in the wanted type.

    Args:
        array: Values of Arrow's type for `found`.
        found: The type in the data file.
        wanted: The type of the result; `unsupported` yields nothing for the two.
    """
    arrow = load_arrow()
    if is_same(found, wanted):
        return array
    if not shares(found, wanted):
        return arrow.nulls(len(array), arrow_type(wanted))
    match found.root, wanted.root:
        case "ROW", "ROW":
            return _row(array, found, wanted)
        case "ARRAY", "ARRAY":
            values = converted(array.values, found.children[0], wanted.children[0])
            return rebuilt(array, arrow_type(wanted), values)
        case "MAP", "MAP":
            items = converted(array.items, found.children[1], wanted.children[1])
            type_ = arrow_type(wanted)
            entries = arrow.StructArray.from_arrays([array.keys, items], fields=[type_.key_field, type_.item_field])
            return rebuilt(array, type_, entries)
    return _cast(array, found, wanted)


def has_chars(type_: DataType) -> bool:
    """Tell whether a type is or contains CHAR."""
    return type_.root == "CHAR" or any(map(has_chars, (*type_.children, *(field.type for field in type_.fields))))


def trim_chars(array: Any, type_: DataType) -> Any:
    """Return values whose CHARs have no blanks at their end."""
    arrow = load_arrow()
    if not has_chars(type_):
        return array
    match type_.root:
        case "CHAR":
            from pyarrow import compute

            return compute.ascii_rtrim(array, characters=" ")
        case "ROW":
            columns = [trim_chars(array.field(number), field.type) for number, field in enumerate(type_.fields)]
            return arrow.StructArray.from_arrays(columns, fields=list(array.type), mask=array.is_null())
        case "ARRAY":
            return rebuilt(array, array.type, trim_chars(array.values, type_.children[0]))
    keys = trim_chars(array.keys, type_.children[0])
    items = trim_chars(array.items, type_.children[1]) if type_.root == "MAP" else array.items
    fields = [array.type.key_field, array.type.item_field]
    return rebuilt(array, array.type, arrow.StructArray.from_arrays([keys, items], fields=fields))


def _row(array: Any, found: DataType, wanted: DataType) -> Any:
    arrow = load_arrow()
    type_ = arrow_type(wanted)
    columns = []
    for field in wanted.fields:
        mine = by_id(found.fields, field.id)
        if mine is None:
            columns.append(arrow.nulls(len(array), arrow_type(field.type)))
        else:
            columns.append(converted(array.field(found.fields.index(mine)), mine.type, field.type))
    fields = [type_.field(number) for number in range(type_.num_fields)]
    return arrow.StructArray.from_arrays(columns, fields=fields, mask=array.is_null())


def rebuilt(array: Any, type_: Any, values: Any) -> Any:
    """Return a list or map of other values; which are NULL, and how long each is, stays."""
    return load_arrow().Array.from_buffers(
        type_, len(array), array.buffers()[:2], offset=array.offset, children=[values]
    )


def _cast(array: Any, found: DataType, wanted: DataType) -> Any:
    arrow = load_arrow()
    type_ = arrow_type(wanted)
    if wanted.root == "DECIMAL":
        return _each(array, lambda value: _fitting(Decimal(value), wanted), type_)
    if wanted.root in TEXTS and found.root not in TEXTS:
        plain = array.cast(arrow.int32()) if found.root == "DATE" else array
        return _each(plain, lambda value: _cut_text(value_text(value, found, legacy_name=False), wanted), type_)
    if wanted.root in TEXTS:
        return _each(array, lambda value: _cut_text(value, wanted), type_)
    if wanted.root in BYTES:
        return _each(array.cast(arrow.binary()), lambda value: _cut_bytes(value, wanted), type_)
    if found.root == "DECIMAL":
        return _each(array, _from_decimal(found, wanted), type_)
    if found.root in FLOATS and wanted.root in INTEGERS:
        return _each(array, lambda value: _whole(value, wanted), type_)
    if found.root in ("DATE", "TIME"):
        factor = _DAY_MS if found.root == "DATE" else 1
        numbers = _each(array.cast(arrow.int32()), lambda value: value * factor, arrow.int64())
        return numbers.cast(arrow.timestamp("ms")).cast(type_)
    if found.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return array.cast(type_, safe=True)
    return array.cast(type_, safe=False)


def _each(array: Any, function: Callable[[Any], Any], type_: Any) -> Any:
    values = [None if value is None else function(value) for value in array.to_pylist()]
    return load_arrow().array(values, type_)


def _fitting(value: Decimal, wanted: DataType) -> Decimal | None:
    """Return a decimal of the wanted scale, rounded half up, `None` if it has too many digits."""
    try:
        rounded = value.quantize(Decimal(1).scaleb(-(wanted.scale or 0)), ROUND_HALF_UP, context=_EXACT)
    except InvalidOperation:
        return None
    return rounded if len(rounded.as_tuple().digits) <= (wanted.precision or 0) else None


def _from_decimal(found: DataType, wanted: DataType) -> Callable[[Decimal], int | float]:
    if wanted.root in INTEGERS:
        return lambda value: _wrapped(int(value.to_integral_value(ROUND_DOWN)), 64, wanted)
    scale = found.scale or 0
    if (found.precision or 0) <= _COMPACT:
        return lambda value: float(int(value.scaleb(scale, _EXACT))) / 10**scale
    return float


def _whole(value: float, wanted: DataType) -> int:
    """Return the whole part as Java does: at the limits of 32 or 64 bits, and then by the lower bits."""
    bits = max(32, _BITS[wanted.root])
    if value != value:
        return 0
    most = (1 << bits - 1) - 1
    whole = most if value >= most else -most - 1 if value <= -most - 1 else int(value)
    return _wrapped(whole, bits, wanted)


def _wrapped(number: int, bits: int, wanted: DataType) -> int:
    """Return the lower bits of a number as a signed number."""
    bits = min(bits, _BITS[wanted.root])
    return (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _cut_text(value: str, wanted: DataType) -> str:
    length = wanted.length or 0
    cut = value[:length]
    return cut.ljust(length) if wanted.root == "CHAR" else cut


def _cut_bytes(value: bytes, wanted: DataType) -> bytes:
    length = wanted.length or 0
    cut = value[:length]
    return cut.ljust(length, b"\0") if wanted.root == "BINARY" else cut
