"""The frame of an ORC file: whether its sections lie where it says, and decompress within limits.

pyarrow's ORC reader trusts its input. For 400 flipped bits in a zstd file, pyarrow 19 returned other rows in 11 cases,
which this module finds, and ended its process in 63 cases. So this module first walks over the file, from its tail to
every compressed chunk. After that, pyarrow meets only damage in values that decompress.

Source: the ORC v1 specification; Protocol Buffers encoding.
"""

import zlib
from collections.abc import Iterator

from lakesweep.errors import FormatError
from lakesweep.format.orc.messages import BrokenFrameError, Message, message, number, submessage
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
FOOTER_STRIPE = 3
_STRIPE_OFFSET, _STRIPE_INDEX_SIZE, _STRIPE_DATA_SIZE, _STRIPE_FOOTER_SIZE = 1, 2, 3, 4
_STRIPE_STREAM, _STREAM_SIZE = 1, 3


def check_frame(body: bytes, path: str, most_bytes: int = MAX_TOTAL_BYTES) -> None:
    """Raise `FormatError` unless every section of the file exists and decompresses.

    Args:
        body: The whole file.
        path: The path for messages.
        most_bytes: The most bytes of all sections, decompressed.
    """
    try:
        _check(body, most_bytes)
    except (BrokenFrameError, IndexError) as error:
        found = error if isinstance(error, BrokenFrameError) else "a section that ends too early"
        raise FormatError(f"{path}: expected a whole ORC file of {len(body)} bytes, found {found}") from error


def read_footer(body: bytes, most_bytes: int) -> "tuple[Message, Chunks, int, int] | None":
    """Return the footer, how to decompress, where the footer begins, and the size of the metadata before it.

    `None`: the file has a codec that is not decompressed here.

    Raises:
        BrokenFrameError, IndexError: The file is damaged.
    """
    tail_size = body[-1]
    tail_start = len(body) - 1 - tail_size
    tail = message(_section(body, tail_start, tail_size))
    if tail.get(_TAIL_MAGIC) != [MAGIC]:
        raise BrokenFrameError("no magic in its tail")
    footer_size, metadata_size = number(tail, _TAIL_FOOTER_SIZE), number(tail, _TAIL_METADATA_SIZE)
    compression = number(tail, _TAIL_COMPRESSION)
    chunks = Chunks(compression, number(tail, _TAIL_CHUNK_SIZE), most_bytes)
    if compression not in _DECOMPRESSED_HERE:
        return None  # pyarrow notices damage in other codecs.
    footer_start = tail_start - footer_size
    return message(chunks.read(_section(body, footer_start, footer_size))), chunks, footer_start, metadata_size


def _check(body: bytes, most_bytes: int) -> None:
    found = read_footer(body, most_bytes)
    if found is None:
        return
    footer, chunks, footer_start, metadata_size = found
    chunks.check(_section(body, footer_start - metadata_size, metadata_size))
    for stripe in footer.get(FOOTER_STRIPE, []):
        _check_stripe(body, submessage(stripe), chunks)


def _check_stripe(body: bytes, stripe: Message, chunks: "Chunks") -> None:
    position = start = number(stripe, _STRIPE_OFFSET)
    streams_size = _streams_size(stripe)
    footer = stripe_footer(body, stripe, chunks)
    for stream in footer.get(_STRIPE_STREAM, []):
        size = number(submessage(stream), _STREAM_SIZE)
        chunks.check(_section(body, position, size))
        position += size
    if position > start + streams_size:
        raise BrokenFrameError(f"streams of {position - start} bytes in a stripe of {streams_size}")


def stripe_footer(body: bytes, stripe: Message, chunks: "Chunks") -> Message:
    """Return the footer of a stripe, which the footer of the file describes."""
    start = number(stripe, _STRIPE_OFFSET) + _streams_size(stripe)
    return message(chunks.read(_section(body, start, number(stripe, _STRIPE_FOOTER_SIZE))))


def _streams_size(stripe: Message) -> int:
    return number(stripe, _STRIPE_INDEX_SIZE) + number(stripe, _STRIPE_DATA_SIZE)


def _section(body: bytes, start: int, size: int) -> bytes:
    if not len(MAGIC) <= start <= start + size <= len(body):
        raise BrokenFrameError(f"a section of {size} bytes at byte {start}")
    return body[start : start + size]


class Chunks:
    """Sections are sequences of chunks. Each has a header of three bytes: its size, and whether it is compressed."""

    def __init__(self, compression: int, chunk_size: int, most_bytes: int) -> None:
        if compression != _NOT_COMPRESSED and not 0 < chunk_size <= MAX_CHUNK_BYTES:
            raise BrokenFrameError(f"compression chunks of {chunk_size} bytes")
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
                raise BrokenFrameError("half a chunk header")
            header = int.from_bytes(section[position : position + 3], "little")
            start, size, is_original = position + 3, header >> 1, header & 1
            position = start + size
            if position > len(section) or size > self._chunk_size:
                raise BrokenFrameError(f"a chunk of {size} bytes")
            chunk = section[start:position]
            plain = chunk if is_original else self._decompress(chunk)
            self._left -= len(plain)
            if self._left < 0:
                raise BrokenFrameError(f"more than {self._most} bytes when decompressed")
            yield plain

    def _decompress(self, chunk: bytes) -> bytes:
        decompress = _inflate if self._compression == _ZLIB else unzstd
        # Both codecs report damage by their own error classes.
        try:
            plain = decompress(chunk, self._chunk_size + 1)
        except Exception as error:
            raise BrokenFrameError(f"a chunk that does not decompress: {error}") from error
        if len(plain) > self._chunk_size:
            raise BrokenFrameError(f"a chunk of more than {self._chunk_size} bytes when decompressed")
        return plain


def _inflate(chunk: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = inflater.decompress(chunk, limit)
    if not inflater.eof and len(plain) < limit:
        raise ValueError("no whole deflate stream")
    return plain
