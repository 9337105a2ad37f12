"""What `drop-partition`, `truncate` and `expire-partitions` have in common: choose partitions, and commit without them.

A dry run chooses on the newest snapshot, and says which roots still show the partitions. An execution chooses anew for
each attempt, since another writer may have committed. It deletes no file: expiry does, once no root needs it.
"""

from dataclasses import replace

from lakesweep.errors import RefusedError
from lakesweep.model.report import RunReport
from lakesweep.operations.partitions.deletion import index_of, removed_of
from lakesweep.operations.partitions.execution import Execution
from lakesweep.operations.partitions.shown import roots_that_show
from lakesweep.operations.partitions.task import Task, check_allowed, large, rows_of, summary_of
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView


def carry_out(table: Table, view: TableView, task: Task, *, execute: bool) -> RunReport:
    """Take partitions out of a table, or say which ones a call would take out.

    Args:
        table: The table, whose store caches nothing.
        view: The table as it was just listed.
        task: What to do.
        execute: If false, nothing changes.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    if not view.own.snapshots:
        return report_of(table, task.operation, "nothing_to_do", None)
    try:
        if execute:
            return Execution(table, view, task).report()
        return _planned(view, task)
    except RefusedError as error:
        return refused(table, task.operation, error)


def _planned(view: TableView, task: Task) -> RunReport:
    (newest,) = view.own_documents(view.own.snapshots[-1:])
    warnings: tuple[str, ...] = ()
    try:
        warnings = check_allowed(str(view.table.ref), task, newest, view.schema)
    except RefusedError as error:
        warnings = (f"this cannot be executed: {error}",)
    content = task.contents.read(newest.snapshot)
    index = index_of(view.table.store, newest.snapshot, task.contents.corrupt)
    selection = task.choose(content, index)
    rows = rows_of(selection.due) | selection.index_rows
    removed = removed_of(view.schema, content, index, rows)
    commits = summary_of(view.schema, task, content, selection, removed)
    if removed.is_empty:
        report = report_of(view.table, task.operation, "nothing_to_do", None)
        return replace(report, commits=commits, warnings=selection.warnings)
    commits = replace(commits, shown_by=roots_that_show(view, task.contents, rows))
    report = report_of(view.table, task.operation, "planned", None)
    return replace(report, commits=commits, warnings=(*warnings, *selection.warnings, *large(task, commits)))
