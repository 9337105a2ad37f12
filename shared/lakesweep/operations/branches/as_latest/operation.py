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
from lakesweep.operations.branches.as_latest.protection import left_behind, make_up, not_made
from lakesweep.operations.branches.as_latest.step import step_of
from lakesweep.operations.branches.as_latest.task import AsLatestArguments, Task, check_commit, check_readable
from lakesweep.operations.branches.rollback import OPERATION, refuse_while_expiring
from lakesweep.operations.tags.rules.rollback import tag_name
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
    warnings: tuple[str, ...] = ()
    try:
        if area is not None:
            refuse_while_expiring(table, area, read_lease(area), arguments.version)
        view, warnings, promised = _made_up(table, execute=execute)
        target = resolve(view.table, view.own, arguments.version, purpose="rollback")
        if target is None or not view.own.snapshots:
            raise RefusedError(f"table {table.ref}: there is no version to roll back to; expected one", code=NO_VERSION)
        branch = opened(table, OPERATION, view, execute=execute)
        others = tuple(each for each in view.listing.branches.values() if each.name != view.own.name)
        task = Task(table, arguments, target, StrictMetadata(branch.store, str(table.ref)), others, promised)
        return _carried_out(branch, view, task, warnings, execute=execute)
    except RefusedError as error:
        return replace(refused(table, OPERATION, error), warnings=warnings)


def _made_up(table: Table, *, execute: bool) -> tuple[TableView, tuple[str, ...], frozenset[int]]:
    """Look at the table, and make the tags that dead runs have not made.

    Returns:
        The table, what was done or will be, and the snapshots of which an execution would make tags.
    """
    view = begin(table, OPERATION)
    doubts = tuple(doubt for _, doubt in left_behind(view) if doubt is not None)
    if execute:
        made = tuple(make_up(table, view.own))
        return (begin(table, OPERATION) if made else view), (*doubts, *made), frozenset()
    due = tuple(not_made(view.table, view.own))
    warnings = tuple(
        f"tag {tag_name(root.snapshot.id, run_id)} is missing, although run {run_id} has committed snapshot "
        f"{root.snapshot.id}; an execution makes it"
        for run_id, root in due
    )
    return view, (*doubts, *warnings), frozenset(root.snapshot.id for _, root in due)


def _carried_out(branch: Opened, view: TableView, task: Task, warnings: tuple[str, ...], *, execute: bool) -> RunReport:
    base = branch.base
    assert base is not None
    try:
        allowed = check_commit(task, base)
    except RefusedError as error:
        if execute:
            raise
        allowed = (f"{NOT_EXECUTABLE}: {error}",)
    warnings += allowed
    warnings += check_readable(view.table.store, view.own, task.target, base.schema)
    step = step_of(task, base, view.own)
    if step is None:
        return replace(report_of(view.table, OPERATION, "nothing_to_do", None), warnings=warnings)

    def check_files() -> None:
        target_files.check_target(task.table, view, task.target)

    if execute:
        return Execution(branch, task, step, OPERATION, check_files, warnings).report()
    check_files()
    report = report_of(view.table, OPERATION, "planned", None)
    return replace(report, commits=report_of_step(task, step), warnings=warnings)
