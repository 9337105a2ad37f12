"""The actions after the objects of an undone run are back: hints, changelog documents, new names of tags.

All of them delete or overwrite existing documents. So each action states the documents that must exist before it. When
the undo is planned, these exist or will come back, and each is checked again right before the action. If one is
missing, the action deletes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence

from lakesweep.errors import ObjectNotFoundError
from lakesweep.execute.batches import DOCUMENT_PHASE, TAG_PHASE
from lakesweep.execute.undo import Following, id_of, is_document
from lakesweep.model.facts import base_name
from lakesweep.model.plan import Delete, Plan, Put, Restore, to_bytes
from lakesweep.model.roots import BranchListing, RootRef
from lakesweep.model.table_ref import branch_dir
from lakesweep.storage.store import Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_hint


def aftermath(
    table: Store, plan: Plan, restores: Sequence[Restore], returning: Sequence[Restore], own: BranchListing
) -> Iterator[Following]:
    """Yield the actions, in order.

    Args:
        table: The table's store.
        plan: The plan to undo.
        restores: Everything that it deleted.
        returning: The part that is not back yet, and certainly comes back.
        own: The branch as it is.
    """
    yield from _earliest(table, plan, restores, own)
    yield from _written_changelogs(table, plan, returning, own)
    yield from _new_names(table, plan, returning)


def _earliest(table: Store, plan: Plan, restores: Sequence[Restore], own: BranchListing) -> Iterator[Following]:
    """Yield hints that must name the lowest id that is back."""
    documents = {each.path for each in restores if each.phase == DOCUMENT_PHASE}
    there = {ref.path for ref in (*own.snapshots, *own.changelogs)}
    bodies = _bodies(plan)
    for action in plan.actions:
        if not isinstance(action, Put) or base_name(action.path) != "EARLIEST":
            continue
        folder = action.path.removesuffix("EARLIEST")
        if not any(path.startswith(folder) for path in documents):
            continue
        lowest = min((path for path in documents | there if path.startswith(folder)), key=id_of)
        if read_hint(table, action.path) != id_of(lowest):
            number = str(id_of(lowest))
            put = Put("hints", "hint", action.path, number, f"{number} is the lowest id again")
            yield Following(put, {lowest: bodies.get(lowest)})


def _written_changelogs(
    table: Store, plan: Plan, returning: Sequence[Restore], own: BranchListing
) -> Iterator[Following]:
    """Yield the deletion of changelog documents that the plan wrote, if their content is still the plan's.

    Their snapshots are back then, with all files that they need. The changelog hints are changed first, since they must
    never name a missing document.
    """
    written = {
        action.path: action.body
        for action in plan.actions
        if isinstance(action, Put) and action.kind == "changelog_document" and action.path not in plan.header.roots_seen
    }
    bodies, folder = _bodies(plan), branch_dir(plan.header.branch)
    back = {each.path for each in returning}.union(ref.path for ref in own.snapshots)

    def snapshot_of(ref: RootRef) -> str:
        return f"{folder}snapshot/snapshot-{ref.id}"

    going = [
        ref
        for ref in reversed(own.changelogs)
        if ref.path in written
        and snapshot_of(ref) in bodies
        and snapshot_of(ref) in back
        and table.read(ref.path, MAX_DOCUMENT_BYTES).data == to_bytes(written[ref.path])
    ]
    if not going:
        return
    gone = {ref.id for ref in going}
    needs = {snapshot_of(ref): bodies[snapshot_of(ref)] for ref in going}
    staying = {ref.id: ref.path for ref in own.changelogs if ref.id not in gone}
    for name, choose in (("LATEST", max), ("EARLIEST", min)):
        document = own.hints.get(f"changelog/{name}")
        path = f"{folder}changelog/{name}"
        if document is None:
            continue
        if not staying:
            reason = "no changelog is kept"
            yield Following(Delete("hints", "hint", path, document.size_bytes, reason, etag=document.etag), needs)
        elif read_hint(table, path) in gone:
            kept = choose(staying)
            put = Put("hints", "hint", path, str(kept), f"changelog {kept} is its new value")
            yield Following(put, {**needs, staying[kept]: None})
    for ref in going:
        reason, path = f"snapshot {ref.id} is back", snapshot_of(ref)
        delete = Delete("changelog_documents", "changelog_document", ref.path, ref.size_bytes, reason, etag=ref.etag)
        yield Following(delete, {path: needs[path]})


def _new_names(table: Store, plan: Plan, returning: Sequence[Restore]) -> Iterator[Following]:
    """Yield the deletion of the names that the plan gave to tags, if their content is still the plan's.

    A new name is deleted only if the old name exists again. A tag that the plan made, and that had no name before, is
    kept.
    """
    old_names = {each.body: each.path for each in plan.deletes if each.kind == "tag" and each.body is not None}
    coming = {each.path for each in returning}
    for action in plan.actions:
        if not isinstance(action, Put) or action.phase != TAG_PHASE or action.kind != "tag":
            continue
        old = old_names.get(action.body)
        if old is None or old == action.path or not (old in coming or is_document(table, old, action.body)):
            continue
        try:
            found = table.read(action.path, MAX_DOCUMENT_BYTES)
        except ObjectNotFoundError:
            continue
        if found.data == to_bytes(action.body):
            reason = "the tag has its old name again"
            delete = Delete(TAG_PHASE, action.kind, action.path, len(found.data), reason, etag=found.etag)
            yield Following(delete, {old: action.body})


def _bodies(plan: Plan) -> Mapping[str, str | None]:
    """Return path -> content of the documents that a plan deleted, if the plan has the content."""
    return {each.path: each.body for each in plan.deletes if each.phase == DOCUMENT_PHASE}
