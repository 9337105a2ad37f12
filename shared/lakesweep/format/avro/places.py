"""The places of a record, and what was seen at each: the lengths, branches and array sizes of a pattern."""

from lakesweep.format.avro.decoder_source import long_tail
from lakesweep.format.avro.schema import AvroType
from lakesweep.format.avro.wants import Want

_MAX_LENGTH = 8191
"""The longest text or array; its length takes two bytes."""
_MAX_LENGTHS = 128
"""The most lengths at one place."""
_SIZES = {"boolean": 1, "float": 4, "double": 8}


class UnusualError(Exception):
    """A type or a record for which there is no pattern."""


class Place:
    """A place in a record: its type, and what was seen there."""

    def __init__(self, type_: AvroType, want: Want | None) -> None:
        self.type = type_
        self.want = want
        self.seen: set[int] = set()
        """Lengths of a text or array, branches of a union."""
        self.parts: tuple[Place, ...] = ()
        """The fields of a record, the branches of a union, the items of an array."""
        kind = type_.kind
        if want is not None and want.kind in ("records", "any"):
            raise UnusualError
        if kind == "record":
            wanted = {} if want is None else want.by_name
            self.parts = tuple(Place(field, wanted.get(name)) for name, field in type_.fields)
        elif kind == "union":
            others = [branch.kind for branch in type_.branches if branch.kind != "null"]
            if want is not None and (len(others) != 1 or len(type_.branches) > 2):
                raise UnusualError
            self.parts = tuple(Place(branch, want) for branch in type_.branches)
        elif kind == "array":
            if want is not None and type_.item.kind != "string":
                raise UnusualError
            self.parts = (Place(type_.item, None),)

    def learn(self, buf: bytes, pos: int) -> int:
        """Note what a record has here, and return the end of the value."""
        kind = self.type.kind
        if kind in ("int", "long", "enum"):
            return read_number(buf, pos)[1]
        if kind in ("bytes", "string"):
            length, pos = self._length(buf, pos)
            if pos + length > len(buf):
                raise UnusualError
            return pos + length
        if kind == "record":
            for part in self.parts:
                pos = part.learn(buf, pos)
            return pos
        if kind == "union":
            branch, odd = divmod(buf[pos], 2)
            if odd or branch >= len(self.parts):
                raise UnusualError
            part = self.parts[branch]
            if self.want is not None and self.want.required and part.type.kind == "null":
                raise UnusualError
            self.seen.add(branch)
            return part.learn(buf, pos + 1)
        if kind == "array":
            length, pos = self._length(buf, pos)
            if not length:
                return pos
            for _ in range(length):
                pos = self.parts[0].learn(buf, pos)
            if buf[pos]:
                raise UnusualError
            return pos + 1
        if kind == "null":
            return pos
        return pos + self.fixed_size()

    def _length(self, buf: bytes, pos: int) -> tuple[int, int]:
        length, pos = read_number(buf, pos)
        if not 0 <= length <= _MAX_LENGTH or len(self.seen) >= _MAX_LENGTHS:
            raise UnusualError
        self.seen.add(length)
        return length, pos

    def fixed_size(self) -> int:
        """Return the bytes that every value of this type takes."""
        if self.type.kind == "fixed":
            return self.type.size
        if self.want is not None or self.type.kind not in _SIZES:
            raise UnusualError
        return _SIZES[self.type.kind]


def read_number(buf: bytes, pos: int) -> tuple[int, int]:
    """Return the number at a position, and where it ends."""
    number = buf[pos]
    pos += 1
    if number > 127:
        number, pos = long_tail(buf, pos, number)
    return number >> 1 ^ -(number & 1), pos
