"""Patterns: regular expressions that match a whole record in one step.

The records of a file look alike: texts of the same length, the same branches of unions, arrays of the same size. A
pattern lists every length, branch and array size that was seen at each place of a record. So it matches the usual
records five times faster than generated code reads them.

A record that does not match is read by the careful decoder, and what it shows is added to the pattern. A pattern only
matches bytes that are exactly one valid record: each alternative begins with its own length or branch number, and the
bytes of a number tell where it ends. If anything is unusual, the careful decoder reads the whole block again.
"""

import re
from collections.abc import Callable
from threading import Lock
from typing import Any

from lakesweep.format.avro.decoder_source import MAX_ITEMS, BrokenRecordError, Want, long_tail
from lakesweep.format.avro.schema import AvroType

Row = tuple[Any, ...]
Decode = Callable[[bytes, int], list[Row]]
_Read = Callable[[bytes, int, int, list[Row], list[int]], int]
"""Takes a block, the position and number of its next records, the list of rows and the items that arrays may still
have. Reads until a record does not match, and returns its position."""

WARM_UP = 200
"""So many records are read before a pattern is made: making one takes as long as reading some hundred records."""
_MAX_LENGTH = 8191
"""The longest text or array; its length takes two bytes."""
_MAX_LENGTHS = 128
"""The most lengths at one place."""
_UNROLLED = 64
"""The pattern of an item is written so many times; that is faster than a repetition."""
_CREDIT, _MAX_CREDIT, _HITS_A_MISS = 64, 512, 12
"""A record that does not match takes as long as reading several. So a pattern that matches too few is given up."""

_NUMBER = rb"[\x80-\xff]*+[\x00-\x7f]"
_KEPT_NUMBER = rb"[\x80-\xff]{0,8}+[\x00-\x7f]"
_NATURAL = rb"(?:[%b]|[%b][\x80-\xff]{0,8}+[\x00-\x7f])" % (
    b"".join(re.escape(bytes((number,))) for number in range(0, 128, 2)),
    b"".join(re.escape(bytes((number,))) for number in range(128, 256, 2)),
)
_NEVER = rb"(?!)"
"""Where nothing was seen yet: a record that began like this could not be read to its end."""
_SIZES = {"boolean": 1, "float": 4, "double": 8}


class UnusualError(Exception):
    """A type or a record for which there is no pattern."""


class PatternDecoder:
    """Decodes blocks like a careful decoder, in less time. It may be used by several threads."""

    def __init__(self, root: AvroType, want: Want, careful: Decode) -> None:
        """Begin without a pattern.

        Args:
            root: The type of a record.
            want: The wanted fields.
            careful: The decoder that the result of this one equals.

        Raises:
            UnusualError: There are no patterns for such a schema or such fields.
        """
        self.careful = careful
        self._record = _Place(root, want)
        self._lock = Lock()
        self._read: _Read | None = None
        self._decoded = self._patterns = self._misses = 0
        self._credit = _CREDIT

    def __call__(self, buf: bytes, count: int) -> list[Row]:
        """Return the rows of a block."""
        if self._credit < 0 or self._decoded < WARM_UP:
            self._decoded += count
            return self.careful(buf, count)
        try:
            return self._rows(buf, count)
        except (UnusualError, IndexError, ValueError, OverflowError, RecursionError, re.error):
            self._credit -= count
            return self.careful(buf, count)

    def _rows(self, buf: bytes, count: int) -> list[Row]:
        rows: list[Row] = []
        room = [MAX_ITEMS]
        position = misses = 0
        while len(rows) < count:
            if self._read is not None:
                position = self._read(buf, position, count - len(rows), rows, room)
                if len(rows) == count:
                    break
            misses += 1
            with self._lock:
                end = self._record.learn(buf, position)
                self._improve()
            rows += self.careful(buf[position:end], 1)
            position = end
            if misses > _CREDIT:
                raise UnusualError
        if position != len(buf):
            raise UnusualError
        self._credit = min(self._credit + (count - misses) // _HITS_A_MISS - misses, _MAX_CREDIT)
        return rows

    def _improve(self) -> None:
        """Make a new pattern, after the more misses the more often that has happened."""
        self._misses += 1
        if self._misses >= self._patterns:
            self._read = _compiled(self._record)
            self._patterns += 1
            self._misses = 0


class _Place:
    """A place in a record: its type, and what was seen there."""

    def __init__(self, type_: AvroType, want: Want | None) -> None:
        self.type = type_
        self.want = want
        self.seen: set[int] = set()
        """Lengths of a text or array, branches of a union."""
        self.parts: tuple[_Place, ...] = ()
        """The fields of a record, the branches of a union, the items of an array."""
        kind = type_.kind
        if want is not None and want.kind in ("records", "any"):
            raise UnusualError
        if kind == "record":
            wanted = {} if want is None else {field.name: field for field in want.fields}
            self.parts = tuple(_Place(field, wanted.get(name)) for name, field in type_.fields)
        elif kind == "union":
            others = [branch.kind for branch in type_.branches if branch.kind != "null"]
            if want is not None and (len(others) != 1 or len(type_.branches) > 2):
                raise UnusualError
            self.parts = tuple(_Place(branch, want) for branch in type_.branches)
        elif kind == "array":
            if want is not None and type_.item.kind != "string":
                raise UnusualError
            self.parts = (_Place(type_.item, None),)

    def learn(self, buf: bytes, pos: int) -> int:
        """Note what a record has here, and return the end of the value."""
        kind = self.type.kind
        if kind in ("int", "long", "enum"):
            return _number(buf, pos)[1]
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
        return pos + self._fixed_size()

    def _length(self, buf: bytes, pos: int) -> tuple[int, int]:
        length, pos = _number(buf, pos)
        if not 0 <= length <= _MAX_LENGTH or len(self.seen) >= _MAX_LENGTHS:
            raise UnusualError
        self.seen.add(length)
        return length, pos

    def _fixed_size(self) -> int:
        if self.type.kind == "fixed":
            return self.type.size
        if self.want is not None or self.type.kind not in _SIZES:
            raise UnusualError
        return _SIZES[self.type.kind]


class _Writer:
    """Writes a pattern, and the code that turns its groups into a row."""

    def __init__(self) -> None:
        self.groups = 0
        self.before: list[str] = []
        """Statements before the row is built."""

    def write(self, place: _Place) -> tuple[bytes, str]:
        """Return the pattern of a place, and the expression for its value."""
        kind, want = place.type.kind, place.want
        if kind in ("int", "long"):
            if want is not None and want.kind == "natural":
                return _NATURAL, "None"
            return self._kept(_KEPT_NUMBER, "small[{0}[0]] if len({0}) == 1 else number({0})", want)
        if kind == "enum":
            return self._kept(_NUMBER, "", want)
        if kind in ("bytes", "string"):
            return self._sized(place)
        if kind == "record":
            return self._record(place)
        if kind == "union":
            return self._union(place)
        if kind == "array":
            return self._array(place)
        if kind == "null":
            return b"", "None"
        return b".{%d}" % place._fixed_size(), "None"

    def _kept(self, pattern: bytes, expression: str, want: Want | None) -> tuple[bytes, str]:
        if want is None:
            return pattern, "None"
        if not expression:
            raise UnusualError
        return b"(" + pattern + b")", expression.format(self._group())

    def _group(self) -> str:
        self.groups += 1
        return f"g{self.groups}"

    def _sized(self, place: _Place) -> tuple[bytes, str]:
        lengths = sorted(place.seen)
        if not lengths:
            return _NEVER, "None"
        pattern = b"|".join(_prefix(length) + (b".{%d}" % length if length else b"") for length in lengths)
        if place.want is None:
            return _any_of(pattern, len(lengths)), "None"
        group = self._group()
        if lengths[-1] < 64:
            start = "1"
        elif lengths[0] >= 64:
            start = "2"
        else:
            start = f"1 if {group}[0] < 128 else 2"
        return b"(" + pattern + b")", f"{group}[{start}:]" + (".decode()" if place.type.kind == "string" else "")

    def _record(self, place: _Place) -> tuple[bytes, str]:
        patterns, values = [], {}
        for (name, _), part in zip(place.type.fields, place.parts, strict=True):
            pattern, value = self.write(part)
            patterns.append(pattern)
            values[name] = value
        fields = () if place.want is None else place.want.fields
        return b"".join(patterns), f"({''.join(values.get(field.name, 'None') + ', ' for field in fields)})"

    def _union(self, place: _Place) -> tuple[bytes, str]:
        if not place.seen:
            return _NEVER, "None"
        is_choice = len(place.seen) > 1
        patterns, value = [], "None"
        for branch in sorted(place.seen):
            part = place.parts[branch]
            mark = self._group() if is_choice and place.want is not None and part.type.kind != "null" else ""
            pattern, found = self.write(part)
            patterns.append(re.escape(bytes((2 * branch,))) + (b"()" if mark else b"") + pattern)
            if part.type.kind != "null":
                value = f"(None if {mark} is None else {found})" if mark else found
        return _any_of(b"|".join(patterns), len(patterns)), value

    def _array(self, place: _Place) -> tuple[bytes, str]:
        if not place.seen:
            return _NEVER, "None"
        item, _ = self.write(place.parts[0])
        patterns = []
        for length in sorted(place.seen):
            items = item * length if length <= _UNROLLED else b"(?:" + item + b"){%d}+" % length
            patterns.append(_prefix(length) + items + (rb"\x00" if length else b""))
        pattern = b"|".join(patterns)
        if place.want is None:
            return _any_of(pattern, len(patterns)), "None"
        if place.seen == {0}:
            return pattern, "()"
        group = self._group()
        self.before.append(f"if {group} is not None and {group} != b'\\0':")
        self.before.append(f"    {group} = strings({group}, room)")
        self.before.append("else:")
        self.before.append(f"    {group} = ()")
        return b"(" + pattern + b")", group


def _compiled(record: _Place) -> _Read:
    writer = _Writer()
    pattern, row = writer.write(record)
    groups = [f"g{number}" for number in range(1, writer.groups + 1)]
    lines = [
        "def read(buf, pos, count, rows, room):",
        "    for _ in range(count):",
        "        found = match(buf, pos)",
        "        if found is None:",
        "            break",
        f"        [{', '.join(groups)}] = found.groups()",
        *(f"        {line}" for line in writer.before),
        f"        rows.append({row})",
        "        pos = found.end()",
        "    return pos",
    ]
    match = re.compile(pattern, re.DOTALL).match
    namespace: dict[str, Any] = {"match": match, "number": _whole, "small": _SMALL, "strings": _strings}
    exec(compile("\n".join(lines), "<pattern>", "exec"), namespace)
    read: _Read = namespace["read"]
    return read


def _any_of(pattern: bytes, alternatives: int) -> bytes:
    return b"(?:" + pattern + b")" if alternatives > 1 else pattern


def _prefix(length: int) -> bytes:
    """Return the pattern of a length as Avro writes it."""
    number = length << 1
    return re.escape(bytes((number,)) if number < 128 else bytes((number & 127 | 128, number >> 7)))


def _number(buf: bytes, pos: int) -> tuple[int, int]:
    number = buf[pos]
    pos += 1
    if number > 127:
        number, pos = long_tail(buf, pos, number)
    return number >> 1 ^ -(number & 1), pos


_SMALL = tuple(number >> 1 ^ -(number & 1) for number in range(128))


def _whole(encoded: bytes) -> int:
    """Return the number that these bytes hold."""
    number = 0
    for byte in reversed(encoded):
        number = number << 7 | byte & 127
    return number >> 1 ^ -(number & 1)


def _strings(encoded: bytes, room: list[int]) -> tuple[str, ...]:
    """Return the texts of an array that has some."""
    length, pos = _number(encoded, 0)
    room[0] -= length
    if room[0] < 0:
        raise BrokenRecordError(f"more than {MAX_ITEMS} items")
    found = []
    for _ in range(length):
        size, pos = _number(encoded, pos)
        found.append(encoded[pos : pos + size].decode())
        pos += size
    return tuple(found)
