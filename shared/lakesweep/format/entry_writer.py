"""Entries of new data files for manifests: the only entries that Lakesweep does not copy.

Source: Paimon 1.4 `ManifestEntry`, `DataFileMeta`.
"""

import json
from dataclasses import dataclass

from lakesweep.format.avro.encoder import encode
from lakesweep.format.avro.record_schema import TEXTS, field, inner, nullable, statistics, text_of
from lakesweep.format.avro.schema import parse_avro_schema
from lakesweep.format.manifest import ADD, METADATA_VERSION, ManifestEntry
from lakesweep.format.raw_entries import RawEntry
from lakesweep.format.row_entries import ValueStats
from lakesweep.format.values.binary_row_writer import encode_row

_PATH = "a new manifest entry"
EMPTY_ROW = encode_row((), ())
"""The row without fields: the keys of files without a primary key."""
_NO_STATS = ValueStats(EMPTY_ROW, EMPTY_ROW, ())


_FILE = [
    field("_FILE_NAME", "string"),
    field("_FILE_SIZE", "long"),
    field("_ROW_COUNT", "long"),
    field("_MIN_KEY", "bytes"),
    field("_MAX_KEY", "bytes"),
    field("_KEY_STATS", statistics("record__FILE__KEY_STATS")),
    field("_VALUE_STATS", statistics("record__FILE__VALUE_STATS")),
    field("_MIN_SEQUENCE_NUMBER", "long"),
    field("_MAX_SEQUENCE_NUMBER", "long"),
    field("_SCHEMA_ID", "long"),
    field("_LEVEL", "int"),
    field("_EXTRA_FILES", TEXTS),
    nullable("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
    nullable("_DELETE_ROW_COUNT", "long"),
    nullable("_EMBEDDED_FILE_INDEX", "bytes"),
    nullable("_FILE_SOURCE", "int"),
    nullable("_VALUE_STATS_COLS", TEXTS),
    nullable("_EXTERNAL_PATH", "string"),
    nullable("_FIRST_ROW_ID", "long"),
    nullable("_WRITE_COLS", TEXTS),
]
_FIELDS = [
    field("_VERSION", "int"),
    field("_KIND", "int"),
    field("_PARTITION", "bytes"),
    field("_BUCKET", "int"),
    field("_TOTAL_BUCKETS", "int"),
    field("_FILE", inner("record__FILE", *_FILE)),
]
ENTRY_SCHEMA = text_of(_FIELDS)
"""The text that Java 1.4 writes."""
_TYPE = parse_avro_schema(json.loads(ENTRY_SCHEMA), _PATH)


@dataclass(frozen=True, slots=True)
class NewDataFile:
    """A data file that was just written."""

    name: str
    """Without a folder."""
    size_bytes: int
    rows: int
    stats: ValueStats
    stats_cols: tuple[str, ...] | None
    """The columns of the statistics; `None`: all."""
    schema_id: int
    min_sequence: int
    max_sequence: int
    creation_time_ms: int
    """The wall clock of the writers without its zone, in milliseconds as if it were UTC."""
    source: int
    """0: rows that were added. 1: a compaction wrote it."""
    level: int = 0
    """Always 0 without a primary key."""
    min_key: bytes = EMPTY_ROW
    """The primary key of its first row without the partition's keys, as one row."""
    max_key: bytes = EMPTY_ROW
    """That of its last row."""
    key_stats: ValueStats = _NO_STATS
    """Of the columns of this key, all of them."""
    delete_rows: int = 0
    """Rows that delete others."""


def new_entry(file: NewDataFile, partition: bytes, bucket: int, total_buckets: int) -> tuple[bytes, RawEntry]:
    """Return the ADD entry of a new data file, with the schema of its record.

    Args:
        file: The file.
        partition: The values of its partition as one row.
        bucket: Its bucket: 0 for tables without buckets.
        total_buckets: -1 for tables without buckets.

    Raises:
        FormatError: A value does not fit.
    """
    meta = {
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": file.rows,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats(file.key_stats),
        "_VALUE_STATS": _stats(file.stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": [],
        "_CREATION_TIME": file.creation_time_ms,
        "_DELETE_ROW_COUNT": file.delete_rows,
        "_EMBEDDED_FILE_INDEX": None,
        "_FILE_SOURCE": file.source,
        "_VALUE_STATS_COLS": None if file.stats_cols is None else list(file.stats_cols),
        "_EXTERNAL_PATH": None,
        "_FIRST_ROW_ID": None,
        "_WRITE_COLS": None,
    }
    record = encode(
        _TYPE,
        {
            "_VERSION": METADATA_VERSION,
            "_KIND": ADD,
            "_PARTITION": partition,
            "_BUCKET": bucket,
            "_TOTAL_BUCKETS": total_buckets,
            "_FILE": meta,
        },
        _PATH,
    )
    entry = ManifestEntry(
        True, partition, bucket, file.level, file.name, file.size_bytes, (), None, None, file.source, file.rows
    )
    return ENTRY_SCHEMA, RawEntry(record, entry, file.schema_id, file.creation_time_ms, None)


def _stats(stats: ValueStats) -> dict[str, object]:
    minimum, maximum, counts = stats
    return {"_MIN_VALUES": minimum, "_MAX_VALUES": maximum, "_NULL_COUNTS": None if counts is None else list(counts)}
