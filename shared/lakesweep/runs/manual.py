"""Plans that the deployed functions do not execute: plans that write or delete schemas, or overwrite snapshots.

No role of a function allows these writes (`template.yaml`). Functions may plan such operations. The refusal names the
command for a person to run.
"""

from lakesweep.errors import RefusedError
from lakesweep.model.plan import Plan, Put
from lakesweep.runs.session import Table

MANUAL_ONLY = "manual_only"
OPERATIONS = frozenset({"create-branch", "delete-branch", "fast-forward"})
"""The operations that make such plans."""


def check_hand(table: Table, plan: Plan) -> None:
    """Refuse to let a function execute a plan that only a person may execute.

    Raises:
        RefusedError: With code `manual_only`.
    """
    if table.writes_schemas or not _needs_hand(plan):
        return
    raise manual_only(table, plan.header.operation, f"execute TABLE {plan.header.plan_id}")


def manual_only(table: Table, operation: str, command: str) -> RefusedError:
    """Return the error for an operation that only a person may execute."""
    return RefusedError(
        f"table {table.ref}: {operation} writes or deletes schemas, or overwrites snapshots, which no function may do; "
        f"run `lakesweep {command}` with permissions for that",
        code=MANUAL_ONLY,
    )


def _needs_hand(plan: Plan) -> bool:
    return any(
        action.kind == "schema" or (isinstance(action, Put) and action.kind == "snapshot" and not action.if_absent)
        for action in plan.actions
    )
