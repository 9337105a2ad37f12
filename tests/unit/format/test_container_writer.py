"""Avro containers: what is written from raw records is read by our reader and by fastavro."""

import io
import json
import sys
import zlib
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro.container import read_container
from lakesweep.format.avro.container_writer import BLOCK_BYTES, ContainerWriter, codec_of, write_container
from lakesweep.format.avro.encoder import encode
from lakesweep.format.avro.schema import parse_avro_schema
from tests.support.sampling import examples

from .random_records import schemas, values
from .samples import record

SCHEMA = record("r", title="string", number="long")
TEXT = json.dumps(SCHEMA).encode()
TYPE = parse_avro_schema(SCHEMA, "p")
CODECS = ("null", "deflate", "zstandard", "snappy")


def rows(count: int, size: int = 60) -> list[dict[str, Any]]:
    return [{"title": f"{n:0{size}}", "number": n - 5} for n in range(count)]


def records(count: int, size: int = 60) -> list[bytes]:
    return [encode(TYPE, row, "p") for row in rows(count, size)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [0, 1, 5000])
def test_round_trip(codec: str, count: int) -> None:
    body = write_container(TEXT, records(count), codec)
    file = read_container(body, "p")
    assert (file.schema_text, file.codec, file.record_count) == (TEXT, codec, count)
    assert b"".join(data for _, data in file.blocks()) == b"".join(records(count))
    assert list(fastavro.reader(io.BytesIO(body))) == rows(count)


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_are_closed_at_their_size(codec: str) -> None:
    """Every block but the last reaches the size with its last record."""
    file = read_container(write_container(TEXT, records(5000), codec), "p")
    *full, (_, last) = file.blocks()
    assert len(full) == 4
    for _, data in full:
        assert BLOCK_BYTES <= len(data) < BLOCK_BYTES + 70
    assert 0 < len(last) < BLOCK_BYTES


def test_one_huge_record_is_one_block() -> None:
    large = encode(TYPE, {"title": "x" * 1_000_000, "number": 1}, "p")
    file = read_container(write_container(TEXT, [*records(1), large, *records(1)], "deflate"), "p")
    assert [count for count, _ in file.blocks()] == [2, 1]


@pytest.mark.parametrize("codec", CODECS)
def test_the_size_so_far_is_the_size_of_closed_blocks(codec: str) -> None:
    writer = ContainerWriter(TEXT, codec)
    empty = writer.size
    for each in records(1500):
        writer.add(each)
    before = writer.size
    assert empty < before
    body = writer.finish()
    assert before < len(body) == writer.size
    assert len(write_container(TEXT, [], codec)) == empty


def test_equal_records_give_equal_bytes() -> None:
    """The marker comes from the content: other records, schema or codec have another one."""
    first = write_container(TEXT, records(3), "null")
    assert first == write_container(TEXT, records(3), "null")
    others = [
        write_container(TEXT, records(4), "null"),
        write_container(TEXT + b" ", records(3), "null"),
        write_container(TEXT, [], "null"),
    ]
    assert len({body[-16:] for body in [first, *others]}) == 4


@pytest.mark.parametrize("codec", ["bzip2", "xz", "lz4", "", "ZSTANDARD"])
def test_unknown_codecs_are_refused(codec: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=r"^expected one of the installed codecs null, ") as caught:
        ContainerWriter(TEXT, codec)
    assert caught.value.code == "unsupported_codec"


@pytest.mark.parametrize(("codec", "level"), [("zstandard", 1000), ("deflate", 10), ("deflate", -2)])
def test_unknown_levels_are_refused(codec: str, level: int) -> None:
    with pytest.raises(UnsupportedFormatError, match=rf"^expected a level that the codec has, found {level}$"):
        write_container(TEXT, records(1), codec, level)


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_a_higher_level_packs_more_tightly(codec: str) -> None:
    low, high = (write_container(TEXT, records(3000), codec, level) for level in (1, 9))
    assert len(high) < len(low)
    assert list(fastavro.reader(io.BytesIO(high))) == rows(3000)


def test_snappy_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the option then means zstandard, and a file in snappy is refused at once."""
    assert codec_of("snappy") == "snappy"
    monkeypatch.setitem(sys.modules, "cramjam", None)
    assert codec_of("snappy") == "zstandard"
    with pytest.raises(UnsupportedFormatError, match=r"found .snappy.$"):
        ContainerWriter(TEXT, "snappy")


@pytest.mark.parametrize(
    ("option", "codec"),
    [
        ("zstd", "zstandard"),
        (" ZSTD ", "zstandard"),
        ("zstandard", "zstandard"),
        ("deflate", "deflate"),
        ("null", "null"),
        ("none", "null"),
        ("bzip2", "zstandard"),
        ("", "zstandard"),
    ],
)
def test_codecs_of_the_option(option: str, codec: str) -> None:
    assert codec_of(option) == codec


def test_snappy_has_its_checksum() -> None:
    body = write_container(TEXT, records(3), "snappy")
    assert body[-20:-16] == zlib.crc32(b"".join(records(3))).to_bytes(4, "big")


@settings(max_examples=examples(60))
@given(st.data())
def test_the_encoder_writes_what_fastavro_writes(data: st.DataObject) -> None:
    """Any schema of the types that lists have."""
    schema = data.draw(schemas().filter(is_plain))
    value = data.draw(values(schema))
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    assert encode(parse_avro_schema(schema, "p"), value, "p") == body.getvalue()


def is_plain(schema: Any) -> bool:
    """Without maps, enums, fixed and float, which no list has."""
    if isinstance(schema, list):
        return all(map(is_plain, schema))
    if isinstance(schema, dict):
        match schema["type"]:
            case "record":
                return all(is_plain(field["type"]) for field in schema["fields"])
            case "array":
                return is_plain(schema["items"])
        return False
    return schema != "float"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int", 1 << 31),
        ("int", -(1 << 31) - 1),
        ("long", 1 << 63),
        ("long", 1.0),
        ("int", True),
        ("long", None),
        ("string", b"x"),
        ("bytes", "x"),
        ("boolean", 1),
        ("null", 0),
        (["int", "long"], None),
        (["null", "int"], "x"),
        ({"type": "array", "items": "int"}, "ab"),
        ({"type": "array", "items": "int"}, [1, None]),
        ({"type": "map", "values": "int"}, {"a": 1}),
        (record("r", a="int"), {}),
        (record("r", a="int"), [1]),
    ],
)
def test_other_values_are_refused(schema: Any, value: Any) -> None:
    with pytest.raises(FormatError, match=r"^p: expected .* in .*, found "):
        encode(parse_avro_schema(schema, "p"), value, "p")
