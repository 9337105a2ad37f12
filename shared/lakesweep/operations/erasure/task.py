"""What an erasure erases: a condition on the rows of a table that allows all of its commits."""

from dataclasses import dataclass

from lakesweep.commit.allowed import refuse_commit
from lakesweep.model.erasure.places import ErasedFiles
from lakesweep.model.where.where import Where
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.task import Task as CompactionTask
from lakesweep.operations.erasure.searching import Searching
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.checks import check_table
from lakesweep.operations.rows.delete_rows import where_of
from lakesweep.operations.rows.engine import LocalEngine
from lakesweep.operations.tags.options import declared_zone
from lakesweep.runs.committing.opened import Opened, opened
from lakesweep.runs.fleet import ruling_of
from lakesweep.runs.view import TableView

OPERATION = "erase"


@dataclass(frozen=True, slots=True)
class Task:
    """The rows of a condition, on any snapshot."""

    target: Opened
    rows: DeleteRowsArguments
    where: Where
    compaction: CompactionTask

    @property
    def keys(self) -> tuple[str, ...]:
        """The partition keys that the condition names."""
        return tuple(key for key in self.target.schema.partition_keys if key in self.where.columns)

    def searching(self, erased: ErasedFiles | None) -> Searching:
        """Return what searches data files, and knows what earlier runs have found."""
        table = self.target.table
        return Searching(table.rows_engine or LocalEngine(table), self.where, erased)

    def allow(self) -> tuple[str, ...]:
        """Return the warnings of commits that a table allows.

        Raises:
            RefusedError: It does not allow one of them.
        """
        base = self.target.base
        if base is None:
            return ()
        given = self.rows
        deleting = refuse_commit(
            base.schema,
            base.root.snapshot,
            base.root.body,
            given.catalog.type,
            "delete_rows",
            given.fallback_reappears,
        )
        return tuple(dict.fromkeys((*deleting, *self.compaction.allow(base))))


def task_of(view: TableView, rows: DeleteRowsArguments) -> Task:
    """Return what a call erases.

    Raises:
        UsageError: The condition is not valid (`bad_where`).
        RefusedError: The condition is not taken, or rows of such a table cannot be deleted or compacted.
    """
    table = view.table
    target = opened(table, OPERATION, view, execute=False)
    check_table(view.schema)
    where = where_of(table, view.schema, rows)
    zone = declared_zone(table, rows.zone, ruling_of(table))
    given = CompactArguments(catalog=rows.catalog, options=rows.options)
    compaction = CompactionTask(table, view.schema, given, zone, target.now_ms)
    return Task(target, rows, where, compaction)
