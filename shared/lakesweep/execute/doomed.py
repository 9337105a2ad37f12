"""Which snapshots may lose their files although the end of an expiry does not say so.

Those of which the last tags go have no document left. Those that are withdrawn when a branch moves back have files
that nobody keeps from then on.
"""

from lakesweep.errors import FormatError
from lakesweep.execute.batches import DOCUMENT_PHASE, is_head, removed_roots
from lakesweep.execute.batches import id_of as id_in
from lakesweep.format.tag import parse_tag
from lakesweep.model.plan import Delete, Plan, moves_roots, to_bytes
from lakesweep.model.table_ref import branch_dir


def root_id_of(delete: Delete) -> int | None:
    """Return the snapshot id of a document that goes: a tag has it inside. `None`: nobody knows."""
    if delete.phase == DOCUMENT_PHASE:
        return id_in(delete.path)
    try:
        return parse_tag(to_bytes(delete.body or ""), delete.path).snapshot.id
    except FormatError:
        return None


def doomed_snapshots(plan: Plan) -> tuple[int, ...]:
    """Return the snapshots of the branch that were gone when the plan was made, and whose files go with their tags.

    Whoever makes a tag of such a snapshot, from another tag, must withdraw it. So must who makes one of a snapshot
    that a plan withdraws from the branch.
    """
    if moves_roots(plan.actions):
        folder = f"{branch_dir(plan.header.branch)}snapshot/snapshot-"
        withdrawn = {delete.path for delete in plan.deletes if delete.kind == "snapshot"}
        return tuple(sorted(id_in(path) for path in withdrawn if path.startswith(folder)))
    if all(map(is_head, plan.actions)):
        return ()  # no file goes
    tagged = {root_id_of(delete) for delete in removed_roots(plan.actions) if delete.kind == "tag"}
    folder = f"{branch_dir(plan.header.branch)}snapshot/snapshot-"
    return tuple(sorted(i for i in tagged if i is not None and f"{folder}{i}" not in plan.header.roots_seen))
