"""Messages of Protocol Buffers, in which an ORC file describes itself."""

from collections.abc import Iterator

Message = dict[int, list[int | bytes]]
"""Number of a field -> its values."""


class BrokenFrameError(Exception):
    """A section does not match the file's own description."""


def message(data: bytes) -> Message:
    """Split a Protocol Buffers message into its fields: integers, and everything else as bytes."""
    fields: Message = {}
    position = 0
    while position < len(data):
        key, position = varint(data, position)
        value: int | bytes
        match key & 7:
            case 0:
                value, position = varint(data, position)
            case 1:
                value, position = _take(data, position, 8)
            case 2:
                size, position = varint(data, position)
                value, position = _take(data, position, size)
            case 5:
                value, position = _take(data, position, 4)
            case wire_type:
                raise BrokenFrameError(f"a field of the wire type {wire_type}")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def submessage(value: int | bytes) -> Message:
    """Split a message that is a field of another one."""
    if isinstance(value, int):
        raise BrokenFrameError("a number instead of a message")
    return message(value)


def number(fields: Message, field: int) -> int:
    """Return the number in a field, 0 if there is none."""
    value = fields.get(field, [0])[-1]
    if not isinstance(value, int):
        raise BrokenFrameError(f"no number in the field {field}")
    return value


def _take(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    if position + size > len(data):
        raise BrokenFrameError(f"a field of {size} bytes")
    return data[position : position + size], position + size


def varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at a position, and the position behind it."""
    found = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, position
    raise BrokenFrameError("a number of more than ten bytes")


def packed(values: list[int | bytes]) -> Iterator[int]:
    """Yield the numbers of a field that repeats."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        position = 0
        while position < len(value):
            found, position = varint(value, position)
            yield found
