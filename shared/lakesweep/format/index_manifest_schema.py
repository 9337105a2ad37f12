"""The Avro schema of index manifests, for the first one of a table. Later ones keep the schema of the former.

Source: Paimon 1.4 `IndexFileMeta`, `IndexManifestEntry`, `AvroSchemaConverter`.
"""

import json
from typing import Any

from lakesweep.format.index_manifest_writer import RawIndex

_NAMESPACE = "org.apache.paimon.avro.generated"


def _nullable(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None}


def _field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_}


_RANGE = {
    "type": "record",
    "name": "record__DELETIONS_VECTORS_RANGES",
    "fields": [_field("f0", "string"), _field("f1", "int"), _field("f2", "int"), _nullable("_CARDINALITY", "long")],
}
_GLOBAL = {
    "type": "record",
    "name": "record__GLOBAL_INDEX",
    "fields": [
        _field("_ROW_RANGE_START", "long"),
        _field("_ROW_RANGE_END", "long"),
        _field("_INDEX_FIELD_ID", "int"),
        _nullable("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
        _nullable("_INDEX_META", "bytes"),
    ],
}
_FIELDS = [
    _field("_VERSION", "int"),
    _field("_KIND", "int"),
    _field("_PARTITION", "bytes"),
    _field("_BUCKET", "int"),
    _field("_INDEX_TYPE", "string"),
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_ROW_COUNT", "long"),
    _nullable("_DELETIONS_VECTORS_RANGES", {"type": "array", "items": ["null", _RANGE]}),
    _nullable("_EXTERNAL_PATH", "string"),
    _nullable("_GLOBAL_INDEX", _GLOBAL),
]
_TEXT = json.dumps(
    {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": _FIELDS}, separators=(",", ":")
).encode()


def first_index() -> RawIndex:
    """Return an index manifest without records, to write the first one of a table from."""
    return RawIndex("the first index manifest of a table", _TEXT, ())
