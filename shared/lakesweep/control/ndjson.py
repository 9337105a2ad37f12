"""Rows as gzip-compressed JSON lines, the form of plans and ledgers."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator

from lakesweep.errors import FormatError
from lakesweep.format.values.json_document import MAX_SEPARATORS, SEPARATORS

MAX_RATIO = 500
"""A part may unpack to this many times its size, plus `FREE_BYTES`. Rows that differ only in a counter, in folders with
long names, reach 160."""
FREE_BYTES = 1 << 20
MAX_LINE_BYTES = 32 << 20
"""A row of a plan may hold a whole document."""
MAX_ROWS = 100_000
"""Of one part of a plan or ledger. Writers put at most 20 000 rows into one part."""
_SHORT = 4096
"""A line of at most this many bytes holds few values."""
_PIECE = 1 << 16
_LEVEL = 6
"""Half the time of the highest level, for a twentieth more bytes."""

compact = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
"""Encodes a row. One encoder for all of them: `json.dumps` makes a new one for every row."""


def pack(rows: Iterable[object]) -> bytes:
    """Return rows as compressed lines; equal rows give equal bytes."""
    text = "".join([compact(row) + "\n" for row in rows])
    return gzip.compress(text.encode(), _LEVEL, mtime=0)


def unpack(data: bytes, path: str, *, max_rows: int | None = MAX_ROWS) -> Iterator[dict[str, object]]:
    """Yield the rows of `pack` one by one. Rows that were yielded before an error are correct.

    Args:
        data: The stored bytes.
        path: Of the document, for messages.
        max_rows: More rows are refused, since callers hold rows in memory; `None` for any number.

    Raises:
        FormatError: The bytes are not from `pack`, are cut off, or unpack to more than any writer packs into so few
            bytes.
    """
    for number, line in enumerate(_lines(data, path), 1):
        if max_rows is not None and number > max_rows:
            raise FormatError(f"{path}: expected at most {max_rows} rows, found more")
        if len(line) > _SHORT and sum(map(line.count, SEPARATORS)) > MAX_SEPARATORS:
            raise FormatError(f"{path}: expected at most {MAX_SEPARATORS} JSON values in a line, found more")
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}: expected gzip-compressed JSON lines: {error}") from error
        if not isinstance(row, dict):
            raise FormatError(f"{path}: expected a JSON object in every line, found {type(row).__name__}")
        yield row


def _lines(data: bytes, path: str) -> Iterator[bytes]:
    begun = bytearray()
    for text in unzipped(data, path):
        first, *others = text.split(b"\n")
        begun += first
        if others:
            yield bytes(begun)
            yield from others[:-1]
            begun = bytearray(others[-1])
        if len(begun) > MAX_LINE_BYTES:
            raise FormatError(f"{path}: expected lines of at most {MAX_LINE_BYTES} bytes, found more")
    if begun:
        yield bytes(begun)


def unzipped(data: bytes, path: str) -> Iterator[bytes]:
    """Yield the text of a control document, piece by piece: a few bytes can hold gigabytes.

    Raises:
        FormatError: Not one complete gzip stream, or more text than any writer packs into so few bytes.
    """
    left = FREE_BYTES + MAX_RATIO * len(data)
    unzip = zlib.decompressobj(wbits=31)
    for start in range(0, len(data), _PIECE):
        packed = data[start : start + _PIECE]
        while packed or unzip.unconsumed_tail:
            try:
                text = unzip.decompress(packed or unzip.unconsumed_tail, _PIECE)
            except zlib.error as error:
                raise FormatError(f"{path}: expected gzip-compressed JSON lines: {error}") from error
            left -= len(text)
            if unzip.unused_data or left < 0:
                found = "something behind it" if unzip.unused_data else f"more than {MAX_RATIO} times its size"
                raise FormatError(f"{path}: expected one whole gzip stream, found {found}")
            if text:
                yield text
            packed = b""
            if unzip.eof:
                break
    if not unzip.eof:
        raise FormatError(f"{path}: expected one whole gzip stream, found it cut off")
