"""The frame of an ORC file: whether its sections lie where it says, and decompress within limits.

pyarrow's ORC reader trusts its input. For 400 flipped bits in a zstd file, pyarrow 19 returned other rows in 11 cases,
which this module finds, and ended its process in 63 cases. So this module first walks over the file, from its tail to
every compressed chunk. After that, pyarrow meets only damage in values that decompress.

Source: the ORC v1 specification; Protocol Buffers encoding.
"""

import zlib
from collections.abc import Iterator

from lakesweep.errors import FormatError
from lakesweep.format.zstd import unzstd

MAGIC = b"ORC"

MAX_CHUNK_BYTES = 8 << 20
"""The largest length that a chunk can have. pyarrow takes this much memory for each column."""
MAX_TOTAL_BYTES = 1 << 30
"""The most bytes of all sections of a metadata file, decompressed; the same limit as for an Avro file."""

_NOT_COMPRESSED, _ZLIB, _ZSTD = 0, 1, 5
_DECOMPRESSED_HERE = (_NOT_COMPRESSED, _ZLIB, _ZSTD)

# Field numbers of the messages read here.
_TAIL_FOOTER_SIZE, _TAIL_COMPRESSION, _TAIL_CHUNK_SIZE, _TAIL_METADATA_SIZE, _TAIL_MAGIC = 1, 2, 3, 5, 8000
_FOOTER_STRIPE = 3
_STRIPE_OFFSET, _STRIPE_INDEX_SIZE, _STRIPE_DATA_SIZE, _STRIPE_FOOTER_SIZE = 1, 2, 3, 4
_STRIPE_STREAM, _STREAM_SIZE = 1, 3

Message = dict[int, list[int | bytes]]


def check_frame(body: bytes, path: str, most_bytes: int = MAX_TOTAL_BYTES) -> None:
    """Raise `FormatError` unless every section of the file exists and decompresses.

    Args:
        body: The whole file.
        path: The path for messages.
        most_bytes: The most bytes of all sections, decompressed.
    """
    try:
        _check(body, most_bytes)
    except (_BrokenFrameError, IndexError) as error:
        found = error if isinstance(error, _BrokenFrameError) else "a section that ends too early"
        raise FormatError(f"{path}: expected a whole ORC file of {len(body)} bytes, found {found}") from error


class _BrokenFrameError(Exception):
    """A section does not match the file's own description."""


def _check(body: bytes, most_bytes: int) -> None:
    tail_size = body[-1]
    tail_start = len(body) - 1 - tail_size
    tail = _message(_section(body, tail_start, tail_size))
    if tail.get(_TAIL_MAGIC) != [MAGIC]:
        raise _BrokenFrameError("no magic in its tail")
    footer_size, metadata_size = _number(tail, _TAIL_FOOTER_SIZE), _number(tail, _TAIL_METADATA_SIZE)
    compression = _number(tail, _TAIL_COMPRESSION)
    chunks = _Chunks(compression, _number(tail, _TAIL_CHUNK_SIZE), most_bytes)
    if compression not in _DECOMPRESSED_HERE:
        return  # pyarrow notices damage in other codecs.
    footer_start = tail_start - footer_size
    footer = _message(chunks.read(_section(body, footer_start, footer_size)))
    chunks.check(_section(body, footer_start - metadata_size, metadata_size))
    for stripe in footer.get(_FOOTER_STRIPE, []):
        _check_stripe(body, _submessage(stripe), chunks)


def _check_stripe(body: bytes, stripe: Message, chunks: "_Chunks") -> None:
    start = _number(stripe, _STRIPE_OFFSET)
    streams_size = _number(stripe, _STRIPE_INDEX_SIZE) + _number(stripe, _STRIPE_DATA_SIZE)
    footer_size = _number(stripe, _STRIPE_FOOTER_SIZE)
    footer = _message(chunks.read(_section(body, start + streams_size, footer_size)))
    position = start
    for stream in footer.get(_STRIPE_STREAM, []):
        size = _number(_submessage(stream), _STREAM_SIZE)
        chunks.check(_section(body, position, size))
        position += size
    if position > start + streams_size:
        raise _BrokenFrameError(f"streams of {position - start} bytes in a stripe of {streams_size}")


def _section(body: bytes, start: int, size: int) -> bytes:
    if not len(MAGIC) <= start <= start + size <= len(body):
        raise _BrokenFrameError(f"a section of {size} bytes at byte {start}")
    return body[start : start + size]


class _Chunks:
    """Sections are sequences of chunks. Each has a header of three bytes: its size, and whether it is compressed."""

    def __init__(self, compression: int, chunk_size: int, most_bytes: int) -> None:
        if compression != _NOT_COMPRESSED and not 0 < chunk_size <= MAX_CHUNK_BYTES:
            raise _BrokenFrameError(f"compression chunks of {chunk_size} bytes")
        self._compression = compression
        self._chunk_size = chunk_size
        self._most = self._left = most_bytes

    def read(self, section: bytes) -> bytes:
        """Return the section decompressed."""
        return b"".join(self._parts(section))

    def check(self, section: bytes) -> None:
        """Decompress the section, and keep nothing."""
        for _ in self._parts(section):
            pass

    def _parts(self, section: bytes) -> Iterator[bytes]:
        if self._compression == _NOT_COMPRESSED:
            yield section
            return
        position = 0
        while position < len(section):
            if position + 3 > len(section):
                raise _BrokenFrameError("half a chunk header")
            header = int.from_bytes(section[position : position + 3], "little")
            start, size, is_original = position + 3, header >> 1, header & 1
            position = start + size
            if position > len(section) or size > self._chunk_size:
                raise _BrokenFrameError(f"a chunk of {size} bytes")
            chunk = section[start:position]
            plain = chunk if is_original else self._decompress(chunk)
            self._left -= len(plain)
            if self._left < 0:
                raise _BrokenFrameError(f"more than {self._most} bytes when decompressed")
            yield plain

    def _decompress(self, chunk: bytes) -> bytes:
        decompress = _inflate if self._compression == _ZLIB else unzstd
        # Both codecs report damage by their own error classes.
        try:
            plain = decompress(chunk, self._chunk_size + 1)
        except Exception as error:
            raise _BrokenFrameError(f"a chunk that does not decompress: {error}") from error
        if len(plain) > self._chunk_size:
            raise _BrokenFrameError(f"a chunk of more than {self._chunk_size} bytes when decompressed")
        return plain


def _message(data: bytes) -> Message:
    """Split a Protocol Buffers message into its fields: integers, and everything else as bytes."""
    fields: Message = {}
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        value: int | bytes
        match key & 7:
            case 0:
                value, position = _varint(data, position)
            case 1:
                value, position = _take(data, position, 8)
            case 2:
                size, position = _varint(data, position)
                value, position = _take(data, position, size)
            case 5:
                value, position = _take(data, position, 4)
            case wire_type:
                raise _BrokenFrameError(f"a field of the wire type {wire_type}")
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _submessage(value: int | bytes) -> Message:
    if isinstance(value, int):
        raise _BrokenFrameError("a number instead of a message")
    return _message(value)


def _number(message: Message, field: int) -> int:
    value = message.get(field, [0])[-1]
    if not isinstance(value, int):
        raise _BrokenFrameError(f"no number in the field {field}")
    return value


def _take(data: bytes, position: int, size: int) -> tuple[bytes, int]:
    if position + size > len(data):
        raise _BrokenFrameError(f"a field of {size} bytes")
    return data[position : position + size], position + size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise _BrokenFrameError("a number of more than ten bytes")


def _inflate(chunk: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = inflater.decompress(chunk, limit)
    if not inflater.eof and len(plain) < limit:
        raise ValueError("no whole deflate stream")
    return plain
