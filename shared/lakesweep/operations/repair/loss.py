"""What one look at a table found to be lost, how a commit leaves it out, and whether the caller accepts that.

A person accepts a loss by its id. Only a plan shows it, together with everything that is lost and with every doubt. So
nobody accepts what nobody saw, and an execution that finds another loss is refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from json import dumps

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
"""A loss of more than this part of the table's files is doubtful."""
_ID_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a loss may be none, or costs more than it seems."""

    code: str
    why: str
    is_of_versions: bool = False
    """Not everybody may see versions. So a plan and its execution may differ in this, and still find the same loss."""


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
    doubts: tuple[Doubt, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Nothing is to be left out."""
        return not self.lost

    @property
    def to_accept(self) -> frozenset[tuple[str, str]]:
        """Everything that a caller has to accept; empty if no rows are given up."""
        paths = [*(file.path for file in self.report.files), *(each.path for each in self.report.manifests)]
        doubts = (each.code for each in self.doubts if not each.is_of_versions)
        return frozenset({*(("lost", path) for path in paths), *(("doubt", code) for code in doubts)})

    @property
    def id(self) -> str | None:
        """By this a caller accepts exactly this loss; `None`: there is nothing to accept."""
        if not self.to_accept:
            return None
        return sha256(dumps(sorted(self.to_accept)).encode()).hexdigest()[:_ID_DIGITS]

    def unaccepted(self, table: str, given: str | None) -> RefusedError:
        """Return the refusal of a loss that the caller has not accepted. It says every doubt, but not the id."""
        files, manifests = self.report.files, self.report.manifests
        what = (
            f"{counted(len(manifests), 'manifest')} with {sum(each.added for each in manifests)} added files"
            if manifests
            else f"{counted(len(files), 'data file')} with {counted(sum(each.rows for each in files), 'row')}"
        )
        found = "none" if given is None else f"{given[:80]!r}, which is another loss"
        doubts = "".join(f". Doubt {number}: {each.why}" for number, each in enumerate(self.doubts, 1))
        return RefusedError(
            f"table {table}: the repair gives up {what}; expected accept_loss with the id that the plan shows, found "
            f"{found}. Plan without execute, look at everything that is lost, and restore what you can{doubts}",
            code="loss_not_accepted",
        )


def counted(count: int, what: str) -> str:
    """Return a number with its word."""
    return f"{count} {what}{'' if count == 1 else 's'}"


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
