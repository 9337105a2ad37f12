"""Avro object files: the container of manifests, manifest lists and index manifests.

`read_container` checks the whole frame at once (header, block lengths, sync markers, no bytes left over). So a damaged
frame is found before the first record. Blocks are decompressed one by one, on demand.

A body that was cut exactly between two blocks is a valid, shorter container. Only its recorded size can show the cut;
the readers of manifests take this size as `expected_size`.

Source: the Avro 1.11 specification, "Object Container Files".
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.values.json_document import describe, parse_value
from lakesweep.format.zstd import unzstd

MAGIC = b"Obj\x01"
SYNC_SIZE = 16

MAX_BLOCK_BYTES = 16 << 20
"""The most bytes of one decompressed block. Writers close a block at 16 to 64 KB."""
MAX_TOTAL_BYTES = 1 << 30
"""The most bytes of all decompressed blocks: about two million entries. Writers start a new manifest at 8 MB,
compressed."""
MAX_RATIO = 300
"""A file may unpack to this many times its size, plus `MAX_BLOCK_BYTES`. Entries that differ only in a counter in
their names reach 90."""
MIN_RECORD_BYTES = 48
"""The minimum average length of records, except for the first `FREE_RECORDS`: each names a file with a UUID."""
FREE_RECORDS = 1000

_MAX_HEADER_ENTRIES = 1000
_ZLIB_CHECKSUM_SIZE = 4

Decompress = Callable[[bytes, int], bytes]
"""Turns a block into at most one byte more than the given number of bytes."""


@dataclass(frozen=True, slots=True)
class AvroFile:
    """A container with a valid frame."""

    path: str
    schema: object
    """The writer's schema, parsed JSON."""
    schema_text: bytes
    codec: str
    _body: bytes = field(repr=False)
    _spans: tuple[tuple[int, int, int], ...] = field(repr=False)
    """For every block: number of records, first byte, byte after the last."""
    _is_data: bool = False

    @property
    def record_count(self) -> int:
        """The number of records that the blocks claim."""
        return sum(count for count, _, _ in self._spans)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of records and the decompressed bytes of every block.

        Raises:
            FormatError: A block does not decompress, or decompresses to more than this module allows.
        """
        decompress = _codec(self.codec, self.path)
        left = total = MAX_BLOCK_BYTES + MAX_RATIO * len(self._body) if self._is_data else most_bytes(len(self._body))
        records = 0
        for count, start, end in self._spans:
            limit = min(MAX_BLOCK_BYTES, left)
            try:
                data = decompress(self._body[start:end], limit)
            # A codec reports damage by its own error classes. They are not worth an import just to name them.
            except Exception as error:
                raise FormatError(
                    f"{self.path}: expected a {self.codec} block at byte {start}, found {error}"
                ) from error
            if len(data) > limit:
                raise FormatError(f"{self.path}: expected a block of at most {limit} bytes at byte {start}, found more")
            # Every record takes at least one byte, so a count cannot turn a small block into endless work.
            if count > len(data):
                raise FormatError(
                    f"{self.path}: expected at most {len(data)} records in the block at byte {start}, found {count}"
                )
            left -= len(data)
            records += count
            # A record of a few bytes takes hundreds in memory.
            if not self._is_data and records > FREE_RECORDS + (total - left) // MIN_RECORD_BYTES:
                raise FormatError(
                    f"{self.path}: expected records of {MIN_RECORD_BYTES} bytes or more, "
                    f"found {records} in {total - left} bytes"
                )
            yield count, data


def most_bytes(size: int) -> int:
    """Return the most bytes to which the blocks of a file of so many bytes may unpack."""
    return min(MAX_TOTAL_BYTES, MAX_BLOCK_BYTES + MAX_RATIO * size)


def read_container(body: bytes, path: str, *, is_data: bool = False) -> AvroFile:
    """Read the frame of an Avro object file.

    Args:
        body: The whole file.
        path: The path for messages.
        is_data: It is a data file. Its blocks are used one by one, and its records may be small.

    Raises:
        FormatError: The frame is damaged or cut short.
        UnsupportedFormatError: Lakesweep does not support its codec.
    """
    if not body.startswith(MAGIC):
        raise FormatError(f"{path}: expected an Avro object file, found {describe(repr(body[:8]))}")
    try:
        header, start = _read_header(body, len(MAGIC))
        sync = body[start : start + SYNC_SIZE]
        spans = tuple(_spans(body, start + SYNC_SIZE, sync))
    except (IndexError, _BrokenFrameError) as error:
        found = error if isinstance(error, _BrokenFrameError) else "its end too early"
        raise FormatError(f"{path}: expected a whole Avro object file of {len(body)} bytes, found {found}") from error
    schema_text = header.get("avro.schema")
    if schema_text is None:
        raise FormatError(f"{path}: expected avro.schema in the header, found nothing")
    codec = header.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in _CODECS:
        raise UnsupportedFormatError(
            f"{path}: expected one of the codecs {', '.join(_CODECS)}, found {describe(codec)}",
            code="unsupported_codec",
        )
    return AvroFile(path, parse_value(schema_text, path), schema_text, codec, body, spans, is_data)


class _BrokenFrameError(Exception):
    """A length or marker of the frame is impossible."""


def _read_header(body: bytes, position: int) -> tuple[dict[str, bytes], int]:
    header: dict[str, bytes] = {}
    while True:
        count, position = _read_long(body, position)
        if count == 0:
            return header, position
        if count < 0:  # A negative count is followed by the size of the map block in bytes.
            count = -count
            _, position = _read_long(body, position)
        if count > _MAX_HEADER_ENTRIES or len(header) > _MAX_HEADER_ENTRIES:
            raise _BrokenFrameError(f"a header of {count} entries")
        for _ in range(count):
            key, position = _read_bytes(body, position)
            value, position = _read_bytes(body, position)
            header[key.decode("utf-8", "replace")] = value


def _spans(body: bytes, position: int, sync: bytes) -> Iterator[tuple[int, int, int]]:
    if len(sync) < SYNC_SIZE:
        raise _BrokenFrameError("no sync marker after the header")
    while position < len(body):
        start = position
        count, position = _read_long(body, position)
        size, position = _read_long(body, position)
        end = position + size
        if count < 0 or size < 0 or end > len(body) - SYNC_SIZE:
            raise _BrokenFrameError(f"a block of {count} records and {size} bytes at byte {start}")
        if body[end : end + SYNC_SIZE] != sync:
            raise _BrokenFrameError(f"a wrong sync marker at byte {end}")
        yield count, position, end
        position = end + SYNC_SIZE


def _read_bytes(body: bytes, position: int) -> tuple[bytes, int]:
    size, position = _read_long(body, position)
    if not 0 <= size <= len(body) - position:
        raise _BrokenFrameError(f"a length of {size} bytes at byte {position}")
    return body[position : position + size], position + size


def _read_long(body: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = body[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
    raise _BrokenFrameError(f"a number of more than ten bytes before byte {position}")


def _plain(data: bytes, limit: int) -> bytes:
    return data


def _inflate(data: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = inflater.decompress(data, limit + 1)
    # Beyond the limit there may be more data; the caller refuses the block by its length.
    # fastavro leaves bytes of the zlib checksum after the stream.
    if len(plain) <= limit and not (inflater.eof and len(inflater.unused_data) <= _ZLIB_CHECKSUM_SIZE):
        raise ValueError("no whole deflate stream")
    return plain


def _unzstd(data: bytes, limit: int) -> bytes:
    return unzstd(data, limit + 1)


def _unsnappy(data: bytes, limit: int) -> bytes:
    snappy = _import_snappy()
    packed, checksum = data[:-4], data[-4:]
    if (size := snappy.decompress_raw_len(packed)) > limit:
        raise ValueError(f"a block of {size} bytes")
    plain = bytes(snappy.decompress_raw(packed))
    if zlib.crc32(plain).to_bytes(4, "big") != checksum:
        raise ValueError("a wrong checksum")
    return plain


def _import_snappy() -> Any:
    import cramjam

    return cramjam.snappy


_CODECS: dict[str, Decompress] = {
    "null": _plain,
    "deflate": _inflate,
    "zstandard": _unzstd,
    "snappy": _unsnappy,
}


def _codec(name: str, path: str) -> Decompress:
    if name == "snappy":
        try:
            _import_snappy()
        except ImportError as error:
            raise UnsupportedFormatError(
                f"{path}: expected a codec of the installed packages, found snappy, which needs cramjam",
                code="unsupported_codec",
            ) from error
    return _CODECS[name]
