"""What one look at a table found to be lost, and how a commit leaves it out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.schema import TableSchema
from lakesweep.model.commits.partitions import PartitionSummary
from lakesweep.model.commits.repair import RepairReport
from lakesweep.model.partitions.names import partition_name, value_name
from lakesweep.operations.repair.vectors import Vectors
from lakesweep.table.contents.content import Content, Part, TextEntry, Values
from lakesweep.table.contents.contents import Contents
from lakesweep.table.paths import TablePaths

MANY = 0.5
"""A loss of more than this part of the table's files has to be accepted."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What is lost of one snapshot."""

    content: Content
    report: RepairReport
    removed: Mapping[str, frozenset[int]]
    """Manifest -> the places of the records that a rewritten one leaves out."""
    absent: frozenset[str]
    """Manifests that the new lists leave out, since they do not exist."""
    lost: tuple[str, ...]
    """The path of everything that does not exist. A commit asks for it once more before it publishes."""
    total_record_count: int
    vectors: Vectors
    warnings: tuple[str, ...] = ()
    needs: tuple[RefusedError, ...] = ()
    """Why a commit asks for `accept_loss`."""

    @property
    def is_empty(self) -> bool:
        """Nothing is to be left out."""
        return not self.lost


def entries_of(content: Content, part: Part) -> Iterator[tuple[int, TextEntry]]:
    """Yield the entries of one manifest, each with its place."""
    return enumerate(content.source.entries_of((part,), frozenset(part.tallies)))


def partition_in_words(schema: TableSchema, values: Values) -> str:
    """Return the name of a partition."""
    return partition_name(schema.partition_keys, schema.partition_types, values)


def values_in_words(schema: TableSchema, values: Values) -> Mapping[str, str | None]:
    """Return key -> value of a partition as text."""
    keys, types = schema.partition_keys, schema.partition_types
    return {key: value_name(value, type_) for key, type_, value in zip(keys, types, values, strict=True)}


def by_partition(
    schema: TableSchema, content: Content, entries: Sequence[ManifestEntry]
) -> tuple[PartitionSummary, ...]:
    """Return the lost rows by partition, those with the most rows first."""
    found: dict[bytes, list[ManifestEntry]] = {}
    for entry in entries:
        found.setdefault(entry.partition, []).append(entry)
    summaries = []
    for row, lost in found.items():
        values = content.source.values(row)
        summaries.append(
            PartitionSummary(
                partition_in_words(schema, values),
                values_in_words(schema, values),
                sum(entry.row_count for entry in lost),
                len(lost),
                sum(entry.file_size for entry in lost),
                why="missing",
            )
        )
    return tuple(sorted(summaries, key=lambda each: (-each.rows, each.partition)))


def paths_of(schema: TableSchema, contents: Contents) -> TablePaths:
    """Return where readers look for files.

    Raises:
        RefusedError: An option that decides it is not valid.
    """
    try:
        return TablePaths(schema)
    except FormatError as error:
        raise RefusedError(f"table {contents.table}: {error}", code="bad_option") from error
