"""What a plan is executed with: the table's store, and the external roots that the operator allows."""

from lakesweep.control.area import ControlArea
from lakesweep.execute.spine import Environment
from lakesweep.model.allowed import is_external
from lakesweep.model.plan import Plan
from lakesweep.operations.allowance import fence_rules
from lakesweep.operations.context import Table
from lakesweep.storage.remembering import Memory, RememberingStore
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_all_schemas
from lakesweep.table.fence import FenceRules
from lakesweep.table.stores import TableStores


def environment(table: Table, area: ControlArea, plan: Plan, *, believes_memory: bool = True) -> Environment:
    """Return what `plan` is executed with.

    A plan is data and no permission, so what it says is outside the table is held against the schemas and against what
    the operator allows again.

    Args:
        table: The table.
        area: Of the table.
        plan: What is executed.
        believes_memory: Looks may go by what earlier runs remembered. Not so for a plan that this call has not made:
            whoever could write the plan could have written the memory.
    """
    rules = FenceRules()
    if plan.is_apart or any(is_external(action.path) for action in plan.actions):
        rules = fence_rules(table, read_all_schemas(table.store, discover(table.store, ("schema", "branch"))))
    plan_id, manifests = table.memory.clear
    return Environment(
        stores=TableStores(table.store, rules, table.open_store),
        area=area,
        known=RememberingStore(table.store, table.memory if believes_memory else Memory(), {}),
        sleep=table.sleep,
        check_time=table.check_time,
        progress=table.progress,
        throttled=lambda: table.counter.throttled,
        clear=manifests if plan_id == plan.header.plan_id else frozenset(),
    )
