"""Stored plans that have ended, or may not be executed any more."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from lakesweep.control.area import ControlArea
from lakesweep.control.reports import PUT_OFF, PlanEnd, load_report
from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.codec import is_count
from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import Plan, PlanHeader
from lakesweep.model.report import RunReport
from lakesweep.runs.execution import check_not_undone
from lakesweep.runs.reports import report_of
from lakesweep.runs.session import Table


def check_open(
    area: ControlArea, header: PlanHeader, end: PlanEnd | None, now_ms: int, *, has_begun: bool = False
) -> None:
    """Refuse a plan that may not be executed any more.

    Args:
        area: Of the table.
        header: Of the plan.
        end: How the plan ended.
        now_ms: The time.
        has_begun: The lease names the plan, so it must be finished.

    Raises:
        RefusedError: It ended stale, was undone, or has expired.
    """
    plan_id = header.plan_id
    if end is not None and end.status == "stale":
        raise RefusedError(f"plan {plan_id} ended stale in run {end.run_id}; expected a new plan", code="plan_stale")
    if has_begun or (end is not None and end.status != PUT_OFF):
        return
    if end is not None:
        check_not_undone(area, plan_id)
    if now_ms >= header.expires_ms:
        raise RefusedError(f"plan {plan_id} is past its expiry; expected a new plan", code="plan_expired")


def executed_before(table: Table, area: ControlArea, plan: Plan, end: PlanEnd) -> RunReport:
    """Return the report of a plan that a run has executed completely."""
    kept: object = 0
    with suppress(FormatError, RefusedError):  # without its report, the run kept nothing that anybody knows of
        report: Any = load_report(area, end.run_id)["report"]
        kept = (report.get("outcome") or {}).get("kept_by_recheck")
    count = sum(plan.delete_kinds.values())
    gone = Outcome(already_gone=max(0, count - kept) if is_count(kept) else count)
    done = f"plan {plan.header.plan_id} was executed before, by run {end.run_id}"
    nothing = report_of(table, plan.header.operation, "nothing_to_do", plan)
    return replace(nothing, warnings=(done,), is_stored_plan=True, outcome=gone)
