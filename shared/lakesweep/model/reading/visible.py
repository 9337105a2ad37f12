"""Which data files readers see, and whether their rows need a merge.

Lakesweep reads data files as they are. Of a primary-key table that is right in two cases. With deletion vectors, or if
the first row of a key wins, readers see the levels from 1 on, where each key has one visible row. Without, a bucket
must be compacted: all of its files lie on one level from 1 on, and none of them deletes rows of others.

Source: Paimon `MergeTreeSplitGenerator`, `DataTableBatchScan`, `CoreOptions#batchScanSkipLevel0`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lakesweep.format.manifest import POSTPONE_BUCKET
from lakesweep.format.row_entries import RowEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.options import parse_bool

DELETION_VECTORS = "deletion-vectors.enabled"
_MERGE_ON_READ = "deletion-vectors.merge-on-read"
_DATA_EVOLUTION = "data-evolution.enabled"
_CHAIN = "chain-table.enabled"
_MODE = "scan.mode"
_WHOLE_MODES = ("default", "latest", "latest-full", "full")
_VERSIONS = (
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.version",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.watermark",
    "scan.file-creation-time-millis",
    "scan.creation-time-millis",
    "incremental-between",
    "incremental-between-timestamp",
    "incremental-to-auto-tag",
)
_FALLBACKS = ("scan.fallback-branch", "scan.primary-branch")


class NotReadableError(Exception):
    """A version needs more than reading its files as they are."""

    def __init__(self, problem: str, code: str) -> None:
        super().__init__(problem)
        self.code = code


def check_options(options: Mapping[str, str], *, names_version: bool) -> None:
    """Make sure that the options of a table say nothing that this reader does not do.

    Args:
        options: Those of the latest schema.
        names_version: The caller has named a version, which counts more than one in the options.

    Raises:
        NotReadableError: They do.
        FormatError: An option does not parse.
    """
    if parse_bool(options.get(_CHAIN, "false"), _CHAIN):
        raise NotReadableError(f"{_CHAIN} is true, so its rows lie in several branches", "several_branches")
    for key in _FALLBACKS:
        if options.get(key):
            raise NotReadableError(
                f"option {key} is {options[key]!r}, so Paimon's readers also read that branch; expected rows of one "
                "branch",
                "several_branches",
            )

    stated = [key for key in _VERSIONS if options.get(key)]
    if options.get(_MODE, "default").lower() not in _WHOLE_MODES:
        stated.append(_MODE)
    if stated and not names_version:
        raise NotReadableError(
            f"option {stated[0]} is {options[stated[0]]!r}, so readers see another version than the latest; name the "
            "version to read",
            "version_in_options",
        )


def check_keys(schema: TableSchema, others: Iterable[TableSchema]) -> None:
    """Make sure that all data files have the columns of a primary-key table, or none has them.

    Args:
        schema: The version's.
        others: Those with which its files were written.

    Raises:
        NotReadableError: The table got or lost its primary key.
    """
    for other in others:
        if bool(other.primary_keys) != bool(schema.primary_keys):
            raise NotReadableError(
                f"some files were written {_keyed(other)} (schema {other.id}), and the version is {_keyed(schema)}, "
                "so their rows need a merge",
                "needs_merge",
            )


def _keyed(schema: TableSchema) -> str:
    return "with a primary key" if schema.primary_keys else "without a primary key"


def skips_level_0(options: Mapping[str, str]) -> bool:
    """Tell whether readers of a primary-key table leave out the files of level 0.

    Raises:
        FormatError: An option does not parse.
    """
    if parse_bool(options.get(DELETION_VECTORS, "false"), DELETION_VECTORS):
        return not parse_bool(options.get(_MERGE_ON_READ, "false"), _MERGE_ON_READ)
    return options.get("merge-engine", "").lower() == "first-row"


def check_buckets(files: Iterable[RowEntry]) -> None:
    """Make sure that each file belongs to a bucket.

    Raises:
        NotReadableError: Some wait for their bucket.
    """
    waiting = [each.entry.file_name for each in files if each.entry.bucket == POSTPONE_BUCKET]
    if waiting:
        raise NotReadableError(
            f"{len(waiting)} data files wait for their bucket, {waiting[0]} for example; compact the table first",
            "postponed_files",
        )


def check_raw(files: Sequence[RowEntry], *, skipped_level_0: bool) -> None:
    """Make sure that the files of a primary-key table can be read as they are.

    Args:
        files: Those that readers see.
        skipped_level_0: See `skips_level_0`.

    Raises:
        NotReadableError: A bucket needs a merge.
    """
    buckets: defaultdict[tuple[bytes, int], list[RowEntry]] = defaultdict(list)
    for each in files:
        buckets[each.entry.partition, each.entry.bucket].append(each)
    for (_, bucket), found in buckets.items():
        levels = sorted({each.entry.level for each in found})
        problem = None
        if levels[0] == 0:
            problem = "files of level 0"
        elif any(each.delete_row_count for each in found):
            problem = "files with rows that delete others"
        elif len(levels) > 1 and not skipped_level_0:
            problem = f"files of {len(levels)} levels"
        if problem:
            raise NotReadableError(
                f"bucket {bucket} has {problem} ({found[0].entry.file_name} for example), whose rows need a merge; "
                "compact the table first",
                "needs_merge",
            )


def check_evolution(options: Mapping[str, str], files: Sequence[RowEntry]) -> None:
    """Make sure that the columns of each row lie in one file.

    Raises:
        NotReadableError: Files hold different columns of the same rows.
        FormatError: An option does not parse.
    """
    if not parse_bool(options.get(_DATA_EVOLUTION, "false"), _DATA_EVOLUTION):
        return
    last, last_name = -1, ""
    numbered = [(each.first_row_id, each) for each in files if each.first_row_id is not None]
    for first, each in sorted(numbered, key=lambda pair: pair[0]):
        if first <= last:
            raise NotReadableError(
                f"{each.entry.file_name} and {last_name} hold columns of the same rows, which need a merge",
                "needs_merge",
            )
        last, last_name = first + each.entry.row_count - 1, each.entry.file_name
