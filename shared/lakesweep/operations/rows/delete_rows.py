"""`delete-rows`: take rows out of the newest version of a table, in one commit.

Deletion vectors delete them, and no data file is rewritten. If readers of the table apply no vectors, each data file
with such rows is rewritten without them. If every row of a file is deleted, the file leaves the table. If every file of
a partition does, the partition is dropped.

The rows are looked for in the newest snapshot, before the commit. If another writer commits meanwhile, the commit is
built on top, provided that each data file with such rows is still there with the same vector. Otherwise those that
changed are searched again, with those that came since. No change of another writer is ever undone.
"""

from dataclasses import replace

from lakesweep.commit.base import Base
from lakesweep.errors import RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.model.report import RunReport
from lakesweep.model.where.where import Where, parse_where
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.checks import check_condition, check_table
from lakesweep.operations.rows.engine import LocalEngine, RowsEngine
from lakesweep.operations.rows.execution import Execution
from lakesweep.operations.rows.shown import roots_that_show
from lakesweep.operations.rows.summary import sample_of
from lakesweep.operations.rows.task import OPERATION, Task
from lakesweep.runs.committing.opened import Opened, opened
from lakesweep.runs.fleet import rule_of, ruling_of
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import NOT_EXECUTABLE, Table

_UTC = "UTC"


def delete_rows(
    table: Table, arguments: DeleteRowsArguments, *, execute: bool, engine: RowsEngine | None = None
) -> RunReport:
    """Delete the rows of a condition from a branch, or say which rows a call would delete.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        execute: If false, nothing changes.
        engine: Searches data files and writes index files; by default this process.

    Raises:
        UsageError: The condition is not valid (`bad_where`).
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        target = opened(table, OPERATION, execute=execute)
        check_table(target.schema)
        where = where_of(table, target.schema, arguments)
        task = Task(table, arguments, where, engine or LocalEngine(table))
        if target.base is None or where.always is False:
            return replace(report_of(table, OPERATION, "nothing_to_do", None), commits=task.report())
        return Execution(target, task).report() if execute else _planned(target, target.base, task)
    except RefusedError as error:
        return refused(table, OPERATION, error)


def where_of(table: Table, schema: TableSchema, arguments: DeleteRowsArguments) -> Where:
    """Return the condition. The fleet policy is read only if a time zone matters that the call does not state.

    Raises:
        UsageError: It is not valid (`bad_where`).
        RefusedError: See `check_condition`.
    """
    zone = arguments.zone
    where = parse_where(arguments.where, schema.fields, zone=zone or _UTC)
    if zone is None and where.depends_on_zone:
        zone = rule_of(ruling_of(table)).time_zone
        where = parse_where(arguments.where, schema.fields, zone=zone or _UTC)
    check_condition(where, zone=zone, confirm=arguments.confirm)
    return where


def _planned(target: Opened, base: Base, task: Task) -> RunReport:
    table, warnings = target.table, list[str]()
    try:
        warnings += task.warnings(base)
    except RefusedError as error:
        warnings.append(f"{NOT_EXECUTABLE}: {error}")
    deletion = task.deletion(base, task.search.at(base.root, base.schema))
    found = deletion.found
    commits = replace(task.report(base, deletion), shown_by=roots_that_show(target.whole(), found))
    if task.arguments.show_rows:
        commits = replace(commits, sample=sample_of(task.table, base, task.where, found))
    report = report_of(table, OPERATION, "planned" if found.matches else "nothing_to_do", None)
    return replace(report, commits=commits, warnings=tuple(warnings))
