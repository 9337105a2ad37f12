"""One deletion vector: the deleted rows of one data file.

In an index file a vector is framed: a length word, a magic number, the bitmap, and a CRC-32 over magic and bitmap.
There are two widths, and only the bytes tell which one a vector has:

- 32: one Roaring bitmap, for positions up to 2 147 483 647.
- 64: several of them, each with the upper half of its positions as key. Paimon writes an empty bitmap for each key that
  lies between.

A *position* is the number of a row in its data file, from 0.

Source: Paimon `DeletionVector`, `BitmapDeletionVector`, `Bitmap64DeletionVector`, `OptimizedRoaringBitmap64`.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple
from zlib import crc32

from lakesweep.errors import FormatError
from lakesweep.format.vectors.bitmaps import bitmap_of, read_bitmap, rows_of
from lakesweep.format.vectors.containers import (
    SPAN,
    SPAN_BYTES,
    Container,
    bits_of,
    read_containers,
)

if TYPE_CHECKING:
    from lakesweep.format.vectors.bitmaps import Bitmap

Width = Literal[32, 64]
WORD = 4
FRAME = 2 * WORD
"""Bytes of a vector beside magic and bitmap: the length word and the CRC."""
_MAGIC: Mapping[Width, bytes] = {32: struct.pack(">I", 1581511376), 64: struct.pack("<I", 1681511377)}
_LARGEST: Mapping[Width, int] = {32: (1 << 31) - 1, 64: (1 << 48) - 1}
"""The largest position to write. Of 64 bits Paimon allows more, but each key below costs 12 bytes."""
_LARGEST_KEY = (1 << 31) - 2


class _Bitmap(NamedTuple):
    """A bitmap of a vector."""

    base: int
    """Row 0 of the bitmap."""
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The deleted rows of one data file."""

    width: Width
    cardinality: int
    """The number of deleted rows."""
    blob: memoryview
    """The bytes as they lie in an index file, from the length word to the CRC."""
    path: str
    """For messages."""
    _bitmaps: tuple[_Bitmap, ...]
    _containers: tuple[Container, ...]
    """Ascending."""

    @property
    def length(self) -> int:
        """Return the length as metadata state it: with 32 bits without length word and CRC, with 64 bits with them."""
        return len(self.blob) - (FRAME if self.width == 32 else 0)

    @property
    def last(self) -> int:
        """Return the largest position, -1 if no row is deleted.

        Raises:
            FormatError: The rows contradict the headers, though the CRC fits.
        """
        if not self._containers:
            return -1
        container = self._containers[-1]
        return container.first + int.from_bytes(bits_of(self.blob, container, self.path), "little").bit_length() - 1

    def deleted(self, start: int, count: int) -> bytes:
        """Return a bit for each of `count` rows from row `start` on, 1 if the row is deleted.

        Bit 0 of byte 0 is the first row, as in Arrow. Bits beyond the last row are 0. Memory grows with `count`.

        Raises:
            FormatError: The rows contradict the headers, though the CRC fits.
        """
        if count <= 0:
            return b""
        first = start // SPAN
        bits = bytearray(((start + count - 1) // SPAN - first + 1) * SPAN_BYTES)
        for number in range(bisect_left(self._containers, first * SPAN, key=_first), len(self._containers)):
            container = self._containers[number]
            at = (container.first // SPAN - first) * SPAN_BYTES
            if at >= len(bits):
                break
            bits[at : at + SPAN_BYTES] = bits_of(self.blob, container, self.path)
        skipped, shift = divmod(start % SPAN, 8)
        size = (count + 7) // 8
        if not shift and count % 8 == 0:
            return bytes(bits[skipped : skipped + size])
        value = int.from_bytes(bits[skipped : skipped + size + 1], "little") >> shift
        return (value & ((1 << count) - 1)).to_bytes(size, "little")

    def bitmaps(self) -> "dict[int, Bitmap]":
        """Return upper half of the positions -> bitmap; bitmaps may be empty.

        Raises:
            FormatError: The rows contradict the headers, though the CRC fits.
            UnsupportedFormatError: pyroaring is missing.
        """
        found = {
            each.base >> 32: read_bitmap(bytes(self.blob[each.start : each.end]), self.path) for each in self._bitmaps
        }
        self._check_count(sum(map(len, found.values())))
        return found

    def positions(self) -> "array[int]":
        """Return all positions, ascending: `array("I")` with 32 bits, `array("Q")` with 64 bits.

        Raises:
            FormatError: The rows contradict the headers, though the CRC fits.
            UnsupportedFormatError: pyroaring is missing.
        """
        parts = [
            (bitmap.base >> 32, rows_of(bytes(self.blob[bitmap.start : bitmap.end]), self.path))
            for bitmap in self._bitmaps
        ]
        self._check_count(sum(len(rows) for _, rows in parts))
        if self.width == 32:
            return parts[0][1]
        found = array("Q")
        for key, rows in parts:
            words = memoryview(bytearray(8 * len(rows))).cast("I")
            words[::2] = memoryview(rows)
            if key:
                words[1::2] = memoryview(array("I", (key,)) * len(rows))
            found.frombytes(words.cast("B"))
        return found

    def _check_count(self, count: int) -> None:
        if count != self.cardinality:
            raise FormatError(f"{self.path}: expected {self.cardinality} deleted rows, found {count}")


def _first(container: Container) -> int:
    return container.first


def vector_of(positions: Iterable[int], width: Width) -> DeletionVector:
    """Return the vector of some positions, with the bytes that Paimon writes for them.

    Args:
        positions: In any order; a position that repeats counts once. `array("I")` is fastest. Arrays of numpy, Arrow
            buffers as `memoryview`, and other arrays of whole numbers with 4 or 8 bytes are read as one piece.
        width: The width of the table's other vectors, or as its options state for the first one.

    Raises:
        ValueError: A position is negative, or too large for the width.
        UnsupportedFormatError: pyroaring is missing.
    """
    return read_vector(encode(collect(positions, width), width), None, "a new deletion vector")


def collect(positions: Iterable[int], width: Width) -> "dict[int, Bitmap]":
    """Return the bitmaps of a vector: upper half of the positions -> bitmap. See `vector_of`."""
    found = {key: bitmap_of(rows) for key, rows in _rows_by_key(positions).items() if rows}
    check_largest(found, width)
    return found


def check_largest(found: "Mapping[int, Bitmap]", width: Width) -> None:
    """Raise ValueError unless a vector can have the positions of some bitmaps."""
    largest = max(((key << 32) + bitmap.max() for key, bitmap in found.items()), default=0)
    if largest > _LARGEST[width]:
        raise ValueError(f"expected positions from 0 to {_LARGEST[width]} in a vector of {width} bits, found {largest}")


def encode(bitmaps: "Mapping[int, Bitmap]", width: Width) -> bytes:
    """Return the bytes of a vector, from the length word to the CRC. See `vector_of`."""
    parts = [_MAGIC[width]]
    if width == 32:
        parts.append(_portable(bitmaps.get(0)))
    else:
        count = max(bitmaps, default=-1) + 1
        parts.append(struct.pack("<q", count))
        for key in range(count):
            parts += (struct.pack("<I", key), _portable(bitmaps.get(key)))
    checksum = 0
    for part in parts:
        checksum = crc32(part, checksum)
    return b"".join((struct.pack(">I", sum(map(len, parts))), *parts, struct.pack(">I", checksum)))


def _portable(bitmap: "Bitmap | None") -> bytes:
    return (bitmap_of(array("I")) if bitmap is None else bitmap).serialize()


def _rows_by_key(positions: Iterable[int]) -> "dict[int, array[int]]":
    """Return the upper half of positions -> the lower halves, as `array("I")`."""
    if isinstance(positions, array) and positions.typecode == "I":
        return {0: positions}
    try:
        view = memoryview(positions)  # type: ignore[arg-type]
    except TypeError:
        try:
            view = memoryview(array("q", positions))
        except OverflowError as error:
            raise ValueError("expected positions below 2^63, found a larger one") from error
    if view.format.strip("<=@") not in tuple("iIlLqQ") or view.itemsize not in (4, 8) or not view.c_contiguous:
        raise ValueError(f"expected positions as whole numbers of 4 or 8 bytes, found {view.format}")
    rows = array("I")
    if view.itemsize == 4:
        rows.frombytes(view.cast("B"))
        return {0: rows}
    words = view.cast("B").cast("I")
    keys = words[1::2].tobytes()
    if keys == bytes(len(keys)):
        rows.frombytes(words[::2].tobytes())
        return {0: rows}
    by_key: dict[int, array[int]] = {}
    for word in range(0, len(words), 2):
        by_key.setdefault(words[word + 1], array("I")).append(words[word])
    return by_key


def read_vector(data: bytes | memoryview, length: int | None, path: str) -> DeletionVector:
    """Read a vector and verify its CRC.

    Args:
        data: The bytes of an index file from the vector's length word on, as far as the vector may reach.
        length: The length as metadata state it, in either of the two ways; None if none do.
        path: The index file, for messages.

    Raises:
        FormatError: The bytes are damaged, or have another length than metadata state.
    """
    view = memoryview(data)
    word, magic = (int.from_bytes(view[:WORD], "big"), bytes(view[WORD : 2 * WORD]))
    width: Width = 32 if magic == _MAGIC[32] else 64
    if magic != _MAGIC[width]:
        raise FormatError(f"{path}: expected the magic number of a deletion vector, found {magic.hex() or 'nothing'}")
    stated = word if width == 32 else word + FRAME
    if length not in (None, stated):
        raise FormatError(f"{path}: expected a deletion vector of length {length}, found {stated}")
    end = WORD + word
    if len(view) < end + WORD:
        raise FormatError(f"{path}: expected {end + WORD} bytes of a deletion vector, found {len(view)}")
    checksum, expected = crc32(view[WORD:end]), int.from_bytes(view[end : end + WORD], "big")
    if checksum != expected:
        raise FormatError(f"{path}: expected a deletion vector with the CRC {expected:08x}, found {checksum:08x}")
    body = view[:end]
    bitmaps, containers = _narrow(body, path) if width == 32 else _wide(body, path)
    cardinality = sum([container.rows for container in containers])
    return DeletionVector(width, cardinality, view[: end + WORD], path, tuple(bitmaps), tuple(containers))


def _narrow(body: memoryview, path: str) -> tuple[list[_Bitmap], list[Container]]:
    containers, end = read_containers(body, 2 * WORD, 0, path)
    _check_end(body, end, path)
    if containers and containers[-1].first > _LARGEST[32]:
        raise FormatError(f"{path}: expected positions up to {_LARGEST[32]}, found {containers[-1].first} or more")
    return [_Bitmap(0, 2 * WORD, end)], containers


def _wide(body: memoryview, path: str) -> tuple[list[_Bitmap], list[Container]]:
    at = 2 * WORD
    bitmaps: list[_Bitmap] = []
    found: list[Container] = []
    if len(body) < at + 8:
        raise FormatError(f"{path}: expected the number of bitmaps of a deletion vector, found its end")
    count, last = int.from_bytes(body[at : at + 8], "little"), -1
    at += 8
    for _ in range(min(count, len(body))):  # each takes some bytes, so a false count ends soon
        key = int.from_bytes(body[at : at + WORD], "little")
        if key <= last or key > _LARGEST_KEY:
            raise FormatError(f"{path}: expected ascending keys of bitmaps, found {key} after {last}")
        containers, end = read_containers(body, at + WORD, key << 32, path)
        bitmaps.append(_Bitmap(key << 32, at + WORD, end))
        found += containers
        last, at = key, end
    _check_end(body, at, path)
    if len(bitmaps) != count:
        raise FormatError(f"{path}: expected {count} bitmaps of a deletion vector, found {len(bitmaps)}")
    return bitmaps, found


def _check_end(body: memoryview, end: int, path: str) -> None:
    if end != len(body):
        raise FormatError(f"{path}: expected a bitmap that ends at byte {len(body)} of its vector, found byte {end}")
