"""Expiring snapshots that the intent must name one by one, because the end id of an expiry does not cover them.

When a plan deletes the last tags of a snapshot, no document of the snapshot is left. When a branch rewrite removes
snapshots from the branch, nothing keeps their files from then on.
"""

from lakesweep.errors import FormatError
from lakesweep.execute.batches import DOCUMENT_PHASE, is_head, removed_roots
from lakesweep.execute.batches import id_of as id_in
from lakesweep.format.tag import parse_tag
from lakesweep.model.plan import Delete, Plan, moves_roots, to_bytes
from lakesweep.model.table_ref import branch_dir


def root_id_of(delete: Delete) -> int | None:
    """Return the snapshot id of a document to delete; a tag holds it inside. `None`: the tag cannot be parsed."""
    if delete.phase == DOCUMENT_PHASE:
        return id_in(delete.path)
    try:
        return parse_tag(to_bytes(delete.body or ""), delete.path).snapshot.id
    except FormatError:
        return None


def expiring_snapshots(plan: Plan) -> tuple[int, ...]:
    """Return the ids of expiring snapshots that the plan's end id does not cover.

    For a deletion of tags these are snapshots that were already gone when the plan was made: their files are deleted
    with the tags. For a branch rewrite these are the snapshots that the plan removes from the branch. A run that makes
    a new tag of one of these snapshots must withdraw it.
    """
    if moves_roots(plan.actions):
        folder = f"{branch_dir(plan.header.branch)}snapshot/snapshot-"
        withdrawn = {delete.path for delete in plan.deletes if delete.kind == "snapshot"}
        return tuple(sorted(id_in(path) for path in withdrawn if path.startswith(folder)))
    if all(map(is_head, plan.actions)):
        return ()  # the plan deletes no file
    tagged = {root_id_of(delete) for delete in removed_roots(plan.actions) if delete.kind == "tag"}
    folder = f"{branch_dir(plan.header.branch)}snapshot/snapshot-"
    return tuple(sorted(i for i in tagged if i is not None and f"{folder}{i}" not in plan.header.roots_seen))
