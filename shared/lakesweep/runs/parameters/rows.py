"""The operation that deletes rows, and its parameters."""

from lakesweep.runs.parameters.commits import CATALOG_LOCK, CATALOG_TYPE, COMMIT_OPTIONS
from lakesweep.runs.parameters.compaction import WRITING_OPTIONS
from lakesweep.runs.parameters.manifests import MANIFEST_OPTIONS
from lakesweep.runs.parameters.parameter import OPTIONS, Signature, flag, text
from lakesweep.runs.parameters.partitions import FALLBACK_REAPPEARS

WHERE = text(
    "where",
    "The rows to delete: a condition in Spark's SQL, such as \"price > 10 AND day = '2026-01-31'\". A row for which it "
    "is null stays.",
    is_plain=True,
)
WHERE_FILE = text(
    "where_file",
    "A file with the condition, so that its values are on no command line: a local path, s3://bucket/key, or - for "
    "standard input.",
    "PATH",
    is_own=True,
)
TIME_ZONE = text(
    "time_zone",
    "Time zone of times in the condition that have none, and of the writers' clocks, for the creation times of new "
    "files, such as Europe/Berlin; by default that of the fleet policy.",
    "ZONE",
)
CONFIRM = flag("confirm", "Accept a condition that is true for every row.", is_plain=True)
SHOW_ROWS = flag("show_rows", "Show five of the rows. They are stored nowhere.")
KEEP_CONDITION = flag(
    "keep_condition", "Keep the condition with its values in the report; by default only the names of its columns."
)
ENGINE = text(
    "engine",
    "What searches and rewrites data files: local (the default), this process; or spark, a Spark session, of "
    "spark-submit or on this machine.",
    "ENGINE",
    is_plain=True,
)
DELETE_ROWS = Signature(
    "delete-rows",
    (
        *(WHERE, WHERE_FILE, TIME_ZONE, CONFIRM, SHOW_ROWS, KEEP_CONDITION, ENGINE),
        *(CATALOG_TYPE, CATALOG_LOCK, FALLBACK_REAPPEARS, OPTIONS),
    ),
    WRITING_OPTIONS | MANIFEST_OPTIONS | COMMIT_OPTIONS,
    commits=True,
    needs_spark=True,
)
