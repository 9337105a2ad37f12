"""The Avro schemas that Paimon's Java engine writes into its metadata files, with the engine's record names."""

from typing import Any

_NAMESPACE = "org.apache.paimon.avro.generated"


def _field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_}


def _nullable(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None}


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _root(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": list(fields)}


def _statistics(name: str) -> dict[str, Any]:
    return _record(
        name,
        _field("_MIN_VALUES", "bytes"),
        _field("_MAX_VALUES", "bytes"),
        _nullable("_NULL_COUNTS", _array(["null", "long"])),
    )


MANIFEST = _root(
    _field("_VERSION", "int"),
    _field("_KIND", "int"),
    _field("_PARTITION", "bytes"),
    _field("_BUCKET", "int"),
    _field("_TOTAL_BUCKETS", "int"),
    _field(
        "_FILE",
        _record(
            "record__FILE",
            _field("_FILE_NAME", "string"),
            _field("_FILE_SIZE", "long"),
            _field("_ROW_COUNT", "long"),
            _field("_MIN_KEY", "bytes"),
            _field("_MAX_KEY", "bytes"),
            _field("_KEY_STATS", _statistics("record__FILE__KEY_STATS")),
            _field("_VALUE_STATS", _statistics("record__FILE__VALUE_STATS")),
            _field("_MIN_SEQUENCE_NUMBER", "long"),
            _field("_MAX_SEQUENCE_NUMBER", "long"),
            _field("_SCHEMA_ID", "long"),
            _field("_LEVEL", "int"),
            _field("_EXTRA_FILES", _array("string")),
            _nullable("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
            _nullable("_DELETE_ROW_COUNT", "long"),
            _nullable("_EMBEDDED_FILE_INDEX", "bytes"),
            _nullable("_FILE_SOURCE", "int"),
            _nullable("_VALUE_STATS_COLS", _array("string")),
            _nullable("_EXTERNAL_PATH", "string"),
            _nullable("_FIRST_ROW_ID", "long"),
            _nullable("_WRITE_COLS", _array("string")),
            _nullable("_WRITE_COLS_SEQUENCES", _array("long")),
        ),
    ),
)

MANIFEST_LIST = _root(
    _field("_VERSION", "int"),
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_NUM_ADDED_FILES", "long"),
    _field("_NUM_DELETED_FILES", "long"),
    _field("_PARTITION_STATS", _statistics("record__PARTITION_STATS")),
    _field("_SCHEMA_ID", "long"),
    _nullable("_MIN_BUCKET", "int"),
    _nullable("_MAX_BUCKET", "int"),
    _nullable("_MIN_LEVEL", "int"),
    _nullable("_MAX_LEVEL", "int"),
    _nullable("_MIN_ROW_ID", "long"),
    _nullable("_MAX_ROW_ID", "long"),
)

INDEX_MANIFEST = _root(
    _field("_VERSION", "int"),
    _field("_KIND", "int"),
    _field("_PARTITION", "bytes"),
    _field("_BUCKET", "int"),
    _field("_INDEX_TYPE", "string"),
    _field("_FILE_NAME", "string"),
    _field("_FILE_SIZE", "long"),
    _field("_ROW_COUNT", "long"),
    _nullable(
        "_DELETIONS_VECTORS_RANGES",
        _array(
            [
                "null",
                _record(
                    "record__DELETIONS_VECTORS_RANGES",
                    _field("f0", "string"),
                    _field("f1", "int"),
                    _field("f2", "int"),
                    _nullable("_CARDINALITY", "long"),
                ),
            ]
        ),
    ),
    _nullable("_EXTERNAL_PATH", "string"),
    _nullable(
        "_GLOBAL_INDEX",
        _record(
            "record__GLOBAL_INDEX",
            _field("_ROW_RANGE_START", "long"),
            _field("_ROW_RANGE_END", "long"),
            _field("_INDEX_FIELD_ID", "int"),
            _nullable("_EXTRA_FIELD_IDS", _array("int")),
            _nullable("_INDEX_META", "bytes"),
            _nullable("_SOURCE_META", "bytes"),
        ),
    ),
)
