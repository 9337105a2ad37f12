"""Avro object files, written from records that are encoded already.

The sync marker is derived from the content. So equal records give equal bytes, and no record can contain the marker of
its own file.

Source: the Avro 1.11 specification, "Object Container Files".
"""

import zlib
from collections.abc import Callable, Iterable
from hashlib import blake2b
from importlib.util import find_spec

from lakesweep.errors import UnsupportedFormatError
from lakesweep.format.avro.container import MAGIC, MAX_BLOCK_BYTES, SYNC_SIZE, most_bytes
from lakesweep.format.avro.encoder import long_bytes, sized
from lakesweep.format.values.json_document import describe
from lakesweep.format.zstd import make_zstd

BLOCK_BYTES = 64_000
"""A block is closed when its records have so many bytes, as Avro's Java library does."""
DEFAULT_ZSTD_LEVEL = 1
"""Paimon's default of `file.compression.zstd-level`."""
_DEFLATE_LEVEL = 6

Compress = Callable[[bytes, int | None], bytes]


def codec_of(compression: str) -> str:
    """Return the Avro codec in which to write, for a value of the table option `manifest.compression`.

    Where no compressor is installed, which may be so for snappy and is so for bzip2 and xz, this is `zstandard`. Every
    release since 0.9 reads it, and a codec is a matter of each file. A caller that cares compares the names.

    Source: Paimon `AvroFileFormat#createCodecFactory`.
    """
    name = compression.strip().lower()
    codec = {"zstd": "zstandard", "none": "null"}.get(name, name)
    if codec not in _CODECS or (codec == "snappy" and find_spec("cramjam") is None):
        return "zstandard"
    return codec


class ContainerWriter:
    """Collects records into the blocks of one file."""

    def __init__(self, schema_text: bytes, codec: str, level: int | None = None) -> None:
        """Begin a file.

        Args:
            schema_text: The writer's schema of all records.
            codec: Name of an Avro codec; see `codec_of`.
            level: Of the codec, or None for its default.

        Raises:
            UnsupportedFormatError: There is no such codec or level, or its compressor is not installed.
        """
        self._compress = _CODECS.get(codec)
        if self._compress is None or (codec == "snappy" and find_spec("cramjam") is None):
            raise UnsupportedFormatError(
                f"expected one of the installed codecs {', '.join(_CODECS)}, found {describe(codec)}",
                code="unsupported_codec",
            )
        self._level = level
        self._header = _header(schema_text, codec)
        self._blocks: list[bytes] = []
        self._records: list[bytes] = []
        self._record_bytes = 0
        self.size = len(self._header) + SYNC_SIZE
        """Bytes of the file so far, without the records of the open block."""
        self._total_bytes = 0
        self._most_bytes = most_bytes(self.size)

    def has_room(self, record: bytes) -> bool:
        """Tell whether Lakesweep can still read the file once it has this record.

        Records that are nearly alike take so few bytes that a reader refuses them as a bomb before the file is large.
        """
        return (
            self._record_bytes + len(record) <= MAX_BLOCK_BYTES and self._total_bytes + len(record) <= self._most_bytes
        )

    def add(self, record: bytes) -> None:
        """Add the bytes of one record."""
        self._records.append(record)
        self._record_bytes += len(record)
        self._total_bytes += len(record)
        if self._record_bytes >= BLOCK_BYTES:
            self._close_block()

    def finish(self) -> bytes:
        """Return the whole file. Nothing can be added after that."""
        if self._records:
            self._close_block()
        digest = blake2b(self._header, digest_size=SYNC_SIZE)
        for block in self._blocks:
            digest.update(block)
        sync = digest.digest()
        return sync.join((self._header, *self._blocks, b""))

    def _close_block(self) -> None:
        assert self._compress is not None
        try:
            data = self._compress(b"".join(self._records), self._level)
        except (ValueError, zlib.error) as error:
            raise UnsupportedFormatError(
                f"expected a level that the codec has, found {self._level}", code="unsupported_codec"
            ) from error
        block = long_bytes(len(self._records)) + sized(data)
        self._blocks.append(block)
        self.size += len(block) + SYNC_SIZE
        self._most_bytes = most_bytes(self.size)
        self._records, self._record_bytes = [], 0


def write_container(schema_text: bytes, records: Iterable[bytes], codec: str, level: int | None = None) -> bytes:
    """Return a whole file; without records it has only its header.

    Raises:
        UnsupportedFormatError: There is no such codec or level, or its compressor is not installed.
    """
    writer = ContainerWriter(schema_text, codec, level)
    for record in records:
        writer.add(record)
    return writer.finish()


def _header(schema_text: bytes, codec: str) -> bytes:
    entries = {b"avro.schema": schema_text, b"avro.codec": codec.encode()}
    pairs = b"".join(sized(key) + sized(value) for key, value in entries.items())
    return MAGIC + long_bytes(len(entries)) + pairs + long_bytes(0)


def _plain(data: bytes, level: int | None) -> bytes:
    return data


def _deflate(data: bytes, level: int | None) -> bytes:
    deflater = zlib.compressobj(_DEFLATE_LEVEL if level is None else level, wbits=-zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


def _zstandard(data: bytes, level: int | None) -> bytes:
    return make_zstd(data, DEFAULT_ZSTD_LEVEL if level is None else level)


def _snappy(data: bytes, level: int | None) -> bytes:
    import cramjam

    return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")


_CODECS: dict[str, Compress] = {"null": _plain, "deflate": _deflate, "zstandard": _zstandard, "snappy": _snappy}
