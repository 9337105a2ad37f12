"""Whether a stored plan still holds: what its execution would check first, without the lease and without a change."""

from dataclasses import dataclass
from functools import partial
from itertools import chain

from lakesweep.control.area import ControlArea
from lakesweep.control.intent import Intent
from lakesweep.errors import MaintenanceError, RefusedError, UsageError
from lakesweep.execute.branch_rewrites.rewrite import recheck_rewrite
from lakesweep.execute.deletions.executor import OvertakenError, recheck_plan
from lakesweep.execute.part_actions import deletions_by_part
from lakesweep.execute.present import NewRoots
from lakesweep.execute.recheck import RootRecheck
from lakesweep.execute.tags import recheck_tags, writes_tags
from lakesweep.model.plan import Plan, moves_roots
from lakesweep.runs.expiry_conflict import refuse_stored
from lakesweep.runs.fleet import check_policy
from lakesweep.runs.session import Table
from lakesweep.runs.stored.recreated import check_same_table
from lakesweep.runs.table_environment import environment


@dataclass(frozen=True, slots=True)
class Recheck:
    """The answer."""

    holds: bool | None
    """`None`: not known, or the execution would end the plan and delete nothing."""
    code: str | None = None
    message: str | None = None
    """Why it does not hold, or why that is not known."""
    kept: int = 0
    """How many of its objects an execution would keep by now, since a root needs them or they lie outside the table."""


def recheck_stored(table: Table, area: ControlArea, plan: Plan, begun: Intent | None) -> Recheck:
    """Recheck a plan that no run has begun, and that has not expired.

    Args:
        table: The branch of the plan.
        area: Of the table.
        plan: The stored plan, or only its header where its actions are files alone.
        begun: The intent in the lease.

    Raises:
        UsageError: The location of the policy holds no valid policy.
    """
    try:
        check_policy(table, manual=True)
        if begun is not None:
            refuse_stored(area, str(table.ref), plan.header, begun)
        check_same_table(table, plan.header)
        return Recheck(True, kept=_recheck(table, area, plan))
    except OvertakenError as error:
        return Recheck(None, error.code, str(error))
    except RefusedError as error:
        return Recheck(False, error.code, str(error))
    except UsageError:
        raise
    except MaintenanceError as error:
        return Recheck(None, error.code, str(error))


def _recheck(table: Table, area: ControlArea, plan: Plan) -> int:
    """Return how many objects an execution would keep."""
    if writes_tags(plan):
        recheck_tags(table.store, area, plan)
        return 0
    env = environment(table, area, plan, trusts_cache=False)
    if moves_roots(plan.actions):
        recheck_rewrite(env, plan)
        return 0
    if not plan.is_chunked:
        return recheck_plan(env, plan)
    new_roots = NewRoots(RootRecheck(env.stores.table, plan.header, env.known, env.sleep))
    parts = partial(deletions_by_part, area, plan.header)
    new_roots.ask_all(lambda: chain.from_iterable(parts()), lambda: None, has_begun=False)
    new_roots.look()
    kept = 0
    for deletes in parts():
        outside = env.stores.stays((each.kind, each.path) for each in deletes)
        kept += len(outside.keys() | new_roots.needed(deletes).keys())
    return kept
