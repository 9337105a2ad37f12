"""The Avro schema of manifest lists, in which Lakesweep writes the records that it makes itself.

Source: Paimon `ManifestFileMeta`, `SimpleStats`, `AvroSchemaConverter`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lakesweep.format.avro.schema import AvroType, parse_avro_schema

_NAMESPACE = "org.apache.paimon.avro.generated"


def _nullable(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None}


def _field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_}


_STATS = {
    "type": "record",
    "name": "record__PARTITION_STATS",
    "fields": [
        _field("_MIN_VALUES", "bytes"),
        _field("_MAX_VALUES", "bytes"),
        _nullable("_NULL_COUNTS", {"type": "array", "items": ["null", "long"]}),
    ],
}
_FIELDS = [
    _field("_VERSION", "int"),
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_NUM_ADDED_FILES", "long"),
    _field("_NUM_DELETED_FILES", "long"),
    _field("_PARTITION_STATS", _STATS),
    _field("_SCHEMA_ID", "long"),
    _nullable("_MIN_BUCKET", "int"),
    _nullable("_MAX_BUCKET", "int"),
    _nullable("_MIN_LEVEL", "int"),
    _nullable("_MAX_LEVEL", "int"),
    _nullable("_MIN_ROW_ID", "long"),
    _nullable("_MAX_ROW_ID", "long"),
]
_LATER_FIELDS = [
    _nullable("_TOTAL_BUCKETS", "int"),
    _nullable("_EXTRA_FILES", {"type": "array", "items": "string"}),
]
"""Fields that later releases add at the end."""


def _text(fields: Sequence[Mapping[str, Any]]) -> bytes:
    schema = {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": fields}
    return json.dumps(schema, separators=(",", ":")).encode()


LIST_SCHEMA = _text(_FIELDS)
"""The text that Java 1.4 writes."""
FULL_LIST_SCHEMA = _text([*_FIELDS, *_LATER_FIELDS])
"""With every field that Lakesweep knows."""


def fields_of(type_: AvroType) -> frozenset[str]:
    """Return the names of a record's fields, with those of the records inside it as `outer.inner`."""
    fields = plain(type_).fields
    inside = (f"{outer}.{inner}" for outer, part in fields for inner, _ in plain(part).fields)
    return frozenset((*(name for name, _ in fields), *inside))


def plain(type_: AvroType) -> AvroType:
    """Return a type, or what a union of null and that type may be."""
    if type_.kind != "union":
        return type_
    return next((branch for branch in type_.branches if branch.kind != "null"), type_)


LIST_TYPE = parse_avro_schema(json.loads(LIST_SCHEMA), "the schema of manifest lists")
FULL_LIST_TYPE = parse_avro_schema(json.loads(FULL_LIST_SCHEMA), "the schema of manifest lists")
LIST_FIELDS = fields_of(LIST_TYPE)
FULL_LIST_FIELDS = fields_of(FULL_LIST_TYPE)
