"""Small documents that claim or become large ones: memory and time stay bounded, and the answer is one clear error.

What `tests/bad_bytes/test_bounds.py` and `tests/unit/format` try already is not tried again. Each attack runs in a
process of its own, whose memory and time are measured.
"""

import gzip
import hashlib
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.cache import read_cache
from lakesweep.control.lease import read_lease
from lakesweep.control.ndjson import unpack
from lakesweep.control.quarantine import read_quarantine
from lakesweep.errors import MaintenanceError
from lakesweep.format.manifest import live_entries, read_index_manifest, read_manifest, read_manifest_list
from lakesweep.operations.orphans.fan_out.documents import Scan, ScanDocuments
from lakesweep.table.inventory.manifest import read_inventory
from lakesweep.table.inventory.rows import list_inventory
from tests.attack.cage import Cage
from tests.support.memory_store import MemoryStore
from tests.support.metadata_schemas import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST
from tests.unit.format.samples import container, long, record

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")

MAX_GROWN_MB = 160
MAX_CPU_SECONDS = 10.0
MB = 1 << 20
THOROUGH = os.environ.get("LAKESWEEP_BAD_BYTES") == "all"
"""Every bomb for every reader; `make bad-bytes` says so, too."""


@pytest.fixture(scope="module")
def cage() -> Iterator[Cage]:
    with Cage() as made:
        yield made


def check(cage: Cage, function: str, *arguments: Any, max_grown_mb: int = MAX_GROWN_MB) -> str:
    """Run a function in the cage, and return what it said."""
    found = cage.run(f"{__name__}:{function}", *arguments)
    assert found.ended_by == 0, found
    assert found.grown_mb <= max_grown_mb, found
    assert found.cpu_seconds <= MAX_CPU_SECONDS, found
    assert isinstance(found.said, str) and len(found.said) < 2000 and found.said.isprintable(), found
    return found.said


def said_of(call: Callable[[], object]) -> str:
    """Return what a call came to."""
    try:
        return repr(call())
    except MaintenanceError as error:
        return f"{error.code}: {error}"


# Control documents.


@cache
def _gzipped(bomb: str) -> bytes:
    return gzip.compress(ROWS[bomb](), 1)


ROWS: dict[str, Callable[[], bytes]] = {
    "zeros": lambda: bytes(200 * MB),
    "one long text": lambda: b'{"key":"' + b"x" * (200 * MB) + b'"}\n',
    "small rows": lambda: b"{}\n" * (20 * MB),
    "a row of numbers": lambda: b'{"key":[' + b"0," * (40 * MB) + b"0]}\n",
    "a row of lists": lambda: b'{"key":[' + b"[]," * (10 * MB) + b"0]}\n",
    "empty lines": lambda: b"\n" * (200 * MB),
    "nesting": lambda: b'{"key":' + b"[" * (10 * MB),
    "a long number": lambda: b'{"key":' + b"9" * (30 * MB) + b"}\n",
}
SOME = ROWS if THOROUGH else ("small rows", "a row of lists")


def read_rows(data: bytes) -> str:
    """Read a part of a plan or ledger."""
    return said_of(lambda: len(list(unpack(data, "s3://control/part"))))


@pytest.mark.parametrize("bomb", ROWS)
def test_gzip_bombs_in_parts_of_plans_and_ledgers(cage: Cage, bomb: str) -> None:
    assert check(cage, "read_rows", _gzipped(bomb)).startswith("damaged: s3://control/part: expected ")


def read_seen(data: bytes) -> str:
    """Read what earlier scans saw."""
    area = ControlArea(MemoryStore("memory://control"), "s3://b/t")
    area.put("orphans.ndjson.gz", data)
    return said_of(lambda: len(read_quarantine(area).first_seen_ms))


@pytest.mark.parametrize("bomb", SOME)
def test_gzip_bombs_in_a_quarantine(cage: Cage, bomb: str) -> None:
    """It says nothing then, so that nothing goes by it."""
    assert check(cage, "read_seen", _gzipped(bomb)) == "0"


def read_remembered(data: bytes) -> str:
    """Read what earlier runs remembered."""
    area = ControlArea(MemoryStore("memory://control"), "s3://b/t")
    area.put("cache.bin", data)
    return said_of(lambda: len(read_cache(area)))


@pytest.mark.parametrize("bomb", SOME)
def test_zlib_bombs_in_a_memory(cage: Cage, bomb: str) -> None:
    """What cannot be read was not remembered."""
    assert check(cage, "read_remembered", zlib.compress(ROWS[bomb](), 1), max_grown_mb=300) == "0"


def bodies_and_a_header() -> bytes:
    """The longest memory that counts, and more names of objects than any table has."""
    rows = ",".join(f'["manifest/{"x" * 150}-{number}","e",0,0]' for number in range(90_000))
    header = '{"format_version":1,"table":"s3://b/t","identity":"","objects":[%s,["b","e",0,%d]]}\n'
    size = (64 * MB) - len(header % (rows, 10**8)) - 1000
    return (header % (rows, size)).encode() + bytes(size)


def test_the_longest_memory_fits_a_function(cage: Cage) -> None:
    """The smallest function has 512 MB, of which 150 are in use."""
    assert check(cage, "read_remembered", zlib.compress(bodies_and_a_header(), 1), max_grown_mb=250) == "90001"


def test_a_memory_of_twice_its_bound(cage: Cage) -> None:
    """It counts as not remembered, before it is unpacked."""
    head = b'{"format_version":1,"table":"s3://b/t","identity":"","objects":[["b","e",0,%d]]}\n' % (120 * MB)
    assert check(cage, "read_remembered", zlib.compress(head + bytes(120 * MB), 1)) == "0"


def read_lease_of(bomb: str) -> str:
    """Read a lease, which is not compressed."""
    area = ControlArea(MemoryStore("memory://control"), "s3://b/t")
    area.put("lease.json", PLAIN[bomb]())
    return said_of(lambda: read_lease(area))


PLAIN: dict[str, Callable[[], bytes]] = {
    "lists": lambda: b'{"a":[' + b"[]," * (5 * MB) + b"[]]}",
    "a long text": lambda: b'{"a":"' + b"x" * (70 * MB) + b'"}',
    "numbers": lambda: b'{"a":[' + b"1," * (20 * MB) + b"1]}",
}


@pytest.mark.parametrize("bomb", PLAIN)
def test_control_documents_that_are_not_compressed(cage: Cage, bomb: str) -> None:
    assert check(cage, "read_lease_of", bomb).startswith("damaged: memory://control/tables/")


def read_document(data: bytes) -> str:
    """Read a document of a scan by functions."""
    area = ControlArea(MemoryStore("memory://control"), "s3://b/t", root="scans")
    documents = ScanDocuments(area, "scan-1")
    area.put(documents.name("x"), data)
    return said_of(lambda: str(documents.read(Scan, "x")))


@pytest.mark.parametrize("bomb", SOME)
def test_gzip_bombs_in_documents_of_a_scan(cage: Cage, bomb: str) -> None:
    assert check(cage, "read_document", _gzipped(bomb)).startswith("damaged: ")


# Metadata.

READERS: dict[str, tuple[Any, Callable[[bytes, str], object]]] = {
    "list": (MANIFEST_LIST, read_manifest_list),
    "manifest": (MANIFEST, lambda data, path: live_entries([read_manifest(data, path)])),
    "index manifest": (INDEX_MANIFEST, read_index_manifest),
}


def read_metadata(kind: str, data: bytes) -> str:
    """Read a file of metadata."""
    return said_of(lambda: len(READERS[kind][1](data, "manifest/x")))


def _itself() -> Any:
    return record("r", _FILE={"type": "array", "items": "r"})


def _each_other() -> Any:
    return record("a", x=record("b", y=record("c", z=["null", "a"])))


def _doubling() -> Any:
    """2^40 fields in forty lines, by names that are used twice."""
    schema: Any = record("r0", a="int", b="int")
    for number in range(1, 41):
        schema = record(f"r{number}", a=schema, b=f"r{number - 1}")
    return schema


def _nested(kind: str, part: str, depth: int = 10_000) -> bytes:
    return b'{"type":"%s","%s":' % (kind.encode(), part.encode()) * depth + b'"int"' + b"}" * depth


def _nested_records(depth: int = 10_000) -> bytes:
    opening = b"".join(
        b'{"type":"record","name":"r%d","fields":[{"name":"f","type":' % number for number in range(depth)
    )
    return opening + b'"int"' + b"}]}" * depth


SCHEMAS: dict[str, Callable[[], Any]] = {
    "itself": _itself,
    "each other": _each_other,
    "2^40 fields": _doubling,
    "arrays in arrays": lambda: _nested("array", "items"),
    "maps in maps": lambda: _nested("map", "values"),
    "records in records": _nested_records,
    "types of types": lambda: b'{"type":' * 10_000 + b'"int"' + b"}" * 10_000,
    "unions in unions": lambda: b"[" * 10_000 + b'"int"' + b"]" * 10_000,
    "a union of thousands": lambda: ["int"] * 5_000,
    "a union of a union": lambda: [["null", "int"], ["null", "int"]],
    "a field twice": lambda: {"type": "record", "name": "r", "fields": [{"name": "_KIND", "type": "int"}] * 2},
    "a name twice": lambda: record("r", a=record("x", b="int"), c=record("x", d="string")),
    "a name of a megabyte": lambda: record("x" * MB, a="int"),
    "symbols": lambda: record("r", _FILE_NAME={"type": "enum", "name": "e", "symbols": ["x"] * 200_000}),
    "fixed of 2 GB": lambda: record("r", _FILE_NAME={"type": "fixed", "name": "f", "size": (1 << 31) - 1}),
    "a negative fixed": lambda: record("r", _FILE_NAME={"type": "fixed", "name": "f", "size": -1}),
    "no type": dict,
    "a number": lambda: 7,
    "empty arrays of nothing": lambda: record("r", x={"type": "array", "items": "null"}),
}


def _of_schema(schema: Any, block: bytes = b"\0" * 64) -> bytes:
    if not isinstance(schema, bytes):
        return container(schema, [(1, block)])
    header = long(1) + long(11) + b"avro.schema" + long(len(schema)) + schema + long(0)
    return b"Obj\x01" + header + b"s" * 16 + long(1) + long(len(block)) + block + b"s" * 16


@pytest.mark.parametrize("schema", SCHEMAS)
def test_schemas_that_nest_or_multiply(cage: Cage, schema: str) -> None:
    for kind in READERS:
        said = check(cage, "read_metadata", kind, _of_schema(SCHEMAS[schema]()))
        assert said.startswith(("damaged: manifest/x: ", "unsupported_schema: manifest/x: ")), said


def _bz2(data: bytes) -> bytes:
    import bz2

    return bz2.compress(data)


def _xz(data: bytes) -> bytes:
    import lzma

    return lzma.compress(data)


BLOCKS: dict[str, Callable[[Any], bytes]] = {
    "bzip2": lambda schema: container(schema, [(1, _bz2(bytes(4 * MB)))], b"bzip2"),
    "xz": lambda schema: container(schema, [(1, _xz(bytes(4 * MB)))], b"xz"),
    "lz4": lambda schema: container(schema, [(1, b"\xff" * 1000)], b"lz4"),
    "an unknown codec": lambda schema: container(schema, [(1, b"x")], b"x" * MB),
    "an array of -2^63 items": lambda schema: _items(long(-(1 << 63)) + long(0)),
    "an array of -1 items in 2^62 bytes": lambda schema: _items(long(-1) + long(1 << 62)),
    "an array of -1 items in -1 bytes": lambda schema: _items(long(-1) + long(-1)),
    "an array of 2^62 items": lambda schema: _items(long(1 << 62)),
    "arrays of one item without end": lambda schema: _items((long(1) + long(0)) * MB),
    "a text of -1 bytes": lambda schema: _text(long(-1)),
    "a text of 2^62 bytes": lambda schema: _text(long(1 << 62)),
    "a number without end": lambda schema: container(schema, [(1, b"\xff" * MB)]),
    "a header of a million entries": lambda schema: (
        b"Obj\x01" + long(1_000_000) + (long(1) + b"k" + long(1) + b"v") * 50_000 + long(0) + b"s" * 16
    ),
    "a header in a million parts": lambda schema: (
        b"Obj\x01" + (long(1) + long(1) + b"k" + long(1) + b"v") * 50_000 + long(0) + b"s" * 16
    ),
    "-2^63 records": lambda schema: container(schema, [(-(1 << 63), b"x")]),
}  # fmt: skip
"""By what they are; each takes the schema of its reader."""


def _items(data: bytes) -> bytes:
    file = record("f", _FILE_NAME="string", _EXTRA_FILES={"type": "array", "items": "string"})
    return container(record("r", _VERSION="int", _FILE=file), [(1, long(2) + long(1) + b"a" + data)])


def _text(data: bytes) -> bytes:
    return container(record("r", _VERSION="int", _FILE_NAME="string"), [(1, long(2) + data)])


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_that_claim_too_much(cage: Cage, block: str) -> None:
    for kind, (schema, _) in READERS.items():
        said = check(cage, "read_metadata", kind, BLOCKS[block](schema))
        assert said.startswith(("damaged: manifest/x: ", "unsupported_codec: manifest/x: ")), said


def test_empty_blocks_without_end(cage: Cage) -> None:
    """They are whole, and hold no record."""
    for kind, (schema, _) in READERS.items():
        assert check(cage, "read_metadata", kind, container(schema, [(0, b"")] * 50_000)) == "0"


def _orc(codec: str) -> bytes:
    import pyarrow
    from pyarrow import orc

    body = io.BytesIO()
    table = pyarrow.table({"_VERSION": [2] * 300_000, "_FILE_NAME": ["x" * 3000] * 300_000})
    orc.write_table(table, body, compression=codec, dictionary_key_size_threshold=1.0)
    return body.getvalue()


@pytest.mark.parametrize("codec", ["zlib", "zstd"] if THOROUGH else ["zlib"])
def test_orc_bombs(cage: Cage, codec: str) -> None:
    """They are decoded in a process of its own, which has limits; this one does not grow."""
    pytest.importorskip("pyarrow")
    said = check(cage, "read_metadata", "list", _orc(codec))
    assert said.startswith(("damaged: manifest/x: ", "unsupported: manifest/x: ")), said


# Inventories.


def read_rows_of_inventory(file_format: str, data: bytes) -> str:
    """List an inventory of one data file."""
    store = MemoryStore("s3://inventories")
    store.put("data", data)
    columns = "Bucket, Key, Size, LastModifiedDate, ETag"
    parquet = (
        "message s3.inventory { required binary bucket (STRING); required binary key (STRING); optional int64 size; "
        "optional int64 last_modified_date (TIMESTAMP(MILLIS,true)); optional binary e_tag (STRING); }"
    )
    manifest = {
        "sourceBucket": "b", "creationTimestamp": "1795000000000", "fileFormat": file_format,
        "fileSchema": columns if file_format == "CSV" else parquet,
        "files": [{"key": "data", "size": len(data), "MD5checksum": hashlib.md5(data).hexdigest()}],
    }  # fmt: skip
    body = json.dumps(manifest).encode()
    store.put("x/manifest.json", body)
    store.put("x/manifest.checksum", hashlib.md5(body).hexdigest().encode())
    inventory = read_inventory(store, "x/manifest.json", "b")
    return said_of(lambda: sum(map(len, list_inventory(inventory, store, "db/t/"))))


CSV: dict[str, Callable[[], bytes]] = {
    "zeros": lambda: bytes(200 * MB),
    "a line without end": lambda: b'"b","db/t/' + b"x" * (200 * MB),
    "columns without end": lambda: b'"",' * (100 * MB),
    "a quote without end": lambda: b'"b","' + b"x\n" * (50 * MB),
    "a quoted column of many lines": lambda: b'"b","' + b"x\n" * (50 * MB) + b'"\n',
}


@pytest.mark.parametrize("bomb", CSV)
def test_bombs_in_inventories_of_csv(cage: Cage, bomb: str) -> None:
    said = check(cage, "read_rows_of_inventory", "CSV", gzip.compress(CSV[bomb](), 1))
    assert said.startswith("inventory_damaged: "), said


def _parquet(keys: Any, **words: Any) -> bytes:
    import pyarrow
    from pyarrow import parquet

    count = len(keys)
    columns = {
        "bucket": ["b"] * count,
        "key": keys,
        "size": [1] * count,
        "last_modified_date": pyarrow.array([1_700_000_000_000] * count, pyarrow.timestamp("ms", "UTC")),
        "e_tag": ["e"] * count,
    }
    body = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), body, **{"compression": "gzip", "store_schema": False, **words})
    return body.getvalue()


def _long_keys(count: int, size: int, *, rows_each: int = 1) -> Any:
    import pyarrow

    texts = pyarrow.array(["db/t/" + str(number) + "x" * size for number in range(count)])
    places = pyarrow.array([row // rows_each for row in range(count * rows_each)], pyarrow.int32())
    return pyarrow.DictionaryArray.from_arrays(places, texts)


def _same_beginnings() -> bytes:
    keys = ["db/t/" + "x" * (4 * MB) + str(number) for number in range(64)]
    return _parquet(
        keys, use_dictionary=False, column_encoding={"key": "DELTA_BYTE_ARRAY"}, compression="none",
        data_page_size=256 * MB,
    )  # fmt: skip


SLOW = "long keys in a page each"
PARQUET: dict[str, Callable[[], bytes]] = {
    "eight long keys, each named often": lambda: _parquet(
        _long_keys(8, 16 * MB, rows_each=40), dictionary_pagesize_limit=256 * MB
    ),
    "a key of some MB, named often": lambda: _parquet(
        _long_keys(2, 3 * MB, rows_each=400), dictionary_pagesize_limit=64 * MB
    ),
    SLOW: lambda: _parquet(_long_keys(60, 12 * MB), use_dictionary=False, data_page_size=1, write_batch_size=1),
    "keys that repeat the one before": _same_beginnings,
    "a footer of many megabytes": lambda: _footer(b"\x19\xf9" + b"\xff\xff\xff\x07" + bytes(8 * MB)),
}


def _footer(footer: bytes) -> bytes:
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"


@cache
def _parquet_bomb(bomb: str) -> bytes:
    return PARQUET[bomb]()


@pytest.mark.parametrize("bomb", [pytest.param(bomb, marks=[pytest.mark.long] * (bomb == SLOW)) for bomb in PARQUET])
def test_bombs_in_inventories_of_parquet(cage: Cage, bomb: str) -> None:
    """A key of S3 has at most 1 024 bytes, whatever the dictionary or the footer says."""
    pytest.importorskip("pyarrow")
    said = check(cage, "read_rows_of_inventory", "Parquet", _parquet_bomb(bomb))
    assert said.startswith("inventory_damaged: "), said
