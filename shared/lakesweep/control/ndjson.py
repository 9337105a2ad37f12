"""Rows as gzip-compressed JSON lines, the form of plans and ledgers."""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator

from lakesweep.errors import FormatError

MAX_UNPACKED_BYTES = 1 << 30
"""More than this in one part is refused; writers stay far below."""
_LEVEL = 6
"""Half the time of the highest level, for a twentieth more bytes."""

compact = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
"""Encodes a row. One encoder for all of them: `json.dumps` makes a new one for every row."""


def pack(rows: Iterable[object]) -> bytes:
    """Return rows as compressed lines; equal rows give equal bytes."""
    text = "".join([compact(row) + "\n" for row in rows])
    return gzip.compress(text.encode(), _LEVEL, mtime=0)


def unpack(data: bytes, path: str) -> Iterator[dict[str, object]]:
    """Yield the rows of `pack`.

    Raises:
        FormatError: Not what `pack` writes, or cut off.
    """
    try:
        unzip = zlib.decompressobj(wbits=31)
        text = unzip.decompress(data, MAX_UNPACKED_BYTES)
        if not unzip.eof or unzip.unused_data:
            raise FormatError(f"{path}: expected one whole gzip stream, found it cut off, too large or continued")
        rows = [json.loads(line) for line in text.splitlines()]
    except (zlib.error, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: expected gzip-compressed JSON lines: {error}") from error
    for row in rows:
        if not isinstance(row, dict):
            raise FormatError(f"{path}: expected a JSON object in every line, found {type(row).__name__}")
        yield row
