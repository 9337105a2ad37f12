"""The report of one call: what it planned, did, or refused to do."""

from collections.abc import Mapping
from dataclasses import replace

from lakesweep.control.reports import PUT_OFF
from lakesweep.errors import LeaseLostError, RefusedError, StalePlanError
from lakesweep.execute.attempt import Executed
from lakesweep.model.plan import Plan
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.model.roots import DATA_KINDS
from lakesweep.runs.session import Table

PLAN_UNDONE = "plan_undone"
"""Code of a plan that was undone; the rest of it is not executed."""
_STATUS: Mapping[str, Status] = {
    "done": "done",
    "partial": "partial",
    "stale": "stale",
    "interrupted": "partial",
    PUT_OFF: "partial",
}


def refused(table: Table, operation: str, error: RefusedError, plan: Plan | None = None) -> RunReport:
    """Return the report of an operation that was refused. Its message names the table."""
    sentence = str(error)
    if table.ref.location not in sentence:
        sentence = f"table {table.ref}: {sentence}"
    status: Status = "stale" if isinstance(error, StalePlanError) else "refused"
    return replace(report_of(table, operation, status, plan), refusal=Refusal(error.code, sentence))


def report_of(table: Table, operation: str, status: Status, plan: Plan | None) -> RunReport:
    """Return the report of a call that did not execute the plan."""
    return RunReport(
        operation=operation,
        table=table.ref.location,
        branch=table.ref.branch,
        status=status,
        plan=plan,
        requests=table.counter.snapshot(),
    )


def executed_report(table: Table, plan: Plan, run_id: str, executed: Executed, warnings: tuple[str, ...]) -> RunReport:
    """Return the report of a call that executed the plan, and say what comes after."""
    plan_id = plan.header.plan_id
    after = {
        "interrupted": f"; the next run finishes plan {plan_id}",
        PUT_OFF: f"; plan {plan_id} continues where it stopped when it is executed again",
    }.get(executed.status, "")
    if executed.code == PLAN_UNDONE:
        after = ""
    elif executed.code == LeaseLostError.code:
        after = f"; the run that took the lease has finished plan {plan_id}, or the next run does"
    return replace(
        report_of(table, plan.header.operation, _STATUS[executed.status], plan),
        branch=plan.header.branch,
        run_id=run_id,
        executed=True,
        warnings=warnings,
        refusal=Refusal(executed.code, executed.message + after) if executed.message else None,
        outcome=executed.outcome,
    )


def unconfirmed(plan: Plan) -> RefusedError:
    """Return the refusal of a plan that a person has to name."""
    header = plan.header
    if not plan.delete_kinds:  # it writes hints
        what = "writes over a LATEST that may be the only trace of lost snapshots"
    elif any(delete.kind == "tag" for delete in plan.deletes):
        data = sum(delete.phase == "data" for delete in plan.deletes)
        what = f"deletes {data} data files that only tags hold, more than the newest snapshot has"
    elif header.end_id is None:  # the plan expires no snapshot, so these are orphans
        data = sum(count for kind, count in plan.delete_kinds.items() if kind in DATA_KINDS)
        what = f"deletes {data} data files, more than half of the table"
    else:
        data = sum(delete.phase == "data" for delete in plan.deletes)
        what = f"overrides the table's own retention and deletes {data} data files, more than it leaves"
    return RefusedError(
        f"plan {header.plan_id} {what}; expected: lakesweep execute TABLE {header.plan_id} --confirm {header.plan_id}",
        code="confirmation_needed",
    )
