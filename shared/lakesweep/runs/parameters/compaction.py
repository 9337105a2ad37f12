"""The operation that compacts data files, and its parameters."""

from lakesweep.runs.parameters.commits import CATALOG_LOCK, CATALOG_TYPE, COMMIT_OPTIONS
from lakesweep.runs.parameters.manifests import MANIFEST_OPTIONS
from lakesweep.runs.parameters.parameter import OPTIONS, Kind, Signature, age, flag, read_text, text
from lakesweep.runs.parameters.partitions import PARTITION as DROPPED

PARTITION = DROPPED.says(
    "Only these partitions: those with this value of each named key, such as dt=20240101,hr=08; repeatable."
)
BY_POLICY = flag(
    "by_policy", "Rewrite what the fleet policy lets passes compact (compaction), and nothing where it says nothing."
)
FULL = flag(
    "full", "Rewrite every data file that is not alone in its partition, or has deleted rows; with a primary key, "
    "merge all levels of each bucket. By default only where it pays."
)  # fmt: skip


def read_size(value: object, name: str) -> int:
    """Read a memory size such as `20 gb`."""
    from lakesweep.errors import FormatError, UsageError
    from lakesweep.format.values.options import parse_memory_bytes

    try:
        return parse_memory_bytes(read_text(value, name), name)
    except FormatError as error:
        raise UsageError(str(error).removeprefix("option "), code="bad_argument") from error


size: Kind[int | None] = Kind("memory size", read_size, None, "SIZE")
MAX_SIZE = size("max_size", "Rewrite so much at most, of all data files together, such as '20 gb' (64 gb).")
MAX_PARTITION_SIZE = size("max_partition_size", "Rewrite so much at most of the data files of each partition.")
PARTITION_IDLE_TIME = age(
    "partition_idle_time", "Only partitions whose newest data file was written longer ago than this, such as '1 d'."
)
SOLE_COMPACTOR = flag(
    "sole_compactor", "With a primary key: nobody else compacts this table, neither a writer nor another job. Needed "
    "where option write-only is not true."
)  # fmt: skip
TIME_ZONE = text(
    "time_zone",
    "Time zone of the writers' clocks, for the creation times of data files; by default that of the fleet policy. "
    "Without one, new files have times of UTC, and a partition is idle up to 12 hours later.",
    "ZONE",
)
ENGINE = text(
    "engine",
    "What rewrites data files: local (the default), this process; or spark, a Spark session, of spark-submit or on "
    "this machine.",
    "ENGINE",
    is_plain=True,
)
WRITING_OPTIONS = frozenset({"target-file-size", "file.compression", "file.block-size"})
"""Table options that say how data files are written."""
FILE_OPTIONS = WRITING_OPTIONS | {"compaction.min.file-num", "compaction.delete-ratio-threshold"}
"""Those that say which data files are rewritten, and how."""
COMPACT = Signature(
    "compact",
    (
        *(BY_POLICY, PARTITION, PARTITION_IDLE_TIME, FULL, MAX_SIZE, MAX_PARTITION_SIZE, SOLE_COMPACTOR),
        *(TIME_ZONE, ENGINE, CATALOG_TYPE, CATALOG_LOCK, OPTIONS),
    ),
    FILE_OPTIONS | MANIFEST_OPTIONS | COMMIT_OPTIONS,
    commits=True,
    needs_spark=True,
)
