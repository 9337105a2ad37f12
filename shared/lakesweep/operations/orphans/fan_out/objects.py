"""Objects that a worker has listed, as rows for the match.

A row begins with the hash of the name, the place and the size. The match needs no more for a file that it keeps. The
rest of the row is the time of writing, the ETag and the key. The match classifies the file again from its key.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from lakesweep.errors import FormatError

_HEAD = struct.Struct(">16sHQI")
_REST = struct.Struct(">qH")


class Listed(NamedTuple):
    """A row whose second part is not decoded yet."""

    name_hash: bytes
    place: int
    size_bytes: int
    rest: memoryview
    """The second part; see `rest_of`."""


class Rest(NamedTuple):
    """The second part of a row."""

    key: str
    """Key relative to its place."""
    etag: str
    modified_ms: int


def row_of(name_hash: bytes, place: int, size_bytes: int, rest: Rest) -> bytes:
    """Return a row."""
    etag, key = rest.etag.encode("utf-8", "surrogatepass"), rest.key.encode("utf-8", "surrogatepass")
    behind = _REST.pack(rest.modified_ms, len(etag)) + etag + key
    return _HEAD.pack(name_hash, place, size_bytes, len(behind)) + behind


def rows_in(block: bytes, path: str) -> Iterator[Listed]:
    """Yield the rows of a block.

    Raises:
        FormatError: The block does not end at the end of a row.
    """
    view, start, size = memoryview(block), 0, len(block)
    while start < size:
        behind = start + _HEAD.size
        if behind > size:
            break
        name_hash, place, size_bytes, length = _HEAD.unpack_from(block, start)
        start = behind + length
        if start > size:
            break
        yield Listed(name_hash, place, size_bytes, view[behind:start])
    if start != size:
        raise FormatError(f"{path}: expected whole rows of objects, found {size} bytes that end within one")


def rest_of(listed: Listed, path: str) -> Rest:
    """Decode the second part of a row.

    Raises:
        FormatError: The bytes are not such a part.
    """
    try:
        modified_ms, etag_size = _REST.unpack_from(listed.rest)
        text = bytes(listed.rest[_REST.size :])
        if len(text) < etag_size:
            raise ValueError(etag_size)
        etag, key = text[:etag_size], text[etag_size:]
        return Rest(key.decode("utf-8", "surrogatepass"), etag.decode("utf-8", "surrogatepass"), modified_ms)
    except (struct.error, ValueError) as error:
        raise FormatError(f"{path}: expected a row of an object: {error}") from error
