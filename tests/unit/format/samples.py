"""Metadata files as writers of several releases make them, written by fastavro."""

import io
import json
from collections.abc import Callable, Iterable
from typing import Any

import fastavro

EMPTY_ROW = bytes(12)
EMPTY_STATS = {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": []}

Schema = Any


def nullable(type_: Schema) -> Schema:
    return ["null", type_]


def _field(name: str, type_: Schema) -> dict[str, Schema]:
    return {"name": name, "type": type_, "default": None} if isinstance(type_, list) else {"name": name, "type": type_}


def record(name: str, **fields: Schema) -> dict[str, Schema]:
    return {"type": "record", "name": name, "fields": [_field(key, type_) for key, type_ in fields.items()]}


def stats_schema(name: str) -> Schema:
    return record(
        name,
        _MIN_VALUES="bytes",
        _MAX_VALUES="bytes",
        _NULL_COUNTS=nullable({"type": "array", "items": ["null", "long"]}),
    )


def manifest_schema(wrap: Callable[[Schema], Schema] = lambda schema: schema, **later: Schema) -> Schema:
    """A data manifest of Paimon 0.8; `wrap` is applied to every record, `later` fields come at the end of `_FILE`."""
    file = record(
        "record__FILE",
        _FILE_NAME="string",
        _FILE_SIZE="long",
        _ROW_COUNT="long",
        _MIN_KEY="bytes",
        _MAX_KEY="bytes",
        _KEY_STATS=wrap(stats_schema("record__FILE__KEY_STATS")),
        _VALUE_STATS=wrap(stats_schema("record__FILE__VALUE_STATS")),
        _MIN_SEQUENCE_NUMBER="long",
        _MAX_SEQUENCE_NUMBER="long",
        _SCHEMA_ID="long",
        _LEVEL="int",
        _EXTRA_FILES={"type": "array", "items": "string"},
        _CREATION_TIME=nullable({"type": "long", "logicalType": "timestamp-millis"}),
        **later,
    )
    return wrap(
        record(
            "record",
            _VERSION="int",
            _KIND="int",
            _PARTITION="bytes",
            _BUCKET="int",
            _TOTAL_BUCKETS="int",
            _FILE=wrap(file),
        )
    )


LATER_FIELDS: dict[str, Schema] = {
    "_DELETE_ROW_COUNT": nullable("long"),
    "_EMBEDDED_FILE_INDEX": nullable("bytes"),
    "_FILE_SOURCE": nullable("int"),
    "_VALUE_STATS_COLS": nullable({"type": "array", "items": "string"}),
    "_EXTERNAL_PATH": nullable("string"),
    "_FIRST_ROW_ID": nullable("long"),
    "_WRITE_COLS": nullable({"type": "array", "items": "string"}),
}

NEW_MANIFEST = manifest_schema(**LATER_FIELDS)
OLD_MANIFEST = manifest_schema(nullable)
FUTURE_MANIFEST = manifest_schema(
    **LATER_FIELDS,
    _FROM_THE_FUTURE=nullable(
        record("future", a={"type": "map", "values": ["null", "double"]}, b={"type": "fixed", "name": "f", "size": 3})
    ),
)

MANIFEST_LIST = record(
    "record",
    _VERSION="int",
    _FILE_NAME="string",
    _FILE_SIZE="long",
    _NUM_ADDED_FILES="long",
    _NUM_DELETED_FILES="long",
    _PARTITION_STATS=stats_schema("record__PARTITION_STATS"),
    _SCHEMA_ID="long",
)
NEW_MANIFEST_LIST = {
    **MANIFEST_LIST,
    "fields": [
        *MANIFEST_LIST["fields"],
        *(_field(name, nullable("int")) for name in ("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL")),
        *(_field(name, nullable("long")) for name in ("_MIN_ROW_ID", "_MAX_ROW_ID")),
        _field("_TOTAL_BUCKETS", nullable("int")),
        _field("_EXTRA_FILES", nullable({"type": "array", "items": "string"})),
    ],
}


def index_schema(items: Callable[[Schema], Schema] = nullable, **later: Schema) -> Schema:
    vector = record("vector", f0="string", f1="int", f2="int", **later)
    return record(
        "record",
        _VERSION="int",
        _KIND="int",
        _PARTITION="bytes",
        _BUCKET="int",
        _INDEX_TYPE="string",
        _FILE_NAME="string",
        _FILE_SIZE="long",
        _ROW_COUNT="long",
        _DELETIONS_VECTORS_RANGES=nullable({"type": "array", "items": items(vector)}),
        _EXTERNAL_PATH=nullable("string"),
    )


def manifest_record(name: str = "data-1-0.parquet", *, kind: int = 0, **file: Any) -> dict[str, Any]:
    bucket = file.pop("_BUCKET", 0)
    return {
        "_VERSION": file.pop("_VERSION", 2),
        "_KIND": kind,
        "_PARTITION": file.pop("_PARTITION", EMPTY_ROW),
        "_BUCKET": bucket,
        "_TOTAL_BUCKETS": 2,
        "_FILE": {
            "_FILE_NAME": name,
            "_FILE_SIZE": 1234,
            "_ROW_COUNT": 10,
            "_MIN_KEY": EMPTY_ROW,
            "_MAX_KEY": EMPTY_ROW,
            "_KEY_STATS": EMPTY_STATS,
            "_VALUE_STATS": {**EMPTY_STATS, "_NULL_COUNTS": [0, None, 300]},
            "_MIN_SEQUENCE_NUMBER": 0,
            "_MAX_SEQUENCE_NUMBER": 9,
            "_SCHEMA_ID": 0,
            "_LEVEL": 0,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": 1_700_000_000_000,
            **file,
        },
    }


def list_record(name: str = "manifest-1-0", **fields: Any) -> dict[str, Any]:
    return {
        "_VERSION": 2,
        "_FILE_NAME": name,
        "_FILE_SIZE": 2000,
        "_NUM_ADDED_FILES": 2,
        "_NUM_DELETED_FILES": 1,
        "_PARTITION_STATS": {"_MIN_VALUES": b"min", "_MAX_VALUES": b"max", "_NULL_COUNTS": [0]},
        "_SCHEMA_ID": 0,
        **fields,
    }


def index_record(name: str = "index-1-0", **fields: Any) -> dict[str, Any]:
    return {
        "_VERSION": 1,
        "_KIND": 0,
        "_PARTITION": EMPTY_ROW,
        "_BUCKET": 0,
        "_INDEX_TYPE": "DELETION_VECTORS",
        "_FILE_NAME": name,
        "_FILE_SIZE": 33,
        "_ROW_COUNT": 1,
        "_DELETIONS_VECTORS_RANGES": [{"f0": "data-1-0.parquet", "f1": 1, "f2": 22}],
        **fields,
    }


def avro_file(schema: Schema, records: Iterable[Any], codec: str = "zstandard", sync_interval: int = 16_000) -> bytes:
    body = io.BytesIO()
    fastavro.writer(
        body, fastavro.parse_schema(schema), records, codec=codec, sync_interval=sync_interval, sync_marker=b"s" * 16
    )
    return body.getvalue()


def long(number: int) -> bytes:
    """Avro's variable-length number."""
    number = number << 1 ^ number >> 63
    out = b""
    while number > 127:
        out += bytes((number & 127 | 128,))
        number >>= 7
    return out + bytes((number,))


def container(schema: Schema, blocks: Iterable[tuple[int, bytes]], codec: bytes = b"null") -> bytes:
    """A container built by hand, so that its blocks can lie."""
    text = json.dumps(schema).encode()
    sync = b"s" * 16
    header = {b"avro.schema": text, b"avro.codec": codec}
    body = b"Obj\x01" + long(len(header))
    body += b"".join(long(len(part)) + part for item in header.items() for part in item) + long(0) + sync
    return body + b"".join(long(count) + long(len(data)) + data + sync for count, data in blocks)


SNAPSHOT: dict[str, Any] = {
    "version": 3,
    "id": 4,
    "schemaId": 1,
    "baseManifestList": "manifest-list-a-0",
    "baseManifestListSize": 884,
    "deltaManifestList": "manifest-list-a-1",
    "deltaManifestListSize": 984,
    "changelogManifestList": None,
    "indexManifest": "index-manifest-a-0",
    "commitUser": "user",
    "commitIdentifier": 9223372036854775807,
    "commitKind": "COMPACT",
    "timeMillis": 1760942466705,
    "logOffsets": {},
    "totalRecordCount": 10,
    "deltaRecordCount": -2,
    "changelogRecordCount": 0,
    "watermark": -9223372036854775808,
    "statistics": "stat-a-0",
    "properties": {"a": "b"},
    "nextRowId": 0,
    "uuid": "u",
    "operation": "SOMETHING_NEW",
    "fromTheFuture": [{"a": [1.5]}],
}
