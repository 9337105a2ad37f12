"""Data files of each format, read by batches: values, positions, and damage, which is never an empty file."""

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from lakesweep.errors import FormatError
from lakesweep.format.values.data_type import DataField, DataType, parse_data_type
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.reading import orc as reader
from lakesweep.operations.reading.avro import avro_batches
from lakesweep.operations.reading.object_file import ObjectFile
from lakesweep.operations.reading.orc import orc_batches
from lakesweep.operations.reading.parquet import parquet_batches
from lakesweep.operations.reading.texts import json_lines
from tests.support.memory_store import MemoryStore
from tests.support.typed_rows import shown

N = DataField(0, "n", DataType("INT"))


def file_of(body: bytes, rows: int, format_: str) -> tuple[ObjectFile, ReadFile]:
    store = MemoryStore()
    store.put("f", body)
    return ObjectFile(store, "f", len(body)), ReadFile(
        "f", len(body), rows, format_, 0, level=0, bucket=0, partition=b"", vector=None
    )


def orc_file(count: int, **options: Any) -> bytes:
    target = io.BytesIO()
    orc.write_table(pa.table({"n": pa.array(range(count), pa.int32()), "other": ["x"] * count}), target, **options)
    return target.getvalue()


def read_orc(body: bytes, rows: int) -> list[int]:
    found: list[int] = []
    for first, batch in orc_batches(*file_of(body, rows, "orc"), [N]):
        assert first == len(found)
        found += batch.column(batch.schema.get_field_index("n")).to_pylist()
    return found


def test_orc_by_stripes() -> None:
    """Batches are smaller than stripes; the next file is read by the same process."""
    assert read_orc(orc_file(100_000, stripe_size=65_536), 100_000) == list(range(100_000))
    (idle,) = reader._idle
    assert read_orc(orc_file(3), 3) == [0, 1, 2]
    assert reader._idle == [idle]


def test_a_caller_may_stop_within_an_orc_file() -> None:
    """Its process is ended, and the next file has another."""
    batches: Iterator[Any] = orc_batches(*file_of(orc_file(50_000), 50_000, "orc"), [N])
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert read_orc(orc_file(3), 3) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(3))
def test_damaged_orc(seed: int) -> None:
    """Flipped bits in a file of zstd: an error or the same rows, and this process lives."""
    body = orc_file(20_000, compression="zstd")
    random_ = random.Random(seed)
    failures = 0
    for _ in range(12):
        damaged = bytearray(body)
        damaged[random_.randrange(len(body))] ^= 1 << random_.randrange(8)
        try:
            assert read_orc(bytes(damaged), 20_000) == list(range(20_000))
        except FormatError:
            failures += 1
    assert failures


def test_damaged_parquet() -> None:
    """With the checksums that Paimon's writer adds, flipped bits are an error, or the rows are the same."""
    target = io.BytesIO()
    parquet.write_table(pa.table({"n": pa.array(range(2000), pa.int32())}), target, write_page_checksum=True)
    body = target.getvalue()
    random_ = random.Random(1)
    failures = 0
    for _ in range(60):
        damaged = bytearray(body)
        damaged[random_.randrange(len(body))] ^= 1 << random_.randrange(8)
        try:
            batches = list(parquet_batches(*file_of(bytes(damaged), 2000, "parquet"), [N]))
        except FormatError:
            failures += 1
        else:
            assert pa.Table.from_batches([batch for _, batch in batches])["n"].to_pylist() == list(range(2000))
    assert failures > 20


def test_an_orc_file_of_other_rows() -> None:
    """Positions in vectors depend on the number of rows."""
    with pytest.raises(FormatError, match="expected 4 rows, found 3"):
        read_orc(orc_file(3), 4)


AVRO = {
    "n": ("INT", ["null", "int"], [1, None, -5]),
    "t": ("TIMESTAMP(3)", ["null", {"type": "long", "logicalType": "timestamp-millis"}], [0, None, -1]),
    "d": ("DECIMAL(5, 2)", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}], []),
    "m": ({"type": "MAP", "key": "STRING", "value": "INT"}, ["null", {"type": "map", "values": ["null", "int"]}], []),
}


def avro_file(rows: list[dict[str, Any]], schema: Any, codec: str) -> bytes:
    target = io.BytesIO()
    fastavro.writer(target, schema, rows, codec=codec, sync_interval=50)
    return target.getvalue()


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_avro(codec: str) -> None:
    """NULLs, time stamps, small records, several blocks."""
    schema = {"type": "record", "name": "r", "fields": [
        {"name": name, "type": type_} for name, (_, type_, _) in AVRO.items()
    ]}  # fmt: skip
    rows = [{"n": n, "t": None, "d": None, "m": None if n % 3 else {"a": n, "b": None}} for n in range(3000)]
    rows[1] = dict.fromkeys(rows[1])
    body = avro_file(rows, fastavro.parse_schema(schema), codec)
    fields = [DataField(i, name, parse_data_type(type_, "")) for i, (name, (type_, _, _)) in enumerate(AVRO.items())]
    first, batches = 0, []
    for at, batch in avro_batches(*file_of(body, 3000, "avro"), fields):
        assert at == first
        first += batch.num_rows
        batches.append(batch)
    assert len(batches) > 5
    table = pa.Table.from_batches(batches)
    assert table["n"].to_pylist() == [row["n"] for row in rows]
    maps = shown(table["m"], fields[3].type)
    assert maps[0] == [["a", 0], ["b", None]]
    assert maps[1] is None
    with pytest.raises(FormatError):
        list(avro_batches(*file_of(body[:-1], 3000, "avro"), fields))


def test_an_object_that_is_replaced_meanwhile(tmp_path: Path) -> None:
    """Two reads must be of one object."""
    store = MemoryStore()
    store.put("f", b"12345678")
    source = ObjectFile(store, "f", 8)
    assert source.read(4) == b"1234"
    store.put("f", b"abcdefgh")
    with pytest.raises(FormatError, match="the same object"):
        source.read(4)


def test_text_that_is_not_utf_8() -> None:
    """Paimon casts bytes to text without a look at them; lines of text cannot hold them."""
    body = pa.py_buffer(b"\x8e")
    offsets = pa.array([0, 1], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.string(), 1, [None, offsets, body])
    batch = pa.RecordBatch.from_arrays([column], names=["s"])
    with pytest.raises(FormatError, match="not UTF-8"):
        list(json_lines(batch, [DataField(0, "s", DataType("VARCHAR", length=5))]))
