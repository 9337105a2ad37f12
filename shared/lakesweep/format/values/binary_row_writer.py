"""Binary rows from values: the inverse of `binary_row`, with the bytes that Paimon's Java engine writes.

Text and bytes of up to seven bytes lie in their slot. Longer ones, long decimals and precise timestamps lie in the
variable part, each filled up to a multiple of eight bytes. Null keeps the room of a long decimal or a precise
timestamp, since Java may change such a value in place.

Source: Paimon `BinaryRowWriter`, `AbstractBinaryWriter`, `InternalRowSerializer`.
"""

import struct
from collections.abc import Sequence
from decimal import Decimal

from lakesweep.errors import UnsupportedFormatError
from lakesweep.format.values.binary_row import (
    BYTES,
    FIXED,
    MAX_COMPACT_DECIMAL,
    MAX_COMPACT_TIMESTAMP,
    TEXT,
    TIMESTAMPS,
    Timestamp,
    null_bytes,
)
from lakesweep.format.values.data_type import DataType

_MAX_IN_SLOT = 7
_DECIMAL_ROOM = 16
_TIMESTAMP_ROOM = 8


def encode_row(values: Sequence[object], types: Sequence[DataType]) -> bytes:
    """Encode a row.

    Args:
        values: One for each type, None for null: bool, int, float, str, bytes, `Decimal`, `Timestamp`, as `decode_row`
            returns them.
        types: The types of the fields.

    Raises:
        ValueError: A value is not of its type, or does not fit into it.
        UnsupportedFormatError: A type is not possible for a partition key.
    """
    if len(values) != len(types):
        raise ValueError(f"expected a row of {len(types)} values, found {len(values)}")
    head = bytearray(null_bytes(len(types)))
    slots = bytearray()
    variable = bytearray()
    start = len(head) + 8 * len(types)
    for index, (value, type_) in enumerate(zip(values, types, strict=True)):
        if value is None:
            bit = index + 8  # After the header byte.
            head[bit >> 3] |= 1 << (bit & 7)
        try:
            slot, part = _field(value, type_, start + len(variable))
        except (struct.error, OverflowError) as error:
            raise _no_value(value, type_) from error
        slots += slot
        variable += part + bytes(-len(part) % 8)
    return len(types).to_bytes(4, "big") + bytes(head + slots + variable)


def _field(value: object, type_: DataType, offset: int) -> tuple[bytes, bytes]:
    """Return the slot of a value, and its bytes in the variable part, which begin at `offset`."""
    root, precision = type_.root, type_.precision or 0
    room = 0
    if root == "DECIMAL" and precision > MAX_COMPACT_DECIMAL:
        room = _DECIMAL_ROOM
    elif root in TIMESTAMPS and precision > MAX_COMPACT_TIMESTAMP:
        room = _TIMESTAMP_ROOM
    elif value is not None and root not in FIXED and root not in TEXT | BYTES | TIMESTAMPS | {"DECIMAL"}:
        raise UnsupportedFormatError(f"expected a type that partition keys have, found {root}", code="unsupported_type")
    if value is None:
        return _pointer(offset if room else 0, 0), bytes(room)
    if root in FIXED:
        return _fixed(value, type_), b""
    if root in TEXT and isinstance(value, str):
        return _sized(value.encode(), offset)
    if root in BYTES and isinstance(value, bytes):
        return _sized(value, offset)
    if root == "DECIMAL" and isinstance(value, Decimal):
        unscaled = _unscaled(value, type_)
        if not room:
            return struct.pack("<q", unscaled), b""
        length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return _pointer(offset, length), unscaled.to_bytes(length, "big", signed=True).ljust(room, b"\0")
    if root in TIMESTAMPS and isinstance(value, Timestamp) and 0 <= value.nano_of_ms <= (999_999 if room else 0):
        epoch = struct.pack("<q", value.epoch_ms)
        return (_pointer(offset, value.nano_of_ms), epoch) if room else (epoch, b"")
    raise _no_value(value, type_)


def _fixed(value: object, type_: DataType) -> bytes:
    root = type_.root
    kind = {"BOOLEAN": bool, "FLOAT": float, "DOUBLE": float}.get(root, int)
    if type(value) is not kind:
        raise _no_value(value, type_)
    return struct.pack(FIXED[root], value).ljust(8, b"\0")


def _sized(data: bytes, offset: int) -> tuple[bytes, bytes]:
    if len(data) <= _MAX_IN_SLOT:
        return data.ljust(_MAX_IN_SLOT, b"\0") + bytes((0x80 | len(data),)), b""
    return _pointer(offset, len(data)), data


def _unscaled(value: Decimal, type_: DataType) -> int:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # NaN and the infinities.
        raise _no_value(value, type_)
    shift = exponent + (type_.scale or 0)
    number = int("".join(map(str, digits)) or "0")
    scaled, rest = divmod(number * _ten_to(shift), _ten_to(-shift))
    if rest or scaled >= _ten_to(max(type_.precision or 0, 1)):
        raise _no_value(value, type_)
    return -scaled if sign else scaled


def _ten_to(exponent: int) -> int:
    """Return a power of ten, or 1 for a negative exponent."""
    return int("1" + "0" * exponent)


def _pointer(offset: int, length: int) -> bytes:
    return struct.pack("<II", length, offset)


def _no_value(value: object, type_: DataType) -> ValueError:
    size = "" if type_.precision is None else f" of precision {type_.precision}"
    return ValueError(f"expected a value of the type {type_.root}{size}, found {value!a}")
