"""What `drop-partition`, `truncate` and `expire-partitions` have in common: choose partitions, and commit without them.

A dry run chooses on the newest snapshot, and says which roots still show the partitions. An execution chooses anew for
each attempt, since another writer may have committed. It deletes no file: expiry does, once no root needs it.
"""

from dataclasses import replace

from lakesweep.commit.base import Base
from lakesweep.errors import RefusedError
from lakesweep.model.partitions.expiry import PartitionFacts
from lakesweep.model.report import RunReport
from lakesweep.operations.partitions.deletion import removed_of
from lakesweep.operations.partitions.execution import Execution
from lakesweep.operations.partitions.shown import roots_that_show
from lakesweep.operations.partitions.task import Task, check_allowed, large, rows_of, summary_of
from lakesweep.runs.committing.opened import Opened
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import NOT_EXECUTABLE
from lakesweep.runs.view import TableView
from lakesweep.table.contents.index import index_of


def carry_out(target: Opened, task: Task, *, execute: bool) -> RunReport:
    """Take partitions out of a table, or say which ones a call would take out.

    Args:
        target: The branch.
        task: What to do.
        execute: If false, nothing changes.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    if target.base is None:
        return report_of(target.table, task.operation, "nothing_to_do", None)
    try:
        if execute:
            return Execution(target, task).report()
        return _planned(target.whole(), target.base, task)
    except RefusedError as error:
        return refused(target.table, task.operation, error)


def _planned(view: TableView, base: Base, task: Task) -> RunReport:
    snapshot = base.root.snapshot
    warnings: tuple[str, ...] = ()
    try:
        warnings = check_allowed(task, base)
    except RefusedError as error:
        if task.unattended:
            raise  # the commit of a pass may be left to another process, which would only refuse it
        warnings = (f"{NOT_EXECUTABLE}: {error}",)
    content = task.contents.read(snapshot)
    index = index_of(view.table.store, snapshot, task.contents.corrupt)
    selection = task.choose(content, index)
    rows = rows_of(selection.due) | selection.index_rows
    removed = removed_of(base.schema, content, index, rows)
    commits = summary_of(base.schema, task, content, selection, removed)
    matches = task.matches

    def is_meant(facts: PartitionFacts) -> bool:
        return facts.row in rows if matches is None else matches(facts.values)

    if not task.unattended and (rows or matches is not None):
        # Nobody reads a plan of each hour, and this takes the metadata of all roots.
        commits = replace(commits, shown_by=roots_that_show(view, task.contents, is_meant))
    if removed.is_empty:
        report = report_of(view.table, task.operation, "nothing_to_do", None)
        return replace(report, commits=commits, warnings=selection.warnings)
    report = report_of(view.table, task.operation, "planned", None)
    return replace(report, commits=commits, warnings=(*warnings, *selection.warnings, *large(task, commits)))
