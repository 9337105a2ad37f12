"""Binary rows: the form of partition values in manifests.

A serialized row has these parts: the number of fields (big-endian), a header byte and null bits, one slot of eight
bytes for each field, and a variable part. Slots point into the variable part by offset and length. All numbers except
the first are little-endian.

Only types of partition keys are decoded. The slot of a null field is ignored, so it does not matter whether the writer
reserved space for it. Source: Paimon `BinaryRow`, `SerializationUtils`.
"""

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.values.data_type import DataType

MAX_COMPACT_DECIMAL = 18
MAX_COMPACT_TIMESTAMP = 3

FIXED = {
    "BOOLEAN": "<?",
    "TINYINT": "<b",
    "SMALLINT": "<h",
    "INT": "<i",
    "DATE": "<i",
    "TIME": "<i",
    "BIGINT": "<q",
    "FLOAT": "<f",
    "DOUBLE": "<d",
}
TEXT = frozenset(("CHAR", "VARCHAR"))
BYTES = frozenset(("BINARY", "VARBINARY"))
TIMESTAMPS = frozenset(("TIMESTAMP", "TIMESTAMP_LTZ"))


class Timestamp(NamedTuple):
    """A point in time with up to nine digits; without a zone for TIMESTAMP, in UTC for TIMESTAMP_LTZ."""

    epoch_ms: int
    nano_of_ms: int
    """0 to 999 999."""


def decode_row(data: bytes, types: Sequence[DataType], path: str) -> tuple[object, ...]:
    """Decode a serialized row.

    Returns:
        One value for each type, None for null: bool, int, float, str, bytes, `Decimal`, `Timestamp`. A DATE is its
        epoch day and a TIME its millisecond of the day, both as int, because Python's own types have a smaller range.

    Raises:
        FormatError: The bytes are not a row of these types.
        UnsupportedFormatError: A type is not possible for a partition key.
    """
    if len(data) < 4 or (arity := int.from_bytes(data[:4], "big")) != len(types):
        found = int.from_bytes(data[:4], "big") if len(data) >= 4 else f"{len(data)} bytes"
        raise FormatError(f"{path}: expected a row of {len(types)} fields, found {found}")
    row = data[4:]
    slots = null_bytes(arity)
    if len(row) < slots + 8 * arity:
        raise FormatError(f"{path}: expected a row of {slots + 8 * arity} bytes or more, found {len(row)}")
    try:
        return tuple(
            None if _is_null(row, index) else _value(row, slots + 8 * index, type_) for index, type_ in enumerate(types)
        )
    except _BrokenRowError as error:
        raise FormatError(f"{path}: expected a row of {len(types)} fields, found {error}") from error
    except UnsupportedFormatError as error:
        raise UnsupportedFormatError(f"{path}: {error}", code=error.code) from error


def null_bytes(arity: int) -> int:
    """Return the bytes of the header and the null bits of a row."""
    return (arity + 63 + 8) // 64 * 8


def has_values(data: bytes) -> bool:
    """Tell whether a serialized row has a field that is not null. Bytes that are no row count as if it had one."""
    if len(data) < 4:
        return bool(data)
    arity = int.from_bytes(data[:4], "big")
    row = data[4:]
    if len(row) < null_bytes(arity):
        return True
    return any(not _is_null(row, index) for index in range(arity))


class _BrokenRowError(Exception):
    """A slot has no value of its type."""


def _is_null(row: bytes, index: int) -> bool:
    bit = index + 8  # After the header byte.
    return bool(row[bit >> 3] >> (bit & 7) & 1)


def _value(row: bytes, slot: int, type_: DataType) -> object:
    root = type_.root
    if code := FIXED.get(root):
        return struct.unpack_from(code, row, slot)[0]
    if root in BYTES:
        return _sized(row, slot)
    if root in TEXT:
        try:
            return _sized(row, slot).decode("utf-8")
        except UnicodeDecodeError as error:
            raise _BrokenRowError("text that is not UTF-8") from error
    if root == "DECIMAL":
        return _decimal(row, slot, type_.precision or 0, type_.scale or 0)
    if root in TIMESTAMPS:
        return _timestamp(row, slot, type_.precision or 0)
    raise UnsupportedFormatError(f"expected a type that partition keys have, found {root}", code="unsupported_type")


def _sized(row: bytes, slot: int) -> bytes:
    mark = row[slot + 7]
    if mark & 0x80:  # Up to seven bytes lie in the slot itself.
        length = mark & 0x7F
        if length > 7:
            raise _BrokenRowError(f"{length} bytes in a slot of seven")
        return row[slot : slot + length]
    offset, length = _pointer(row, slot)
    return _part(row, offset, length)


def _decimal(row: bytes, slot: int, precision: int, scale: int) -> Decimal:
    if precision <= MAX_COMPACT_DECIMAL:
        unscaled = int.from_bytes(row[slot : slot + 8], "little", signed=True)
    else:
        offset, length = _pointer(row, slot)
        if not 0 < length <= 16:
            raise _BrokenRowError(f"a decimal of {length} bytes")
        unscaled = int.from_bytes(_part(row, offset, length), "big", signed=True)
    sign, digits = int(unscaled < 0), tuple(map(int, str(abs(unscaled))))
    if len(digits) > max(precision, 1):
        raise _BrokenRowError(f"a decimal of {len(digits)} digits")
    return Decimal((sign, digits, -scale))


def _timestamp(row: bytes, slot: int, precision: int) -> Timestamp:
    if precision <= MAX_COMPACT_TIMESTAMP:
        return Timestamp(int.from_bytes(row[slot : slot + 8], "little", signed=True), 0)
    offset, nanos = _pointer(row, slot)
    if nanos > 999_999:
        raise _BrokenRowError(f"{nanos} nanoseconds in a millisecond")
    return Timestamp(int.from_bytes(_part(row, offset, 8), "little", signed=True), nanos)


def _pointer(row: bytes, slot: int) -> tuple[int, int]:
    """Read a slot's upper half, an offset from the start of the row, and its lower half."""
    lower, upper = struct.unpack_from("<II", row, slot)
    return upper, lower


def _part(row: bytes, offset: int, length: int) -> bytes:
    if offset + length > len(row):
        raise _BrokenRowError(f"{length} bytes at offset {offset} of {len(row)}")
    return row[offset : offset + length]
