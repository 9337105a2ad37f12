"""The Avro schema of index manifests, for the first one of a table. Later ones keep the schema of the former.

Source: Paimon 1.4 `IndexFileMeta`, `IndexManifestEntry`.
"""

from lakesweep.format.avro.record_schema import field, inner, nullable, text_of
from lakesweep.format.index_manifest_writer import RawIndex

_RANGE = inner(
    "record__DELETIONS_VECTORS_RANGES",
    field("f0", "string"),
    field("f1", "int"),
    field("f2", "int"),
    nullable("_CARDINALITY", "long"),
)
_GLOBAL = inner(
    "record__GLOBAL_INDEX",
    field("_ROW_RANGE_START", "long"),
    field("_ROW_RANGE_END", "long"),
    field("_INDEX_FIELD_ID", "int"),
    nullable("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
    nullable("_INDEX_META", "bytes"),
)
_FIELDS = [
    field("_VERSION", "int"),
    field("_KIND", "int"),
    field("_PARTITION", "bytes"),
    field("_BUCKET", "int"),
    field("_INDEX_TYPE", "string"),
    field("_FILE_NAME", "string"),
    field("_FILE_SIZE", "long"),
    field("_ROW_COUNT", "long"),
    nullable("_DELETIONS_VECTORS_RANGES", {"type": "array", "items": ["null", _RANGE]}),
    nullable("_EXTERNAL_PATH", "string"),
    nullable("_GLOBAL_INDEX", _GLOBAL),
]


def first_index() -> RawIndex:
    """Return an index manifest without records, to write the first one of a table from."""
    return RawIndex("the first index manifest of a table", text_of(_FIELDS), ())
