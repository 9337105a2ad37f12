"""Values as Avro: one record of a manifest list, from a schema's tree.

This is for the few records that Lakesweep makes itself. Records of other writers are copied as bytes.

Source: the Avro 1.11 specification, "Binary Encoding".
"""

import struct
from collections.abc import Sequence

from lakesweep.errors import FormatError
from lakesweep.format.avro.schema import AvroType
from lakesweep.format.values.json_document import describe

_BITS = {"int": 31, "long": 63}


def long_bytes(number: int) -> bytes:
    """Return a number of at most 64 bits as Avro writes it: zigzag, then seven bits a byte."""
    rest = number << 1 if number >= 0 else (-number << 1) - 1
    found = bytearray()
    while rest > 127:
        found.append(rest & 127 | 128)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def sized(data: bytes) -> bytes:
    """Return bytes behind their length."""
    return long_bytes(len(data)) + data


def encode(type_: AvroType, value: object, path: str, field: str = "the record") -> bytes:
    """Encode a value.

    Args:
        type_: Its type. Unions have the form null and one other type, in any order.
        value: A dict for a record, with a value for every field; a list or tuple for an array.
        path: The path of the file for messages.
        field: What the value is, for messages.

    Raises:
        FormatError: The value is not of this type.
    """
    kind = type_.kind
    if kind == "union":
        return _union(type_, value, path, field)
    if kind in _BITS and type(value) is int and -(1 << _BITS[kind]) <= value < 1 << _BITS[kind]:
        return long_bytes(value)
    if kind == "null" and value is None:
        return b""
    if kind == "boolean" and isinstance(value, bool):
        return bytes((value,))
    if kind == "double" and isinstance(value, float):
        return struct.pack("<d", value)
    if kind == "string" and isinstance(value, str):
        return sized(value.encode())
    if kind == "bytes" and isinstance(value, bytes):
        return sized(value)
    if kind == "array" and isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = b"".join(encode(type_.item, item, path, field) for item in value)
        return long_bytes(len(value)) + items + (long_bytes(0) if value else b"")
    if kind == "record" and isinstance(value, dict):
        return b"".join(encode(part, value.get(name), path, name) for name, part in type_.fields)
    raise FormatError(f"{path}: expected {kind} in {field}, found {describe(value)}")


def _union(type_: AvroType, value: object, path: str, field: str) -> bytes:
    for number, branch in enumerate(type_.branches):
        if (branch.kind == "null") == (value is None):
            return long_bytes(number) + encode(branch, value, path, field)
    raise FormatError(f"{path}: expected a value that its union has in {field}, found {describe(value)}")
