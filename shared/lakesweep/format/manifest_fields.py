"""The fields of manifests, manifest lists and index manifests that Lakesweep reads."""

from lakesweep.format.avro.wants import Want

RAW = Want("", "raw")
"""The bytes of the whole record."""
_FILE = (
    Want("_LEVEL", "int", required=True),
    Want("_FILE_NAME", "string", required=True),
    Want("_FILE_SIZE", "int", required=True),
    Want("_EXTRA_FILES", "strings", required=True),
    Want("_EMBEDDED_FILE_INDEX", "bytes"),
    Want("_EXTERNAL_PATH", "string"),
    Want("_FILE_SOURCE", "int"),
    Want("_ROW_COUNT", "int", required=True),
)
_BEFORE_FILE = (
    Want("_VERSION", "int", required=True),
    Want("_KIND", "int", required=True),
    Want("_PARTITION", "bytes", required=True),
    Want("_BUCKET", "int", required=True),
)
ENTRY = (*_BEFORE_FILE, Want("_FILE", "record", required=True, fields=_FILE))
RAW_ENTRY = (
    *_BEFORE_FILE,
    Want(
        "_FILE",
        "record",
        required=True,
        fields=(
            *_FILE,
            Want("_SCHEMA_ID", "int", required=True),
            Want("_CREATION_TIME", "int"),
            Want("_FIRST_ROW_ID", "int"),
        ),
    ),
    RAW,
)
_STATS = (Want("_MIN_VALUES", "bytes"), Want("_MAX_VALUES", "bytes"), Want("_NULL_COUNTS"))
_ROW_FILE = (
    *_FILE,
    Want("_SCHEMA_ID", "int", required=True),
    Want("_DELETE_ROW_COUNT", "int"),
    Want("_FIRST_ROW_ID", "int"),
    Want("_WRITE_COLS", "strings"),
    Want("_MIN_SEQUENCE_NUMBER", "int"),
    Want("_CREATION_TIME", "int"),
)
_ROW_STATS = (Want("_VALUE_STATS", "record", fields=_STATS), Want("_VALUE_STATS_COLS", "strings"))
ROW_ENTRY = (*_BEFORE_FILE, Want("_FILE", "record", required=True, fields=_ROW_FILE))
"""What a reader of rows needs of each entry."""
ROW_ENTRY_WITH_STATS = (*_BEFORE_FILE, Want("_FILE", "record", required=True, fields=(*_ROW_FILE, *_ROW_STATS)))
"""The same with what a condition needs."""
_KEYS = (
    Want("_MIN_KEY", "bytes", required=True),
    Want("_MAX_KEY", "bytes", required=True),
    Want("_MAX_SEQUENCE_NUMBER", "int", required=True),
)
KEYED_ENTRY = (
    *_BEFORE_FILE,
    Want("_FILE", "record", required=True, fields=(*_ROW_FILE, *_KEYS)),
    Want("_TOTAL_BUCKETS", "int", required=True),
)
"""What a compaction of a table with a primary key needs."""
_FACTS_OF_FILE = (
    Want("_LEVEL", "natural", required=True),
    Want("_FILE_SIZE", "int", required=True),
    Want("_ROW_COUNT", "int", required=True),
    Want("_FIRST_ROW_ID", "int"),
)
FACTS = (*_BEFORE_FILE, Want("_FILE", "record", required=True, fields=_FACTS_OF_FILE))
DATED_FACTS = (
    *_BEFORE_FILE,
    Want("_FILE", "record", required=True, fields=(*_FACTS_OF_FILE, Want("_CREATION_TIME", "int"))),
)
_OF_A_COPY = (
    Want("_LEVEL", "int", required=True),
    Want("_SCHEMA_ID", "int", required=True),
    Want("_ROW_COUNT", "int", required=True),
    Want("_FIRST_ROW_ID", "int"),
)
_BEFORE_COPY = (Want("_PARTITION", "bytes", required=True), Want("_BUCKET", "int", required=True))
COPY = (*_BEFORE_COPY, Want("_FILE", "record", required=True, fields=_OF_A_COPY), RAW)
"""What the list record of a new manifest needs of each entry. The first two bytes of `RAW` are version and kind."""
IDENTIFIED_COPY = (
    *_BEFORE_COPY,
    Want(
        "_FILE",
        "record",
        required=True,
        fields=(
            *_OF_A_COPY,
            Want("_FILE_NAME", "string", required=True),
            Want("_EXTRA_FILES", "strings", required=True),
            Want("_EMBEDDED_FILE_INDEX", "bytes"),
            Want("_EXTERNAL_PATH", "string"),
        ),
    ),
    RAW,
)
"""The same with the rest of an entry's identity."""
NAMES = (
    Want("_VERSION", "int", required=True),
    Want("_KIND", "int", required=True),
    Want("_BUCKET", "int", required=True),
    Want(
        "_FILE",
        "record",
        required=True,
        fields=(
            Want("_FILE_NAME", "string", required=True),
            Want("_EXTRA_FILES", "strings", required=True),
            Want("_EXTERNAL_PATH", "string"),
            Want("_LEVEL", "natural", required=True),
            Want("_FILE_SIZE", "natural", required=True),
            Want("_ROW_COUNT", "natural", required=True),
        ),
    ),
)
MANIFEST = (
    Want("_VERSION", "int", required=True),
    Want("_FILE_NAME", "string", required=True),
    Want("_FILE_SIZE", "int", required=True),
    Want("_NUM_ADDED_FILES", "int", required=True),
    Want("_NUM_DELETED_FILES", "int", required=True),
    Want("_SCHEMA_ID", "int", required=True),
    Want("_PARTITION_STATS", "record", fields=(Want("_MIN_VALUES", "bytes"), Want("_MAX_VALUES", "bytes"))),
    Want("_EXTRA_FILES", "strings"),
    Want("_MIN_BUCKET", "int"),
    Want("_MAX_BUCKET", "int"),
    Want("_MIN_LEVEL", "int"),
    Want("_MAX_LEVEL", "int"),
    Want("_MIN_ROW_ID", "int"),
    Want("_MAX_ROW_ID", "int"),
    Want("_TOTAL_BUCKETS", "int"),
)
INDEX = (
    Want("_VERSION", "int", required=True),
    Want("_KIND", "int", required=True),
    Want("_PARTITION", "bytes", required=True),
    Want("_BUCKET", "int", required=True),
    Want("_INDEX_TYPE", "string", required=True),
    Want("_FILE_NAME", "string", required=True),
    Want("_FILE_SIZE", "int", required=True),
    Want("_ROW_COUNT", "int", required=True),
    Want("_EXTERNAL_PATH", "string"),
    Want(
        "_DELETIONS_VECTORS_RANGES",
        "records",
        fields=(
            Want("f0", "string", required=True),
            Want("f1", "int", required=True),
            Want("f2", "int", required=True),
            Want("_CARDINALITY", "int"),
        ),
    ),
)
