"""The environment of an execution: the table's store, and the external roots that the operator allows."""

from lakesweep.control.area import ControlArea
from lakesweep.execute.attempt import Environment
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.plan import Plan
from lakesweep.runs.allowance import fence_rules
from lakesweep.runs.session import Table
from lakesweep.storage.wrappers.remembering import MetadataCache, RememberingStore
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_all_schemas
from lakesweep.table.fence import FenceRules
from lakesweep.table.stores import TableStores


def environment(table: Table, area: ControlArea, plan: Plan, *, trusts_cache: bool = True) -> Environment:
    """Return the environment in which `plan` is executed.

    A plan is only data and grants no permission. So paths outside the table are checked again, against the schemas and
    against what the operator allows.

    Args:
        table: The table.
        area: The control area of the table.
        plan: The plan to execute.
        trusts_cache: Rechecks may use the metadata cache of earlier runs. This is false for a plan that this call
            has not made, since anyone who can forge a plan can also forge the cache.
    """
    rules = FenceRules()
    if plan.is_chunked or any(is_external(action.path) for action in plan.actions):
        rules = fence_rules(table, read_all_schemas(table.store, discover(table.store, ("schema", "branch"))))
    plan_id, manifests = table.memory.clear
    return Environment(
        stores=TableStores(table.store, rules, table.open_store),
        area=area,
        known=RememberingStore(table.store, table.memory if trusts_cache else MetadataCache(), {}),
        sleep=table.sleep,
        check_time=table.check_time,
        progress=table.progress,
        say=table.say,
        throttled=lambda: table.counter.throttled,
        clear=manifests if plan_id == plan.header.plan_id else frozenset(),
    )
