"""Avro containers: every way a frame can be damaged."""

import sys
import time
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro import container as avro
from lakesweep.format.avro.container import AvroFile, read_container

from .samples import avro_file, container, long, record

SCHEMA = record("r", a="long", b="string")
RECORDS = [{"a": number, "b": f"text {number}"} for number in range(50)]


def blocks(body: bytes) -> list[tuple[int, bytes]]:
    return list(read_container(body, "manifest/m").blocks())


def zstd_of(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.compress(data)


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy"])
def test_codecs(codec: str) -> None:
    if codec == "snappy":
        pytest.importorskip("cramjam")
    plain = blocks(avro_file(SCHEMA, RECORDS, "null", sync_interval=100))
    assert len(plain) > 3
    assert blocks(avro_file(SCHEMA, RECORDS, codec, sync_interval=100)) == plain


def test_no_codec_means_none() -> None:
    body = container(SCHEMA, [(1, b"\x02\x02a")]).replace(long(10) + b"avro.codec" + long(4) + b"null", b"")
    body = body.replace(long(2) + long(11) + b"avro.schema", long(1) + long(11) + b"avro.schema")
    assert read_container(body, "p").codec == "null"
    assert blocks(body) == [(1, b"\x02\x02a")]


def test_a_header_in_counted_blocks() -> None:
    """A negative count is followed by the size of the block."""
    schema = b'"long"'
    entry = long(11) + b"avro.schema" + long(len(schema)) + schema
    body = b"Obj\x01" + long(-1) + long(len(entry)) + entry + long(0) + b"s" * 16
    assert read_container(body, "p").schema == "long"


def test_a_container_without_records() -> None:
    file = read_container(avro_file(SCHEMA, []), "p")
    assert file.record_count == 0
    assert list(file.blocks()) == []


@pytest.mark.parametrize("codec", ["bzip2", "xz", "lz4", "", "ZSTANDARD"])
def test_other_codecs_are_unsupported(codec: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=r"^p: expected one of the codecs") as raised:
        read_container(container(SCHEMA, [], codec.encode()), "p")
    assert raised.value.code == "unsupported_codec"


def test_snappy_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(UnsupportedFormatError, match="needs cramjam"):
        blocks(container(SCHEMA, [(1, b"abcd")], b"snappy"))


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_every_cut_is_noticed(codec: str) -> None:
    """A cut between two blocks alone leaves a whole container."""
    body = avro_file(SCHEMA, RECORDS, codec, sync_interval=200)
    whole = blocks(body)
    passed = 0
    for end in range(len(body)):
        try:
            found = blocks(body[:end])
        except FormatError:
            continue
        assert found == whole[: len(found)] and body[:end].endswith(b"s" * 16)
        passed += 1
    assert passed == len(whole)


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy"])
def test_every_flip_is_noticed_or_harmless(codec: str) -> None:
    if codec == "snappy":
        pytest.importorskip("cramjam")
    body = avro_file(SCHEMA, RECORDS, codec, sync_interval=200)
    for position in range(len(body)):
        for bit in (0, 3, 7):
            changed = bytearray(body)
            changed[position] ^= 1 << bit
            try:
                blocks(bytes(changed))
            except (FormatError, UnsupportedFormatError) as error:
                assert str(error).startswith("manifest/m: ")


def test_bytes_left_over_are_damage() -> None:
    body = avro_file(SCHEMA, RECORDS)
    for tail in (b"\0", b"s" * 16, long(1) + long(0), b"Obj\x01"):
        with pytest.raises(FormatError, match="expected a whole Avro object file"):
            read_container(body + tail, "p")


def test_a_foreign_sync_marker_is_damage() -> None:
    body = avro_file(SCHEMA, RECORDS)
    with pytest.raises(FormatError, match="a wrong sync marker at byte"):
        read_container(body[:-1] + b"t", "p")


@pytest.mark.parametrize(
    "frame",
    [
        long(1) + long(1 << 30),
        long(1) + long(-1),
        long(-1) + long(3),
        long(1) + long((1 << 63) - 1),
        b"\xff" * 11,
        b"\xff" * 1000,
    ],
)
def test_lengths_beyond_the_body(frame: bytes) -> None:
    with pytest.raises(FormatError):
        read_container(container(SCHEMA, []) + frame + b"abc" + b"s" * 16, "p")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        long(1),
        long(1 << 40),
        long(-1) + long(5),
        long(1) + long(1 << 30) + b"avro.schema",
        long(1) + long(-5),
        long(1) + long(11) + b"avro.schema" + long(1 << 30),
        (long(1) + long(0) + long(0)) * 100_000,
    ],
)
def test_damaged_headers(header: bytes) -> None:
    with pytest.raises(FormatError):
        read_container(b"Obj\x01" + header + long(0) + b"s" * 16, "p")


def test_a_header_without_schema() -> None:
    with pytest.raises(FormatError, match=r"expected avro\.schema in the header"):
        read_container(b"Obj\x01" + long(0) + b"s" * 16, "p")


@pytest.mark.parametrize("body", [b"", b"Obj", b"Obj\x02", b"PAR1", b"ORC", b"{}"])
def test_other_files(body: bytes) -> None:
    with pytest.raises(FormatError, match="expected an Avro object file"):
        read_container(body, "p")


@pytest.mark.parametrize("count", [4, 1 << 40, (1 << 63) - 1])
def test_more_records_than_bytes(count: int) -> None:
    with pytest.raises(FormatError, match="expected at most 3 records"):
        blocks(container(SCHEMA, [(count, b"abc")]))


def deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_a_bomb_is_refused(codec: str) -> None:
    """A block of kilobytes that claims to be a gigabyte costs no more than the limit."""
    bomb = (zstd_of if codec == "zstandard" else deflate)(bytes(256 << 20))
    started = time.process_time()
    tracemalloc.start()
    with pytest.raises(FormatError, match="expected a block of at most 16777216 bytes"):
        blocks(container(SCHEMA, [(1, bomb)], codec.encode()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * avro.MAX_BLOCK_BYTES
    assert time.process_time() - started < 10


def test_many_blocks_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "MAX_TOTAL_BYTES", 2500)
    block = (1, zstd_of(bytes(1000)))
    assert len(blocks(container(SCHEMA, [block] * 2, b"zstandard"))) == 2
    with pytest.raises(FormatError, match="expected a block of at most 500 bytes"):
        blocks(container(SCHEMA, [block] * 3, b"zstandard"))


@pytest.mark.parametrize("blocks_of_it", [1, 1000])
def test_tiny_records_cannot_become_many_objects(blocks_of_it: int) -> None:
    """Two bytes of a record would be hundreds in memory, and compress to nothing."""
    block = (8_000_000 // blocks_of_it, zstd_of(bytes(16_000_000 // blocks_of_it)))
    with pytest.raises(FormatError, match="expected records of 48 bytes or more"):
        blocks(container(SCHEMA, [block] * blocks_of_it, b"zstandard"))


def test_what_a_file_unpacks_to_depends_on_its_size() -> None:
    block = (1, zstd_of(bytes(8 << 20)))
    with pytest.raises(FormatError, match="expected a block of at most"):
        blocks(container(SCHEMA, [block] * 4, b"zstandard"))


def test_a_huge_zstd_window_is_refused() -> None:
    frame = b"\x28\xb5\x2f\xfd" + b"\x00" + bytes((20 << 3,)) + b"\x01\x00\x00"  # A window of one gigabyte.
    with pytest.raises(FormatError):
        blocks(container(SCHEMA, [(0, frame)], b"zstandard"))


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_a_compressed_block_has_one_end(codec: str) -> None:
    packed = (zstd_of if codec == "zstandard" else deflate)(b"abc")
    assert blocks(container(SCHEMA, [(1, packed)], codec.encode())) == [(1, b"abc")]
    for damaged in (packed + packed, packed[:-1], packed + bytes(5), b""):
        with pytest.raises(FormatError):
            blocks(container(SCHEMA, [(1, damaged)], codec.encode()))


@given(st.binary(max_size=200))
def test_nothing_else_is_raised(tail: bytes) -> None:
    for body in (tail, b"Obj\x01" + tail, container(SCHEMA, []) + tail):
        try:
            file: AvroFile = read_container(body, "p")
            list(file.blocks())
        except (FormatError, UnsupportedFormatError):
            pass
