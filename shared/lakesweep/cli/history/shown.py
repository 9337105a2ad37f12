"""A stored plan as it was shown when it was made."""

from dataclasses import replace
from typing import Any

from lakesweep.model.plan import Plan
from lakesweep.runs.reports import report_of
from lakesweep.runs.session import Table


def planned(table: Table, plan: Plan, *, is_new: bool = True) -> dict[str, Any]:
    """Return the report of a plan that is not executed.

    Args:
        table: Of the plan.
        plan: The plan.
        is_new: Report the damage that the planner noticed, as the call did that made the plan.
    """
    report = replace(report_of(table, plan.header.operation, "planned", plan), branch=plan.header.branch)
    return replace(report, is_stored_plan=not is_new).to_json()
