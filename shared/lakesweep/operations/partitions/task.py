"""What a call takes out of a table, and what a report says of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.schema import TableSchema
from lakesweep.model.commits.partitions import PartitionsReport, PartitionSummary
from lakesweep.model.partitions.expiry import Due
from lakesweep.model.partitions.names import partition_name, value_name
from lakesweep.operations.partitions.deletion import Gone, Removed
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.table.contents.content import Content, Values
from lakesweep.table.contents.contents import Contents

_MANY = 0.5
"""An unattended call warns when it takes out more than this part of the table's files."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The partitions to take out of one snapshot."""

    due: tuple[Due, ...]
    """In the order in which they are taken out."""
    index_rows: frozenset[bytes] = frozenset()
    """Partitions without files that an index names."""
    not_due: Mapping[str, int] = field(default_factory=dict)
    due_later: int = 0
    next_due_ms: int | None = None
    warnings: tuple[str, ...] = ()


Choose = Callable[[Content, RawIndex | None], Selection]


@dataclass(frozen=True, slots=True)
class Task:
    """What to take out of a table, and how."""

    operation: str
    arguments: Mapping[str, object]
    catalog: Catalog
    contents: Contents
    choose: Choose
    options: Mapping[str, str]
    """The table's options, overridden by the call's."""
    matches: Callable[[Values], bool] | None = None
    """Tells which partitions of any snapshot the call names; `None`: it names none."""
    fallback_reappears: bool = False
    batch_size: int | None = None
    """Partitions of one commit; `None`: all."""
    unattended: bool = False


def check_allowed(task: Task, base: Base) -> tuple[str, ...]:
    """Return the warnings of a commit that a table allows.

    Raises:
        RefusedError: The table does not allow it.
    """
    newest = base.root
    return refuse_commit(base.schema, newest.snapshot, newest.body, task.catalog.type, "drop", task.fallback_reappears)


def rows_of(due: Sequence[Due]) -> frozenset[bytes]:
    """Return the partitions themselves."""
    return frozenset(each.facts.row for each in due)


def summary_of(
    schema: TableSchema, task: Task, content: Content, selection: Selection, removed: Removed
) -> PartitionsReport:
    """Return what a report says of the partitions to take out.

    A file that waits for its bucket may stay (`removed_of`), so only files that go are counted.
    """
    return PartitionsReport(
        partitions=tuple(_partition(schema, each, removed.gone.get(each.facts.row, Gone())) for each in selection.due),
        rows=removed.row_count,
        files=removed.file_count,
        bytes=removed.size_bytes,
        live_files=content.file_count,
        not_due=selection.not_due,
        due_later=selection.due_later,
        next_due_ms=selection.next_due_ms,
        catalog=task.catalog.type,
        dangling_vectors=removed.dangling_vectors,
    )


def _partition(schema: TableSchema, due: Due, gone: Gone) -> PartitionSummary:
    facts = due.facts
    keys, types = schema.partition_keys, schema.partition_types
    return PartitionSummary(
        partition_name(keys, types, facts.values),
        {key: value_name(value, type_) for key, type_, value in zip(keys, types, facts.values, strict=True)},
        gone.rows,
        gone.files,
        gone.size_bytes,
        due.time_ms,
        due.why,
    )


def large(task: Task, commits: PartitionsReport) -> tuple[str, ...]:
    """Return a warning if nobody watches, and more than half of the table goes."""
    if not task.unattended or not commits.live_files or commits.files <= _MANY * commits.live_files:
        return ()
    return (
        f"{commits.files} of {commits.live_files} live files lie in expired partitions, more than half of the table",
    )
