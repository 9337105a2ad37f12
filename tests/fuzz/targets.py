"""What is fuzzed: for each decoder a function that takes any bytes, and inputs to begin with.

A function may raise what its decoder documents, and nothing else. The first inputs come from tables that the tests
build, so there is no folder of files to keep up to date.
"""

import gzip
import io
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cache

from lakesweep.aws.events import hints_of_event, hints_of_message
from lakesweep.control.area import ControlArea
from lakesweep.control.ndjson import pack, unpack
from lakesweep.control.plans import load_plan, store_plan
from lakesweep.errors import FormatError, MaintenanceError, StorageError, UnsupportedFormatError
from lakesweep.format.avro.container import read_container
from lakesweep.format.documents import parse_changelog, parse_consumer, parse_hint
from lakesweep.format.keyed_entries import read_keyed_entries
from lakesweep.format.manifest import live_entries, read_index_manifest, read_manifest, read_manifest_list
from lakesweep.format.orc.frame import check_frame
from lakesweep.format.schema import parse_schema
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.format.tag import parse_tag
from lakesweep.format.values import json_document, options, uri
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataType, parse_data_type
from lakesweep.format.values.partition_path import partition_path
from lakesweep.format.vectors.vector import read_vector, vector_of
from lakesweep.storage.list_page import parse_page
from tests.bad_bytes.worlds import BUILT, built_world
from tests.support.binary_row import encode_row
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.metadata_schemas import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST

PATH = "manifest/fuzzed"


@dataclass(frozen=True)
class Target:
    """One decoder."""

    run: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    errors: tuple[type[Exception], ...] = (FormatError, UnsupportedFormatError)
    """What may be raised."""
    quotes_python: bool = False
    """Messages repeat what Python said about the input, whatever is in it."""

    def take(self, data: bytes) -> None:
        """Decode; whatever else is raised is a finding."""
        try:
            self.run(data)
        except self.errors as error:
            text = str(error)
            if not self.quotes_python and not (text.isprintable() and 0 < len(text) < 2000):
                raise AssertionError(f"no sentence: {text[:3000]!r}") from error


# Documents.


def _documents(*parts: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        worlds = [built_world(name) for name in BUILT]
        return [world.body(path) for world in worlds for path in world.metadata if any(part in path for part in parts)]

    return seeds


def _texts(*texts: str) -> Callable[[], list[bytes]]:
    return lambda: [text.encode() for text in texts]


# Deletion vectors: magic and bitmap, framed with a length and a CRC that fit.


def _vector(data: bytes) -> None:
    vector = read_vector(struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data)), None, PATH)
    positions = vector.positions()
    assert len(positions) == vector.cardinality
    assert vector.last == (positions[-1] if positions else -1)
    beginning = vector.deleted(0, 1 << 17)
    assert int.from_bytes(beginning, "little").bit_count() == sum(position < 1 << 17 for position in positions)


def _vector_seeds() -> list[bytes]:
    rows = ([], [1, 70_000], [*range(100), 200, *range(500, 700)], range(0, 9_000, 2))
    return [bytes(vector_of(each, width).blob[4:-4]) for each in rows for width in (32, 64)]


# Metadata files: whole ones, and records behind a header that is sound.


def _read_container(data: bytes) -> None:
    for _ in read_container(data, PATH).blocks():
        pass


def _records(schema: object, read: Callable[[bytes, str], object]) -> Callable[[bytes], None]:
    header = _header(schema)

    def run(data: bytes) -> None:
        if data:
            read(header + _long(data[0]) + _long(len(data) - 1) + data[1:] + header[-16:], PATH)

    return run


def _header(schema: object) -> bytes:
    text = json.dumps(schema).encode()
    entry = _long(11) + b"avro.schema" + _long(len(text)) + text
    return b"Obj\x01" + _long(1) + entry + _long(0) + b"s" * 16


def _long(number: int) -> bytes:
    number <<= 1
    found = b""
    while number > 127:
        found += bytes((number & 127 | 128,))
        number >>= 7
    return found + bytes((number,))


def _record_seeds(*parts: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        found = []
        for body in _documents(*parts)():
            for count, data in read_container(body, PATH).blocks():
                found.append(bytes((count % 256,)) + data)
        return found

    return seeds


def _read_whole_manifest(data: bytes, path: str) -> None:
    live_entries([read_manifest(data, path)])


def _orc(data: bytes) -> None:
    """Decode in the process that ORC has of its own. That damage may end that process is how it is meant to be."""
    from lakesweep.format import metadata_file
    from lakesweep.format.avro.projection import Want

    wants = (Want("_VERSION", "int"), Want("_FILE", "record", fields=(Want("_FILE_NAME", "string"),)))
    list(metadata_file.read_rows(b"ORC" + data[3:], PATH, wants, None))


def _orc_seeds() -> list[bytes]:
    import pyarrow
    from pyarrow import orc

    rows = [{"_VERSION": 2, "_FILE": {"_FILE_NAME": f"data-{number}", "_EXTRA_FILES": ["a"]}} for number in range(40)]
    found = []
    for compression in ("uncompressed", "zlib", "zstd", "snappy", "lz4"):
        for table in (pyarrow.Table.from_pylist(rows), pyarrow.Table.from_pylist(rows[:1])):
            body = io.BytesIO()
            orc.write_table(table, body, compression=compression)
            found.append(body.getvalue())
    return found


# Values.

_ROW_TYPES = tuple(
    DataType(root, precision=precision, scale=scale)
    for root, precision, scale in (
        ("INT", None, None), ("VARCHAR", None, None), ("BIGINT", None, None), ("DECIMAL", 10, 2), ("DECIMAL", 30, 5),
        ("TIMESTAMP", 3, None), ("TIMESTAMP", 9, None), ("TIMESTAMP_LTZ", 6, None), ("DATE", None, None),
        ("TIME", 3, None), ("FLOAT", None, None), ("DOUBLE", None, None), ("BOOLEAN", None, None),
        ("TINYINT", None, None), ("SMALLINT", None, None), ("BINARY", None, None), ("CHAR", None, None),
        ("ARRAY", None, None),
    )
)  # fmt: skip


def _row(data: bytes) -> tuple[tuple[DataType, ...], tuple[object, ...]]:
    types = tuple(_ROW_TYPES[number % len(_ROW_TYPES)] for number in data[1 : 1 + data[0] % 5]) if data else ()
    return types, decode_row(data[1 + len(types) :], types, PATH)


def _partition(data: bytes) -> None:
    types, values = _row(data)
    for legacy_name in (True, False):
        try:
            path = partition_path([f"k{n}" for n in range(len(types))], types, values, legacy_name=legacy_name)
        except UnsupportedFormatError:
            continue
        assert path.count("/") == len(types), path
        assert not {"", ".", ".."} & set(path.split("/")[:-1]), path


def _row_seeds() -> list[bytes]:
    rows: list[tuple[list[int], list[str], list[object]]] = [
        ([0], ["INT"], [7]),
        ([1], ["STRING"], ["2026-01-01"]),
        ([1, 2], ["STRING", "BIGINT"], [None, -1]),
        ([8, 12], ["DATE", "BOOLEAN"], [date(2026, 1, 1), True]),
    ]
    return [bytes((len(n), *n)) + encode_row(types, values) for n, types, values in rows]


def _options(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    parsers: tuple[Callable[[str, str], object], ...] = (
        options.parse_duration_ns, options.parse_duration_ms, options.parse_memory_bytes, options.parse_int,
        options.parse_long, options.parse_bool,
    )  # fmt: skip
    for parse in parsers:
        try:
            parse(text, "key")
        except FormatError as error:
            assert str(error).isprintable()


def _uri(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    uri.check_external_path(text, PATH, "_EXTERNAL_PATH")
    normal = uri.normalise_uri(text)
    assert uri.normalise_uri(normal) == normal


def _data_type(data: bytes) -> None:
    parse_data_type(json_document.parse_value(data, PATH), PATH)


# What we store, and what others send.


def _ndjson(data: bytes) -> None:
    for body in (data, gzip.compress(data, 1)):
        try:
            list(unpack(body, PATH))
        except FormatError as error:
            assert str(error).isprintable()


@cache
def _stored_plan() -> tuple[str, str, dict[str, bytes]]:
    store, outside = built_world("appends").stores()
    maintainer = Maintainer(store, open_store=lambda location: outside, control=MemoryStore("memory://control"))
    plan = maintainer.plan(2, 2).plan
    assert plan is not None
    control = MemoryStore("memory://control")
    store_plan(ControlArea(control, store.location), plan)
    return plan.header.plan_id, store.location, {entry.key: control.read(entry.key).data for entry in control.list("")}


def _plan(data: bytes) -> None:
    plan_id, location, bodies = _stored_plan()
    control = MemoryStore("memory://control")
    for key, body in bodies.items():
        control.put(key, body)
    key = sorted(bodies)[data[0] % len(bodies)] if data else min(bodies)
    control.put(key, gzip.compress(data[1:], 1) if key.endswith(".gz") else data[1:])
    load_plan(ControlArea(control, location), plan_id)


def _plan_seeds() -> list[bytes]:
    bodies = _stored_plan()[2]
    return [
        bytes((number,)) + (gzip.decompress(bodies[key]) if key.endswith(".gz") else bodies[key])
        for number, key in enumerate(sorted(bodies))
    ]


def _event(data: bytes) -> None:
    hints_of_message(data, "message")
    hints_of_event(json_document.parse_object(data, "event"))


_PAGE = (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><IsTruncated>false</IsTruncated>'
    "<EncodingType>url</EncodingType><Contents><Key>a%2Fb</Key><Size>1</Size><ETag>&quot;e&quot;</ETag>"
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"
)
_NOTIFICATION = (
    '{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","eventName":"ObjectCreated:Put","s3":{"bucket":'
    '{"name":"b"},"object":{"key":"db.db/t/snapshot/snapshot-5"}}}]}'
)
_EVENT = (
    '{"source":"aws.s3","detail-type":"Object Created","detail":{"bucket":{"name":"b"},"object":'
    '{"key":"db.db/t/branch/branch-x/snapshot/snapshot-5"}}}'
)

_TYPES = (
    '"INT NOT NULL"',
    '"DECIMAL(10, 2)"',
    '{"type":"ARRAY","element":"TIMESTAMP(3) WITH LOCAL TIME ZONE"}',
    '{"type":"MAP NOT NULL","key":"STRING","value":{"type":"ROW","fields":[{"id":0,"name":"a","type":"INT"}]}}',
    '"VECTOR<FLOAT, 3>"',
)

TARGETS = {
    "snapshot": Target(lambda data: parse_snapshot(data, PATH), _documents("snapshot/snapshot-")),
    "tag": Target(lambda data: parse_tag(data, PATH), _documents("tag/tag-")),
    "changelog": Target(lambda data: parse_changelog(data, PATH), _documents("changelog/changelog-")),
    "consumer": Target(lambda data: parse_consumer(data, PATH), _documents("consumer/")),
    "schema": Target(lambda data: parse_schema(data, PATH), _documents("schema/schema-")),
    "hint": Target(parse_hint, _texts("1", "42", "0", "-1")),
    "avro": Target(_read_container, _documents("manifest/")),
    "manifest-list": Target(
        lambda data: read_manifest_list(data, PATH), _documents("manifest/manifest-list-")
    ),
    "manifest": Target(lambda data: _read_whole_manifest(data, PATH), _documents("manifest/manifest-")),
    "keyed-manifest": Target(
        lambda data: tuple(read_keyed_entries(data, PATH)), _documents("manifest/manifest-")
    ),
    "index-manifest": Target(lambda data: read_index_manifest(data, PATH), _documents("manifest/index-manifest-")),
    "list-records": Target(_records(MANIFEST_LIST, read_manifest_list), _record_seeds("manifest/manifest-list-")),
    "manifest-records": Target(_records(MANIFEST, _read_whole_manifest), _record_seeds("manifest/manifest-")),
    "keyed-records": Target(
        _records(MANIFEST, lambda data, path: tuple(read_keyed_entries(data, path))),
        _record_seeds("manifest/manifest-"),
    ),
    "index-records": Target(_records(INDEX_MANIFEST, read_index_manifest), _record_seeds("manifest/index-manifest-")),
    "deletion-vector": Target(_vector, _vector_seeds),
    "orc-frame": Target(lambda data: check_frame(data, PATH), _orc_seeds),
    "orc": Target(_orc, _orc_seeds),
    "binary-row": Target(_row, _row_seeds),
    "partition-path": Target(_partition, _row_seeds),
    "data-type": Target(_data_type, _texts(*_TYPES)),
    "options": Target(_options, _texts("1 d", "10min", "500", "128 mb", "true", "-7", "9223372036854775807")),
    "uri": Target(_uri, _texts("s3a://b/p/f.parquet", "FILE:/tmp/x/f", "/tmp//x/f", "file:///a/b")),
    "ndjson": Target(_ndjson, lambda: [pack([{"a": 1}, {"b": "c"}]), b'{"a": 1}\n{"b": "c"}\n']),
    "plan": Target(_plan, _plan_seeds, (MaintenanceError,), quotes_python=True),
    "events": Target(_event, _texts(_NOTIFICATION, _EVENT, json.dumps({"Records": [{"body": _EVENT}]}))),
    "list-page": Target(parse_page, _texts(_PAGE), (StorageError,)),
}  # fmt: skip
