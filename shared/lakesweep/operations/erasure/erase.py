"""`erase`: take the rows of a condition out of every version of a table, and say where they still are.

An execution goes through these steps. Each but the first and the last is one commit.

1. Search the data files of all roots, and record which of them have such rows.
2. `delete-rows`.
3. `compact` the live files of these that have a deletion vector, so that no live file has the rows.
4. `compact-manifest`, so that no manifest of the newest snapshot has the statistics of a file with such rows.
5. Look at every place where the rows can still be.

Older snapshots, tags and branches still show the rows then, so the first run ends as `partial`. A later call with the
id of the erasure lets expire what may expire, and looks again. The record has no value of the rows, and a run that dies
leaves it whole: a call with the same id and condition goes on.
"""

from dataclasses import replace

from lakesweep.control.erasures import load_erasure
from lakesweep.errors import RefusedError
from lakesweep.model.commits.rows import RowsReport
from lakesweep.model.erasure.record import Erasure
from lakesweep.model.report import RunReport, Status
from lakesweep.operations.erasure.arguments import EraseArguments
from lakesweep.operations.erasure.execution import Execution
from lakesweep.operations.erasure.expiry import expire
from lakesweep.operations.erasure.facts import BACK, keys_of, looked, may_be_back, shown, union_of
from lakesweep.operations.erasure.recording import check_condition, is_carried_out, unfinished
from lakesweep.operations.erasure.task import OPERATION, Task, task_of
from lakesweep.operations.rows.delete_rows import delete_rows
from lakesweep.runs.execution import require_area
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import NOT_EXECUTABLE, Table
from lakesweep.runs.view import TableView, begin


def erase(table: Table, arguments: EraseArguments, *, execute: bool) -> RunReport:
    """Erase the rows of a condition, or finish an erasure; or say what a call would do, and where the rows are.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        execute: If false, nothing changes.

    Raises:
        UsageError: The condition is not valid (`bad_where`).
        FormatError: The record of the erasure is damaged.
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        begun = None if arguments.finish is None else _begun(table, arguments.finish)
        view = begin(table, OPERATION)
        task = None if arguments.rows is None else task_of(view, arguments.rows)
        _check_same(table, begun, task)
        if execute:
            return Execution(table, arguments, view, task, begun).report()
        return _planned(table, arguments, view, task, begun)
    except RefusedError as error:
        return refused(table, OPERATION, error)


def _begun(table: Table, run_id: str) -> Erasure:
    """Return an erasure of this branch.

    Raises:
        RefusedError: There is none with this id.
    """
    found = load_erasure(require_area(table, "finish"), run_id)
    if found.branch != table.ref.branch:
        raise RefusedError(
            f"erasure {run_id} is of branch {found.branch}; expected that branch", code="plan_of_another_branch"
        )
    return found


def _check_same(table: Table, begun: Erasure | None, task: Task | None) -> None:
    """Make sure that a condition is about what the record says, and that there is one if rows are still to be deleted.

    Raises:
        RefusedError: `erasure_unfinished` or `other_condition`.
    """
    if begun is None:
        return
    if task is None:
        if not is_carried_out(begun):
            raise RefusedError(
                f"table {table.ref}: erasure {begun.run_id} stopped before its last commit; expected the condition, "
                "which nothing has stored, so that it can go on",
                code="erasure_unfinished",
            )
        return
    check_condition(begun, str(task.where))


def _planned(
    table: Table, arguments: EraseArguments, view: TableView, task: Task | None, begun: Erasure | None
) -> RunReport:
    steps, warnings = list[RunReport](), list[str]()
    erased = union_of(begun)
    if task is not None:
        try:
            warnings += task.allow()
        except RefusedError as error:
            warnings.append(f"{NOT_EXECUTABLE}: {error}")
        found = task.searching(erased)
        found.search(view)
        erased = found.erased
        steps.append(delete_rows(table, task.rows, execute=False, engine=table.rows_engine))
        if begun is None and table.area is not None:
            warnings += unfinished(table.area, str(task.where))
    if begun is not None and may_be_back(view, begun, erased):
        warnings.append(BACK)
    elif begun is not None:
        steps += expire(table, view, execute=False)
    keys = keys_of(begun) if task is None else task.keys
    places = looked(view, begun, erased, keys)
    is_planned = (
        erased is not None and bool(erased.names or erased.unread)
        if begun is None
        else any(_is_planned(each) for each in steps)
    )
    status: Status = "planned" if is_planned else "nothing_to_do"
    report = replace(report_of(table, OPERATION, status, None), steps=tuple(steps), warnings=tuple(warnings))
    rows = sum(each.commits.rows for each in steps if isinstance(each.commits, RowsReport))
    return replace(report, commits=shown(begun, task, arguments.catalog, rows=rows, erased=erased, places=places))


def _is_planned(report: RunReport) -> bool:
    return report.status == "planned"
