"""`rollback --as-latest`: commit an older version as a new snapshot.

Nothing is withdrawn: ids go on, snapshots, changelogs and tags stay, and readers of changes need not be reset. Whatever
others have committed since the target leaves the newest version, also what they commit until this commit comes. Older
snapshots keep it.

Source: Paimon `FileStoreCommitImpl#rollbackToAsLatest`, `RollbackToAsLatestProcedure`.
"""

from dataclasses import replace

from lakesweep.control.lease import read_lease
from lakesweep.errors import RefusedError
from lakesweep.model.report import RunReport
from lakesweep.operations.branches import target_files
from lakesweep.operations.branches.as_latest.execution import Execution, report_of_step
from lakesweep.operations.branches.as_latest.step import step_of
from lakesweep.operations.branches.as_latest.task import AsLatestArguments, Task, check_commit, check_readable
from lakesweep.operations.branches.rollback import OPERATION, refuse_while_expiring
from lakesweep.runs.committing.opened import Opened, opened
from lakesweep.runs.execution import require_area
from lakesweep.runs.parameters.time_travel import NO_VERSION, resolve
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import NOT_EXECUTABLE, Table
from lakesweep.runs.view import TableView, begin
from lakesweep.table.contents.strict import StrictMetadata


def rollback_as_latest(table: Table, arguments: AsLatestArguments, *, execute: bool) -> RunReport:
    """Commit an older version of a branch as its newest snapshot.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    area = require_area(table) if execute else table.area
    try:
        if area is not None:
            refuse_while_expiring(table, area, read_lease(area), arguments.version)
        view = begin(table, OPERATION)
        target = resolve(view.table, view.own, arguments.version, purpose="rollback")
        if target is None or not view.own.snapshots:
            raise RefusedError(f"table {table.ref}: there is no version to roll back to; expected one", code=NO_VERSION)
        branch = opened(table, OPERATION, view, execute=execute)
        task = Task(table, arguments, target, StrictMetadata(branch.store, str(table.ref)))
        return _carried_out(branch, view, task, execute=execute)
    except RefusedError as error:
        return refused(table, OPERATION, error)


def _carried_out(branch: Opened, view: TableView, task: Task, *, execute: bool) -> RunReport:
    base = branch.base
    assert base is not None
    warnings: tuple[str, ...] = ()
    try:
        warnings = check_commit(task, base)
    except RefusedError as error:
        if execute:
            raise
        warnings = (f"{NOT_EXECUTABLE}: {error}",)
    warnings += check_readable(view.table.store, view.own, task.target, base.schema)
    step = step_of(task, base, view.own)
    if step is None:
        return report_of(view.table, OPERATION, "nothing_to_do", None)

    def check_files() -> None:
        target_files.check_target(task.table, view, task.target)

    if execute:
        return Execution(branch, task, step, OPERATION, check_files).report()
    check_files()
    report = report_of(view.table, OPERATION, "planned", None)
    return replace(report, commits=report_of_step(task, step), warnings=warnings)
