"""The pattern of a record, and the code that turns what it matches into rows."""

import re
from collections.abc import Callable
from typing import Any

from lakesweep.format.avro.decoder_source import MAX_ITEMS, BrokenRecordError
from lakesweep.format.avro.places import Place, UnusualError, read_number
from lakesweep.format.avro.wants import Want

Row = tuple[Any, ...]
Read = Callable[[bytes, int, int, list[Row], list[int]], int]
"""Takes a block, the position and number of its next records, the list of rows and the items that arrays may still
have. Reads until a record does not match, and returns its position."""

_UNROLLED = 2048
"""The patterns of an array's items are written one after another up to so many bytes. That is faster than a
repetition, which longer ones need."""
_MAX_PATTERN = 1 << 15
"""The most bytes of a pattern; a usual manifest needs two thousand. Arrays in arrays would multiply to gigabytes."""
_NUMBER = rb"[\x80-\xff]*+[\x00-\x7f]"
_KEPT_NUMBER = rb"[\x80-\xff]{0,8}+[\x00-\x7f]"
"""At most nine bytes: ten may hold more than 64 bits."""
_NATURAL = rb"(?:[%b]|[%b][\x80-\xff]{0,7}+[\x00-\x7f])" % (
    b"".join(re.escape(bytes((number,))) for number in range(0, 128, 2)),
    b"".join(re.escape(bytes((number,))) for number in range(128, 256, 2)),
)
_NEVER = rb"(?!)"
"""Where nothing was seen yet: a record that began like this could not be read to its end."""


class _Writer:
    """Writes a pattern, and the code that turns its groups into a row."""

    def __init__(self) -> None:
        self.groups = 0
        self.before: list[str] = []
        """Statements before the row is built."""

    def write(self, place: Place) -> tuple[bytes, str]:
        """Return the pattern of a place, and the expression for its value."""
        pattern, value = self._written(place)
        return _bounded(pattern), value

    def _written(self, place: Place) -> tuple[bytes, str]:
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
        return b".{%d}" % place.fixed_size(), "None"

    def _kept(self, pattern: bytes, expression: str, want: Want | None) -> tuple[bytes, str]:
        if want is None:
            return pattern, "None"
        if not expression:
            raise UnusualError
        return b"(" + pattern + b")", expression.format(self._group())

    def _group(self) -> str:
        self.groups += 1
        return f"g{self.groups}"

    def _sized(self, place: Place) -> tuple[bytes, str]:
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

    def _record(self, place: Place) -> tuple[bytes, str]:
        patterns, values = [], {}
        for (name, _), part in zip(place.type.fields, place.parts, strict=True):
            pattern, value = self.write(part)
            patterns.append(pattern)
            values[name] = value
        fields = () if place.want is None else place.want.fields
        row = ["found[0]" if each.kind == "raw" else values.get(each.name, "None") for each in fields]
        return b"".join(patterns), f"({''.join(value + ', ' for value in row)})"

    def _union(self, place: Place) -> tuple[bytes, str]:
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

    def _array(self, place: Place) -> tuple[bytes, str]:
        if not place.seen:
            return _NEVER, "None"
        item, _ = self.write(place.parts[0])
        patterns = []
        for length in sorted(place.seen):
            items = item * length if len(item) * length <= _UNROLLED else b"(?:" + item + b"){%d}+" % length
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


def compile_pattern(record: Place) -> Read:
    """Return the function that reads the records of a pattern."""
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
    read: Read = namespace["read"]
    return read


def _bounded(pattern: bytes) -> bytes:
    if len(pattern) > _MAX_PATTERN:
        raise UnusualError
    return pattern


def _any_of(pattern: bytes, alternatives: int) -> bytes:
    return b"(?:" + pattern + b")" if alternatives > 1 else pattern


def _prefix(length: int) -> bytes:
    """Return the pattern of a length as Avro writes it."""
    number = length << 1
    return re.escape(bytes((number,)) if number < 128 else bytes((number & 127 | 128, number >> 7)))


_SMALL = tuple(number >> 1 ^ -(number & 1) for number in range(128))


def _whole(encoded: bytes) -> int:
    """Return the number that these bytes hold."""
    number = 0
    for byte in reversed(encoded):
        number = number << 7 | byte & 127
    return number >> 1 ^ -(number & 1)


def _strings(encoded: bytes, room: list[int]) -> tuple[str, ...]:
    """Return the texts of an array that has some."""
    length, pos = read_number(encoded, 0)
    room[0] -= length
    if room[0] < 0:
        raise BrokenRecordError(f"more than {MAX_ITEMS} items")
    found = []
    for _ in range(length):
        size, pos = read_number(encoded, pos)
        found.append(encoded[pos : pos + size].decode())
        pos += size
    return tuple(found)
