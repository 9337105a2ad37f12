"""What a call came to, as every caller is told: the report with what was noticed, its document and its exit code."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from lakesweep.control.lease import read_lease
from lakesweep.control.noticed import alias_warnings, control_warnings
from lakesweep.errors import LeaseLostError, MaintenanceError, has_committed
from lakesweep.model.plan import PlanHeader
from lakesweep.model.report import Refusal, RunReport
from lakesweep.model.roots import TableRef
from lakesweep.runs.receipts import call_receipt
from lakesweep.runs.session import Table

REFUSED, PARTIAL, DAMAGED = 3, 4, 4
BEGUN = "the execution had begun, and the next run with --execute finishes it"
NO_TABLE = "not_a_table"
"""Code of a location without a table, such as an empty folder."""
BADNESS = (0, REFUSED, 2, 5, 1, PARTIAL)
"""Exit codes of branches and tables, the worst last: 2 is wrong usage, 5 a held lease, 1 an error, 4 a partial run."""
EXIT_CODES = dict.fromkeys(("planned", "done", "nothing_to_do"), 0) | {"refused": REFUSED, "partial": PARTIAL}
EXIT_CODES |= {"damaged": DAMAGED, "commit_lost": DAMAGED}


def completed(table: Table, report: RunReport) -> RunReport:
    """Return the report of an operation with everything that its call noticed.

    A refusal tells what is at the location instead of a table. An operation that was refused after it had deleted
    something is `partial`.
    """
    if report.refusal is not None and report.refusal.code == NO_TABLE and not report.executed:
        refusal = replace(report.refusal, message=located(table, report.refusal.message))
        report = replace(report, refusal=refusal)
    has_deleted = report.requests.get("delete", 0) > 0 and not report.is_withdrawn
    if report.branch is not None and report.status == "refused" and has_deleted:  # refused halfway
        report = replace(report, status="partial", executed=True)
    noticed = (*alias_warnings(table.area, table.store), *control_warnings(table.area, table.store))
    return call_receipt(table, replace(report, warnings=(*noticed, *report.warnings)))


def located(table: Table, sentence: str) -> str:
    """Return a sentence about a location that is not a table, extended by what is there instead."""
    from lakesweep.operations.inspect.whereabouts import whereabouts

    found = whereabouts(table)
    return sentence if found is None else f"{sentence}; {found}"


def warnings_of(report: RunReport) -> list[str]:
    """Return all warnings of a report, each once."""
    return list(dict.fromkeys(report.all_warnings()))


def document_of(report: RunReport) -> dict[str, object]:
    """Return the document of an operation, as `--json` prints it."""
    warnings = warnings_of(report)
    return report.to_json() | ({"warnings": warnings} if warnings else {})


def exit_code_of(report: RunReport) -> int:
    """Return the exit code for a report; for all branches, the worst."""
    if report.branch is None and report.steps:
        return worst(exit_code_of(step) for step in report.steps)
    if report.status == "refused" and report.refusal is not None:
        return report.refusal.exit_code
    if report.status == "stale":
        return PARTIAL if report.outcome is not None and report.outcome.deleted else REFUSED
    return EXIT_CODES[report.told_status]


def only_plan(report: RunReport) -> PlanHeader | None:
    """Return the stored plan that is all there is to execute.

    `None`: there is none, or later steps are planned in the run. An undo of deletions has no plan of its own, since it
    follows from the run that it reverts.
    """
    planned = [step for step in report.leaves() if step.status == "planned" and step.plan is not None]
    found = planned[0] if len(planned) == 1 else None
    return None if found is None or found.plan is None or found.restores is not None else found.plan.header


def worst(codes: Iterable[int]) -> int:
    """Return the worst of some exit codes below 128."""
    return max(codes, key=BADNESS.index)


def has_begun(error: BaseException, requests: Mapping[str, int]) -> bool:
    """Tell whether a call that ended with an error had changed the table, or may have.

    Args:
        error: What ended it.
        requests: The requests that it sent, by kind.
    """
    return requests.get("delete", 0) > 0 or isinstance(error, LeaseLostError) or has_committed(error)


def failed_report(
    operation: str, ref: TableRef, refusal: Refusal, requests: Mapping[str, int], *, begun: bool, all_branches: bool
) -> RunReport:
    """Return the report of a call that ended with an error: `partial` if it had changed the table, else `refused`.

    Args:
        operation: Name of the operation.
        ref: The table and branch.
        refusal: The error.
        requests: The requests of the call, by kind.
        begun: See `has_begun`.
        all_branches: The call was about every branch.
    """
    return RunReport(
        operation=operation,
        table=ref.location,
        branch=None if all_branches else ref.branch,
        status="partial" if begun else "refused",
        executed=begun,
        refusal=refusal,
        requests=requests,
    )


def unfinished(table: Table) -> tuple[str, ...]:
    """Return a sentence about a plan that a run has begun, since the next run finishes it before its own work."""
    if table.area is None:
        return ()
    try:
        intent = read_lease(table.area).intent
    except MaintenanceError:
        return ()  # the operation meets the same error, or does not need the lease
    if intent is None:
        return ()
    return (
        f"run {intent.runs[-1]} began plan {intent.plan_id} and has not finished it; the next call with --execute "
        f"finishes it first, as does lakesweep execute with this plan",
    )
