"""The containers of a Roaring bitmap in its portable format, checked.

A bitmap has a *container* for each 65 536 rows with a deleted row: an array of rows, a bit for each row, or runs. The
header says where each container lies and how many rows it has. All of this needs no package.

Source: the Roaring format specification; Paimon `RoaringBitmap32`.
"""

import struct
from itertools import accumulate, islice, pairwise, repeat
from operator import ge
from typing import Literal, NamedTuple

from lakesweep.errors import FormatError

SPAN = 1 << 16
"""Rows of a container."""
SPAN_BYTES = SPAN // 8
_NO_RUNS = 12346
_WITH_RUNS = 12347
_MOST_IN_ARRAY = 4096
_FEWEST_WITH_OFFSETS = 4
_ZERO, _ONE = b"01"


Kind = Literal["array", "bits", "runs"]


class Container(NamedTuple):
    """The deleted rows of one span."""

    kind: Kind
    first: int
    """First row of the span, a multiple of 65 536."""
    rows: int
    """The number of deleted rows that the header states."""
    start: int
    end: int
    """The bytes from `start` to `end` of the vector."""


def read_containers(data: memoryview, start: int, base: int, path: str) -> tuple[list[Container], int]:
    """Return the containers of a bitmap, and where the bitmap ends. This reads the header alone.

    Args:
        data: Little-endian bytes.
        start: Where the bitmap begins.
        base: Row 0 of the bitmap.
        path: For messages.

    Raises:
        FormatError: This is no bitmap, or it does not end within `data`.
    """
    (cookie,) = _unpacked("<I", data, start, path)
    runs = b""
    if cookie == _NO_RUNS:
        (size,) = _unpacked("<I", data, start + 4, path)
        at = start + 8
    elif cookie & 0xFFFF == _WITH_RUNS:
        size = (cookie >> 16) + 1
        at = start + 4 + (size + 7) // 8
        runs = bytes(data[start + 4 : at])
    else:
        raise FormatError(f"{path}: expected a Roaring bitmap at byte {start}, found the number {cookie}")
    if size > SPAN:
        raise FormatError(f"{path}: expected at most {SPAN} containers at byte {start}, found {size}")
    header = _unpacked(f"<{2 * size}H", data, at, path)
    at += 4 * size
    offsets: tuple[int, ...] | None = None
    if not runs or size >= _FEWEST_WITH_OFFSETS:
        offsets = _unpacked(f"<{size}I", data, at, path)
        at += 4 * size
    keys, rows = header[::2], [more + 1 for more in header[1::2]]
    kinds: list[Kind] = ["array" if count <= _MOST_IN_ARRAY else "bits" for count in rows]
    sizes = [2 * count if count <= _MOST_IN_ARRAY else SPAN_BYTES for count in rows]
    if runs:
        end = at
        for number in range(size):
            if runs[number >> 3] >> (number & 7) & 1:
                (count,) = _unpacked("<H", data, end, path)
                kinds[number], sizes[number] = "runs", 2 + 4 * count
            end += sizes[number]
    starts = list(accumulate(sizes, initial=at))
    if any(map(ge, keys, keys[1:])) or offsets not in (None, tuple([each - start for each in starts[:-1]])):
        raise FormatError(f"{path}: expected a bitmap with containers in ascending order at byte {start}")
    if starts[-1] > len(data):
        raise FormatError(f"{path}: expected {starts[-1]} bytes of a deletion vector, found {len(data)}")
    columns = zip(kinds, [base + key * SPAN for key in keys], rows, starts, starts[1:], strict=False)
    # The constructor of a named tuple takes twice as long.
    return list(map(tuple.__new__, repeat(Container), columns)), starts[-1]


def bits_of(data: memoryview, container: Container, path: str) -> bytes:
    """Return a bit for each row of the span, 1 if the row is deleted. Bit 0 of byte 0 is the first row.

    Raises:
        FormatError: The container does not hold as many rows as its header states, or they do not ascend.
    """
    if container.kind == "bits":
        bits = bytes(data[container.start : container.end])
        _check_count(int.from_bytes(bits, "little").bit_count(), container, path)
        return bits
    flags = bytearray(b"0") * SPAN
    if container.kind == "array":
        for row in _rows(data, container, path):
            flags[row] = _ONE
    else:
        for first, length in _runs(data, container, path):
            flags[first : first + length] = b"1" * length
    return int(flags[::-1], 2).to_bytes(SPAN_BYTES, "little")


def _rows(data: memoryview, container: Container, path: str) -> tuple[int, ...]:
    rows: tuple[int, ...] = struct.unpack_from(f"<{container.rows}H", data, container.start)
    if any(map(ge, rows, islice(rows, 1, None))):
        raise FormatError(f"{path}: expected ascending rows from row {container.first} on, found another order")
    return rows


def _runs(data: memoryview, container: Container, path: str) -> list[tuple[int, int]]:
    """Return the first row and the number of rows of each run."""
    numbers = struct.unpack_from(f"<{(container.end - container.start - 2) // 2}H", data, container.start + 2)
    runs = [(first, more + 1) for first, more in zip(numbers[::2], numbers[1::2], strict=True)]
    ends = (first + length >= following for (first, length), (following, _) in pairwise(runs))
    if any(ends) or (runs and sum(runs[-1]) > SPAN):
        raise FormatError(f"{path}: expected separate runs from row {container.first} on, found others")
    _check_count(sum(length for _, length in runs), container, path)
    return runs


def _check_count(count: int, container: Container, path: str) -> None:
    if count != container.rows:
        raise FormatError(
            f"{path}: expected {container.rows} deleted rows from row {container.first} on, found {count}"
        )


def _unpacked(form: str, data: memoryview, at: int, path: str) -> tuple[int, ...]:
    try:
        return struct.unpack_from(form, data, at)
    except struct.error as error:
        end = at + struct.calcsize(form)
        raise FormatError(f"{path}: expected at least {end} bytes of a deletion vector, found {len(data)}") from error
