"""Where a plan takes the branch that it moves, by what the plan says alone.

It saw the branch's snapshots when it was made, takes some of them and writes others. What the branch is to have at the
end follows, whatever has become of the table since.
"""

from collections.abc import Sequence

from lakesweep.execute.batches import id_of
from lakesweep.model.plan import Action, Delete, Plan, branch_of
from lakesweep.model.table_ref import branch_dir


def moved_branch(actions: Sequence[Action]) -> str:
    """Return the branch whose documents a plan moves."""
    return branch_of(actions[0].path)


def snapshots_seen(plan: Plan) -> frozenset[str]:
    """Return the paths of the snapshots that the branch had when the plan was made."""
    folder = f"{branch_dir(moved_branch(plan.actions))}snapshot/snapshot-"
    return frozenset(path for path in plan.header.roots_seen if path.startswith(folder))


def end_id_of(plan: Plan) -> int | None:
    """Return the newest snapshot that the branch is to have, `None` when it is to have none."""
    left = set(snapshots_seen(plan))
    for action in plan.actions:
        if action.kind == "snapshot" and isinstance(action, Delete):
            left.discard(action.path)
        elif action.kind == "snapshot":
            left.add(action.path)
    return max(map(id_of, left), default=None)


def sources(plan: Plan) -> dict[str, str]:
    """Return path -> ETag of the roots of another branch that a plan stands on: those that a new branch copies."""
    name = moved_branch(plan.actions)
    if name == plan.header.branch:
        return {}
    return {path: etag for path, etag in plan.header.roots_seen.items() if branch_of(path) != name}
