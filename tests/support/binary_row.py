"""Paimon's binary rows, for the tests' own writer and reader.

Written from the format, apart from `lakesweep.format`, so that a mistake there is not repeated here. A value is what
Python has for the type: `str`, `int`, `bool`, `date`, `datetime` without a zone, `Decimal`, `float`, `bytes`, `None`.
"""

import re
import struct
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

_INTEGERS = {"TINYINT": "<b", "SMALLINT": "<h", "INT": "<i", "INTEGER": "<i", "BIGINT": "<q"}
_FLOATS = {"FLOAT": "<f", "DOUBLE": "<d"}
_BYTES = ("CHAR", "VARCHAR", "STRING", "BINARY", "VARBINARY", "BYTES")
_EPOCH = datetime(1970, 1, 1)
_EXACT = Context(prec=40)
"""The longest DECIMAL has 38 digits."""
_SHAPE = re.compile(r"([A-Z_]+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")


def parse_type(text: str) -> tuple[str, int, int]:
    """Return the keyword of an atomic type and its two numbers (0 where it has none)."""
    match = _SHAPE.match(text.upper())
    if match is None:
        raise ValueError(f"not an atomic type: {text}")
    keyword, first, second = match[1], match[2], match[3]
    default = {"DECIMAL": 10, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}.get(keyword, 0)
    return keyword, int(first) if first else default, int(second or 0)


def encode_row(types: Sequence[str], values: Sequence[Any]) -> bytes:
    """Encode a row as metadata stores it: big-endian arity, then the row."""
    if len(types) != len(values):
        raise ValueError(f"{len(types)} types for {len(values)} values")
    fixed_start = _null_region(len(types))
    head = bytearray(fixed_start)
    slots = bytearray()
    tail = bytearray()
    tail_start = fixed_start + 8 * len(types)
    for position, (type_, value) in enumerate(zip(types, values, strict=True)):
        if value is None:
            bit = position + 8
            head[bit // 8] |= 1 << (bit % 8)
        slot, variable = _encode(type_, value, tail_start + len(tail))
        slots += slot.ljust(8, b"\0")
        tail += variable.ljust(-(-len(variable) // 8) * 8, b"\0")
    return struct.pack(">i", len(types)) + bytes(head + slots + tail)


def decode_row(types: Sequence[str], data: bytes) -> tuple[Any, ...]:
    """Decode what `encode_row` or an engine made; the arity must be that of `types`."""
    (arity,) = struct.unpack_from(">i", data)
    if arity != len(types):
        raise ValueError(f"a row of {arity} fields where {len(types)} are expected")
    row = data[4:]
    start = _null_region(arity)
    values = []
    for position, type_ in enumerate(types):
        bit = position + 8
        is_null = row[bit // 8] >> (bit % 8) & 1
        slot = row[start + 8 * position : start + 8 * position + 8]
        values.append(None if is_null else _decode(type_, slot, row))
    return tuple(values)


def _null_region(arity: int) -> int:
    return (arity + 63 + 8) // 64 * 8


def _encode(type_: str, value: Any, offset: int) -> tuple[bytes, bytes]:
    """Return the slot, and what goes to the variable part, which then begins at `offset`."""
    keyword, precision, scale = parse_type(type_)
    # Values that may change in place keep their room even when null.
    reserved = 16 * (keyword == "DECIMAL" and precision > 18) + 8 * (keyword.startswith("TIMESTAMP") and precision > 3)
    if value is None:
        return (struct.pack("<q", offset << 32), bytes(reserved)) if reserved else (b"", b"")
    if keyword in _INTEGERS:
        return struct.pack(_INTEGERS[keyword], value), b""
    if keyword in _FLOATS:
        return struct.pack(_FLOATS[keyword], value), b""
    if keyword == "BOOLEAN":
        return (b"\1" if value else b"\0"), b""
    if keyword == "DATE":
        return struct.pack("<i", (value - _EPOCH.date()).days), b""
    if keyword in _BYTES:
        raw = value.encode() if isinstance(value, str) else bytes(value)
        if len(raw) <= 7:
            return raw.ljust(7, b"\0") + bytes([0x80 | len(raw)]), b""
        return struct.pack("<q", offset << 32 | len(raw)), raw
    if keyword == "DECIMAL":
        unscaled = int(Decimal(value).scaleb(scale, _EXACT))
        if not reserved:
            return struct.pack("<q", unscaled), b""
        length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return struct.pack("<q", offset << 32 | length), unscaled.to_bytes(length, "big", signed=True).ljust(16, b"\0")
    if keyword.startswith("TIMESTAMP"):
        micros = (value - _EPOCH) // timedelta(microseconds=1)
        if not reserved:
            return struct.pack("<q", micros // 1000), b""
        return struct.pack("<q", offset << 32 | micros % 1000 * 1000), struct.pack("<q", micros // 1000)
    raise NotImplementedError(f"a value of type {type_} in a row")


def _decode(type_: str, slot: bytes, row: bytes) -> Any:
    keyword, precision, scale = parse_type(type_)
    (word,) = struct.unpack("<q", slot)
    offset, low = word >> 32, word & 0xFFFFFFFF
    if keyword in _INTEGERS:
        return struct.unpack_from(_INTEGERS[keyword], slot)[0]
    if keyword in _FLOATS:
        return struct.unpack_from(_FLOATS[keyword], slot)[0]
    if keyword == "BOOLEAN":
        return slot[0] != 0
    if keyword == "DATE":
        return _EPOCH.date() + timedelta(days=struct.unpack_from("<i", slot)[0])
    if keyword in _BYTES:
        raw = slot[: slot[7] & 0x7F] if slot[7] & 0x80 else row[offset : offset + low]
        return raw if "BINARY" in keyword or keyword == "BYTES" else raw.decode()
    if keyword == "DECIMAL":
        unscaled = word if precision <= 18 else int.from_bytes(row[offset : offset + low], "big", signed=True)
        return Decimal(unscaled).scaleb(-scale, _EXACT)
    if keyword.startswith("TIMESTAMP"):
        if precision <= 3:
            return _EPOCH + timedelta(milliseconds=word)
        (millis,) = struct.unpack_from("<q", row, offset)
        return _EPOCH + timedelta(milliseconds=millis, microseconds=low // 1000)
    raise NotImplementedError(f"a value of type {type_} in a row")


_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")


def partition_path(
    keys: Sequence[str],
    values: Sequence[Any],
    default_name: str = "__DEFAULT_PARTITION__",
    legacy_name: bool = True,
) -> str:
    """Return the folder of a partition with a closing slash, the empty string for a table without partitions."""
    parts = ((key, _text(value, legacy_name)) for key, value in zip(keys, values, strict=True))
    return "".join(f"{_escape(key)}={_escape(text if text.strip() else default_name)}/" for key, text in parts)


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _text(value: Any, legacy_name: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        if not legacy_name:
            raise NotImplementedError("partition folders of timestamps with partition.legacy-name=false")
        fraction = f"{value.microsecond:06d}"
        fraction = fraction[:3] if fraction.endswith("000") else fraction
        seconds = f":{value.second:02d}" if value.second or value.microsecond else ""
        return f"{value:%Y-%m-%dT%H:%M}{seconds}" + (f".{fraction}" if value.microsecond else "")
    if isinstance(value, date):
        return str((value - _EPOCH.date()).days) if legacy_name else value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, str | int):
        return str(value)
    raise NotImplementedError(f"partition folders of {type(value).__name__}")
