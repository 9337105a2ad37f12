"""Table options, by what they mean for the compaction of a table with a primary key.

An option either refuses the table, or the product follows it, or it changes nothing that a compaction does. An option
with an unknown name is refused if its name begins like one that decides about merging or files.

Source: Paimon 1.4.2 and 2.0 `CoreOptions`, `SchemaValidation`, `MergeTreeCompactManagerFactory`.
"""

import re
from dataclasses import dataclass

NO_VALUE = ()
"""Whatever the option says, the table is refused."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An option that refuses a table, unless its value is one of some."""

    option: str
    code: str
    why: str
    allowed: tuple[str, ...] = ("false",)
    """Values that change nothing, in lower case."""
    older: str | None = None
    """Why the table is also refused if only an older schema has the option. `None`: the latest schema decides, since
    nothing of the option remains in data files, or each file shows it."""


REFUSED = (
    Refused(
        "merge-engine", "merge_engine", "rows with the same key do not just replace each other", ("deduplicate",),
        "files of that schema may have parts of rows",
    ),
    Refused(
        "changelog-producer", "changelog_producer", "Paimon writes the changelog when it compacts", ("none", "input"),
        "changes of that schema may still wait for their changelog",
    ),
    Refused(
        "record-level.expire-time", "record_expiry", "rows expire when Paimon compacts", NO_VALUE,
        "new rows may have expired while older ones of their keys did not",
    ),
    Refused(
        "pk-clustering-override", "clustering_override", "data files are not sorted by their keys",
        older="files of that schema may be sorted by other columns",
    ),
    Refused(
        "sequence.snapshot-ordering", "snapshot_ordering", "the snapshot of a row decides before its sequence number",
        older="sequence numbers of that schema do not order rows",
    ),
    Refused(
        "lookup.remote-file.enabled", "remote_lookup_files", "Paimon keeps a look-up file beside each data file",
        older="data files of that schema may have one",
    ),
    Refused(
        "row-tracking.enabled", "row_tracking", "rows have ids that readers follow",
        older="rows of that schema may have ids",
    ),
    Refused(
        "data-evolution.enabled", "data_evolution", "the columns of a row may lie in several files",
        older="rows of that schema may",
    ),
    Refused(
        "clustering.incremental", "clustering", "its files lie on levels that do not order rows by age",
        older="files of that schema may",
    ),
    Refused(
        "primary-key.nullable", "nullable_key", "columns of the primary key may be null",
        older="keys of that schema may be null",
    ),
    Refused(
        "deletion-vectors.merge-on-read", "merge_on_read", "readers merge level 0, as only Paimon 2.0 and later do",
    ),
    Refused("file.format", "unsupported_file_format", "Lakesweep merges Parquet alone", ("parquet",)),
    Refused("file.format.per.level", "unsupported_file_options", "Lakesweep has one format", NO_VALUE),
    Refused("file.compression.per.level", "unsupported_file_options", "Lakesweep has one codec", NO_VALUE),
    Refused("metadata.stats-mode.per.level", "unsupported_file_options", "Lakesweep has one kind", NO_VALUE),
    Refused("data-file.external-paths", "external_paths", "data files lie outside of the table", ("",)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RefusedName:
    """Options that refuse a table whatever they say, by a pattern of their names."""

    pattern: re.Pattern[str]
    code: str
    why: str
    older: str | None = None
    """As for `Refused`."""


_HARMLESS_INDEX = r"file-index\.(?:read\.enabled|in-manifest-threshold)"
REFUSED_NAMES = (
    RefusedName(
        re.compile(r"fields\..+\.sequence-group"), "sequence_group", "groups of columns are merged one by one",
        "files of that schema may have parts of rows",
    ),
    RefusedName(
        re.compile(
            r"fields\.(?:default-aggregate-function|.+\.(?:aggregate-function|ignore-retract|nested-key|"
            r"nested-key-null-strategy|nested-sequence-field|count-limit|distinct|list-agg-delimiter|ts-field))"
        ),
        "aggregate_function", "values of several rows become one", "files of that schema may have parts of values",
    ),
    RefusedName(
        re.compile(rf"(?!{_HARMLESS_INDEX}$)file-index\..+"), "unsupported_file_options",
        "new data files would lack the index, which Lakesweep does not write",
    ),
)  # fmt: skip

IGNORE_DELETE = (
    "ignore-delete",
    "first-row.ignore-delete",
    "deduplicate.ignore-delete",
    "partial-update.ignore-delete",
)
"""The names of one option. The first one that is stated counts, whatever the merge engine."""
WRITE_ONLY = ("write-only", "write.compaction-skip")
"""The names of one option."""
SEQUENCE_FIELD = "sequence.field"
SORT_ORDER = "sequence.field.sort-order"
VECTORS = "deletion-vectors.enabled"
THIN = "data-file.thin-mode"
BUCKET = ("bucket", "-1")

FOLLOWED = frozenset(
    (
        # by these rules
        *IGNORE_DELETE, *WRITE_ONLY, SEQUENCE_FIELD, SORT_ORDER, VECTORS, THIN, BUCKET[0],
        # by the choice of files
        "num-levels", "num-sorted-run.compaction-trigger", "compaction.max-size-amplification-percent",
        "compaction.size-ratio", "compaction.total-size-threshold", "compaction.incremental-size-threshold",
        "compaction.force-up-level-0",
        # by what writes data files and vectors
        "target-file-size", "file.compression", "file.compression.zstd-level", "file.block-size", "data-file.prefix",
        "data-file.path-directory", "file.suffix.include.compression", "metadata.stats-mode",
        "metadata.stats-dense-store", "metadata.stats-keep-first-n-columns", "deletion-vectors.bitmap64",
        # by what commits: see `commit.allowed`
        "write.sequence-number-init-mode",
    )
)  # fmt: skip

HARMLESS = frozenset(
    (
        # They say when Paimon compacts, by the time of its own process, or what it does with append tables.
        "compaction.delete-ratio-threshold", "compaction.file-num-limit", "compaction.min.file-num",
        "compaction.offpeak-ratio", "compaction.offpeak.end.hour", "compaction.offpeak.start.hour",
        "compaction.optimization-interval", "compaction.small-file-ratio", "compaction.skip-expired-partitions",
        "force-lookup", "lookup-compact", "lookup-compact.max-interval", "lookup-wait",
        "changelog-producer.lookup-wait", "num-sorted-run.stop-trigger",
        # Paimon then rewrites files too that could stay as they are; their rows do not change.
        "compaction.force-rewrite-all-files",
        # Writers apply them before rows reach a file.
        "bucket-append-ordered", "bucket-function.type", "bucket-key", "ignore-update-before", "rowkind.field",
        # Readers apply them.
        "file-index.read.enabled", "key-value.sequence_number.enabled",
        # Files of Paimon's own process while it looks keys up.
        "lookup.cache-file-retention", "lookup.cache-max-disk-size", "lookup.cache-max-memory-size",
        "lookup.cache-rows", "lookup.cache-spill-compression", "lookup.cache.bloom.filter.enabled",
        "lookup.cache.bloom.filter.fpp", "lookup.cache.high-priority-pool-ratio", "lookup.hash-load-factor",
        "lookup.merge-buffer-size", "lookup.merge-records-threshold",
        # Flink's joins with the table.
        "lookup.blob-as-descriptor", "lookup.continuous.discovery-interval",
        # They mean something only beside an option that refuses the table.
        "aggregation.remove-record-on-delete", "changelog-producer.row-deduplicate",
        "changelog-producer.row-deduplicate-ignore-fields", "clustering.columns", "clustering.strategy",
        "clustering.history-partition.idle-to-full-sort", "clustering.history-partition.limit",
        "clustering.incremental.mode", "clustering.incremental.optimize-write",
        "data-file.external-paths.specific-fs", "data-file.external-paths.strategy",
        "data-file.external-paths.weights", "file-index.in-manifest-threshold", "lookup.remote-file.level-threshold",
        "partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group",
        "record-level.time-field",
        # All vectors of a bucket lie in one file, and only schema changes ask whether vectors may be switched.
        "deletion-vector.index-file.target-size", "deletion-vectors.modifiable",
        # The schema has the keys.
        "primary-key",
    )
)  # fmt: skip
_FIELD_STATISTICS = re.compile(r"fields\..+\.stats-mode")
_DECISIVE = (
    "aggregation.", "bucket", "changelog-producer", "clustering.", "compaction.", "data-file.", "deduplicate.",
    "deletion-vector", "fields.", "file-index.", "file.", "first-row.", "force-", "ignore-", "key-value.", "lookup",
    "merge-", "metadata.stats-", "num-", "partial-update.", "pk-", "primary-key", "record-level.", "rowkind.",
    "sequence.", "write-only", "write.sequence-",
)  # fmt: skip
"""Beginnings of names that decide how rows are merged, and what data files have."""
_RULED = frozenset(each.option for each in REFUSED) | FOLLOWED | HARMLESS


def is_unknown(option: str) -> bool:
    """Tell whether an option may decide about a compaction, in a way that these rules do not know."""
    if not option.startswith(_DECISIVE) or option in _RULED or _FIELD_STATISTICS.fullmatch(option):
        return False
    return not any(each.pattern.fullmatch(option) for each in REFUSED_NAMES)
