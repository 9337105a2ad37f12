"""Where values end in a record: to find one field among its bytes.

Source: the Avro 1.11 specification, "Binary Encoding".
"""

from lakesweep.format.avro.decoder_source import BrokenRecordError
from lakesweep.format.avro.places import read_number
from lakesweep.format.avro.schema import AvroType

_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def end_of(type_: AvroType, buf: bytes, pos: int) -> int:
    """Return where the value of this type ends that begins at a position; maybe behind the last byte.

    Raises:
        BrokenRecordError: There is no such value.
        IndexError: It reaches past the last byte.
    """
    match type_.kind:
        case "int" | "long" | "enum":
            return read_number(buf, pos)[1]
        case "bytes" | "string":
            return _sized(buf, pos)
        case "record":
            for _, field in type_.fields:
                pos = end_of(field, buf, pos)
            return pos
        case "union":
            branch, pos = branch_at(type_, buf, pos)
            return end_of(branch, buf, pos)
        case "array" | "map":
            return _items(type_, buf, pos)
        case "fixed":
            return pos + type_.size
    return pos + _SIZES[type_.kind]


def branch_at(type_: AvroType, buf: bytes, pos: int) -> tuple[AvroType, int]:
    """Return the branch of the union that begins at a position, and where the value of the branch begins.

    Raises:
        BrokenRecordError: There is no such branch.
        IndexError: It reaches past the last byte.
    """
    branch, pos = read_number(buf, pos)
    if not 0 <= branch < len(type_.branches):
        raise BrokenRecordError("an unknown branch of a union")
    return type_.branches[branch], pos


def _sized(buf: bytes, pos: int) -> int:
    length, pos = read_number(buf, pos)
    if length < 0:
        raise BrokenRecordError("a negative length")
    return pos + length


def _items(type_: AvroType, buf: bytes, pos: int) -> int:
    while True:
        count, pos = read_number(buf, pos)
        if count == 0:
            return pos
        if count < 0:  # the size in bytes of its items follows
            pos = _sized(buf, pos)
            continue
        if count > len(buf) - pos:
            raise BrokenRecordError("more items than bytes")
        for _ in range(count):
            pos = end_of(type_.item, buf, _sized(buf, pos) if type_.kind == "map" else pos)
