"""The target of a branch rewrite: the state of the branch that a plan is to reach, derived from the plan alone.

The plan lists the snapshots that the branch had when the plan was made, those it deletes and those it writes. The
target follows from these lists; later changes of the table do not matter.
"""

from collections.abc import Sequence

from lakesweep.execute.batches import id_of
from lakesweep.model.plan import Action, Delete, Plan, branch_of
from lakesweep.model.table_ref import branch_dir


def moved_branch(actions: Sequence[Action]) -> str:
    """Return the branch that a plan rewrites."""
    return branch_of(actions[0].path)


def snapshots_seen(plan: Plan) -> frozenset[str]:
    """Return the paths of the snapshots that the branch had when the plan was made."""
    folder = f"{branch_dir(moved_branch(plan.actions))}snapshot/snapshot-"
    return frozenset(path for path in plan.header.roots_seen if path.startswith(folder))


def end_id_of(plan: Plan) -> int | None:
    """Return the id of the newest snapshot in the target, `None` when the target has no snapshot."""
    left = set(snapshots_seen(plan))
    for action in plan.actions:
        if action.kind == "snapshot" and isinstance(action, Delete):
            left.discard(action.path)
        elif action.kind == "snapshot":
            left.add(action.path)
    return max(map(id_of, left), default=None)


def sources(plan: Plan) -> dict[str, str]:
    """Return path -> ETag of roots in another branch that the plan copies; a new branch is made from such roots."""
    name = moved_branch(plan.actions)
    if name == plan.header.branch:
        return {}
    return {path: etag for path, etag in plan.header.roots_seen.items() if branch_of(path) != name}
