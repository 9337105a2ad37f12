"""Plans that the deployed functions do not carry out: those that write or remove schemas, or write over snapshots.

No role of a function allows that (`template.yaml`). Functions may plan such operations, and say who carries them out.
"""

from lakesweep.errors import RefusedError
from lakesweep.model.plan import Plan, Put
from lakesweep.operations import create_branch, delete_branch, fast_forward
from lakesweep.operations.context import Table

BY_HAND_ONLY = "by_hand_only"
OPERATIONS = frozenset({create_branch.OPERATION, delete_branch.OPERATION, fast_forward.OPERATION})
"""Those that make such plans."""


def check_hand(table: Table, plan: Plan) -> None:
    """Refuse a plan that is for people, where a function would carry it out.

    Raises:
        RefusedError: With code `by_hand_only`.
    """
    if table.writes_schemas or not _needs_hand(plan):
        return
    raise by_hand_only(table, plan.header.operation, f"execute TABLE {plan.header.plan_id}")


def by_hand_only(table: Table, operation: str, command: str) -> RefusedError:
    """Return the error of an operation that is for people."""
    return RefusedError(
        f"table {table.ref}: {operation} writes or removes schemas, or writes over snapshots, which no function may; "
        f"expected `lakesweep {command}` by somebody who may",
        code=BY_HAND_ONLY,
    )


def _needs_hand(plan: Plan) -> bool:
    return any(
        action.kind == "schema" or (isinstance(action, Put) and action.kind == "snapshot" and not action.if_absent)
        for action in plan.actions
    )
