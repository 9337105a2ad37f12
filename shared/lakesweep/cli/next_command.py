"""The command that executes a plan which was just shown."""

import shlex

from lakesweep.api.outcome import only_plan
from lakesweep.cli.options import Place
from lakesweep.model.plan import PlanHeader
from lakesweep.model.report import RunReport
from lakesweep.runs.session import NOT_EXECUTABLE


def next_command(place: Place, report: RunReport) -> str:
    """Return the command to execute the plan, empty if there is none.

    With several steps, the plans of later steps are made in the run.
    """
    if report.status != "planned" or any(warning.startswith(NOT_EXECUTABLE) for warning in report.warnings):
        return ""
    if (plan := only_plan(report)) is not None:
        return execute_command(place, plan)
    return "the same command with --execute"


def execute_command(place: Place, plan: PlanHeader) -> str:
    """Return the command line that executes a plan."""
    confirm = ("--confirm", plan.plan_id) if plan.needs_confirmation else ()
    given = place.words("policy", "control", "local_control", "endpoint_url", "region", "external_root")
    owned = plan.arguments.get("owned_external")  # whoever says that a root is the table's alone has allowed it
    for root in owned if isinstance(owned, list | tuple) else ():
        given += ["--external-root", root]
    return shlex.join(["lakesweep", "execute", place.table, plan.plan_id, *confirm, *given])
