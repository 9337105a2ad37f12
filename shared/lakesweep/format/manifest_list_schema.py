"""The Avro schema of manifest lists, in which Lakesweep writes the records that it makes itself.

Source: Paimon `ManifestFileMeta`.
"""

import json

from lakesweep.format.avro.record_schema import TEXTS, field, nullable, statistics, text_of
from lakesweep.format.avro.schema import AvroType, parse_avro_schema

_FIELDS = [
    field("_VERSION", "int"),
    field("_FILE_NAME", "string"),
    field("_FILE_SIZE", "long"),
    field("_NUM_ADDED_FILES", "long"),
    field("_NUM_DELETED_FILES", "long"),
    field("_PARTITION_STATS", statistics("record__PARTITION_STATS")),
    field("_SCHEMA_ID", "long"),
    nullable("_MIN_BUCKET", "int"),
    nullable("_MAX_BUCKET", "int"),
    nullable("_MIN_LEVEL", "int"),
    nullable("_MAX_LEVEL", "int"),
    nullable("_MIN_ROW_ID", "long"),
    nullable("_MAX_ROW_ID", "long"),
]
_LATER_FIELDS = [
    nullable("_TOTAL_BUCKETS", "int"),
    nullable("_EXTRA_FILES", TEXTS),
]
"""Fields that later releases add at the end."""


LIST_SCHEMA = text_of(_FIELDS)
"""The text that Java 1.4 writes."""
FULL_LIST_SCHEMA = text_of([*_FIELDS, *_LATER_FIELDS])
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
