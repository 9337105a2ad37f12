"""`maintain`: the pass that follows a commit.

It applies the table's own options and nothing else. Steps run in the engine's order; a step that refuses does not keep
the next from running.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport, Status
from lakesweep.operations.context import Table
from lakesweep.operations.expire_snapshots import OPERATION as EXPIRE_SNAPSHOTS
from lakesweep.operations.expire_snapshots import plan_expire_snapshots
from lakesweep.operations.retention_options import ExpireArguments
from lakesweep.operations.run import plan_and_execute, plan_only

OPERATION = "maintain"


@dataclass(frozen=True, slots=True)
class MaintainArguments:
    """Table options for this call, on top of the table's own."""

    options: Mapping[str, str] = field(default_factory=dict)


def maintain(table: Table, arguments: MaintainArguments, *, execute: bool) -> RunReport:
    """Run the maintenance that the table's stated options ask for."""

    def planner(target: Table) -> Plan:
        return plan_expire_snapshots(target, ExpireArguments(options=arguments.options, unattended=True))

    run = plan_and_execute if execute else plan_only
    return fold(table, (run(table, EXPIRE_SNAPSHOTS, planner),))


def fold(table: Table, steps: tuple[RunReport, ...]) -> RunReport:
    """Fold the reports of the steps into one."""
    statuses = [step.status for step in steps]
    status: Status = next(
        (worst for worst in ("stale", "partial", "refused", "done", "planned") if worst in statuses), "nothing_to_do"
    )
    return RunReport(
        operation=OPERATION,
        table=table.ref.location,
        branch=table.ref.branch,
        status=status,
        plan=steps[0].plan,
        run_id=next((step.run_id for step in steps if step.run_id), None),
        executed=any(step.executed for step in steps),
        refusal=next((step.refusal for step in steps if step.refusal), None),
        outcome=steps[0].outcome,
        requests=table.counter.snapshot(),
        steps=steps,
    )
