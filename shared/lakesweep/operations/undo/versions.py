"""The undo of a deletion, checked completely before anything changes: objects return from the versions in the bucket.

Each delete marker must be the newest version above an object. The history must be as the run left it. Every returning
snapshot, changelog and tag must find its files in the table as it will be.

Actions follow once the objects are back: hints, changelog documents, new names of tags. All of them delete or overwrite
existing documents. So each action states the documents that must exist before it. When the undo is planned, these exist
or will come back, and each is checked again right before the action. If one is missing, the action deletes nothing.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from lakesweep.control.ledger_rows import makers_of
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, StorageError
from lakesweep.execute.attempt import Environment
from lakesweep.execute.batches import BATCH_KEYS, DOCUMENT_PHASE, ROOT_KINDS, TAG_PHASE
from lakesweep.execute.planned_roots import root_of
from lakesweep.execute.undo import Following, Undo, id_of, is_document, settled_observation, undelete
from lakesweep.model.paths.allowed import check_action, is_external
from lakesweep.model.plan import Delete, Plan, Put, Restore, to_bytes
from lakesweep.model.roots import MAIN, BranchListing, Root, RootRef, base_name, branch_dir
from lakesweep.operations.undo.record import DECIDES_NOTHING, Presence, RunRecord, check_ledger
from lakesweep.runs.parameters.retention_options import changelog_producer
from lakesweep.storage.store import Store, UndeleteResult
from lakesweep.storage.wrappers.returning import ReturningStore
from lakesweep.table.discover import discover
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_hint, read_roots, read_schema
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.completeness import first_missing


def plan_undo(env: Environment, record: RunRecord, still_ours: Callable[[], None] = lambda: None) -> Undo:
    """Return the checked undo of a run. Without restores and actions there is nothing to do.

    Args:
        env: Stores of the table.
        record: What the run deleted.
        still_ours: Called now and then; raises if the lease is lost.

    Raises:
        RefusedError: The undo would not be complete, or would not fit into the table as it is now.
        StorageError: A request failed.
    """
    written_again = frozenset(each.path for each in record.restores if each.body is not None)
    own = settled_observation(env.stores.table, record.plan, env.sleep, written_again)
    if record.end is not None:
        check_ledger(env, record.plan, record.end, record.silent)
    returning = tuple(_returning(env, record, still_ours))
    still_ours()
    _check_complete(env, record, returning, own)
    after = tuple(aftermath(env.stores.table, record.plan, record.restores, returning, own))
    for each in after:
        check_action(each.action)
    warnings = tuple(
        f"{path} does not come back: it was deleted permanently, and no plan has its content"
        for path in record.stays_away
    )
    return Undo(record.plan, returning, after, written_again, warnings)


def _returning(env: Environment, record: RunRecord, still_ours: Callable[[], None]) -> Iterator[Restore]:
    """Yield the restores that are not done already."""
    for start in range(0, len(record.restores), BATCH_KEYS):
        still_ours()
        batch = record.restores[start : start + BATCH_KEYS]
        found: dict[str, UndeleteResult] = {}
        try:
            undelete(env.stores, batch, found, only_check=True)
        except StorageError as error:
            if error.code != "not_versioned":
                raise
            raise RefusedError(f"table {env.area.table}: {error}", code="not_versioned") from error
        gone = [each for each in batch if found[each.path].code == "marker_gone"]
        if gone:
            found |= _deleted_again(env, record, gone)
        for each in batch:
            code, etag = found[each.path].code, found[each.path].etag
            if code == "restorable":
                if each.etag not in (None, etag):
                    raise RefusedError(
                        f"table {env.area.table}: {each.path} would come back with other content; expected "
                        "the deleted document",
                        code="id_reused",
                    )
                yield dataclasses.replace(each, version_id=found[each.path].version_id or each.version_id)
            elif each.kind == "tag" and (code == "marker_not_current" or etag not in (None, each.etag)):
                raise RefusedError(
                    f"table {env.area.table}: plan {record.plan.header.plan_id} cannot be undone: {each.path} is "
                    "another tag now; expected none of that name",
                    code="tag_exists",
                )
            elif code != "already_there" and each.kind not in DECIDES_NOTHING:
                raise RefusedError(
                    f"table {env.area.table}: {each.path} would not come back ({code}); expected delete marker "
                    f"{each.version_id} as its newest version, with an object below",
                    code=code,
                )


def _deleted_again(env: Environment, record: RunRecord, gone: list[Restore]) -> dict[str, UndeleteResult]:
    """Tell whether objects that came back before, and were deleted again, would come back once more.

    A late request of the run leaves delete markers that its ledger may not know. Markers in another run's ledger belong
    to that run.

    Raises:
        RefusedError: Another run has deleted such an object since.
    """
    found: dict[str, UndeleteResult] = {}
    undelete(env.stores, gone, found, only_check=True, any_marker=True)
    markers = {path: each.version_id for path, each in found.items() if each.code == "restorable" and each.version_id}
    makers = makers_of(env.area, markers, record.plan.header.plan_id) if markers else {}
    for path, run_id in makers.items():
        raise RefusedError(
            f"table {env.area.table}: plan {record.plan.header.plan_id} cannot be undone: {path} was deleted again, by "
            f"run {run_id}; expected that run undone first",
            code="later_run",
        )
    return {path: each for path, each in found.items() if path in markers}


def _check_complete(env: Environment, record: RunRecord, returning: tuple[Restore, ...], own: BranchListing) -> None:
    """Refuse if a snapshot or changelog would come back without a file that it needs."""
    documents = [each for each in record.restores if each.kind in ROOT_KINDS]
    if not documents:
        return
    table, branch = env.stores.table, record.plan.header.branch
    markers = {each.path: each.version_id for each in returning}
    bodies = {each.path: to_bytes(each.body) for each in returning if each.body is not None}
    own_markers = {path: marker for path, marker in markers.items() if marker is not None and not is_external(path)}
    view = ReturningStore(table, own_markers, bodies)
    listing = discover(table)
    own = listing.branches.get(branch) or own
    tagged = frozenset(root.snapshot.id for root in read_roots(table, own.tags).roots)
    schema = read_schema(table, own)
    roots = [_root(view, branch, each) for each in documents]
    keys = view.keys()
    exists = Presence(env.stores, frozenset(markers))
    try:
        missing = first_missing(
            view,
            TablePaths(schema),
            roots,
            lambda path: exists(path) if is_external(path) else path in keys,
            lambda root: branch != MAIN or root.ref.kind == "tag" or root.snapshot.id in tagged,
            changelogs_need_delta=changelog_producer(schema.options) == "none",
        )
    except FormatError as error:
        missing = str(error)
    if missing is not None:
        raise RefusedError(
            f"table {env.area.table}: plan {record.plan.header.plan_id} cannot be undone completely: {missing}; "
            "expected everything that its snapshots need",
            code="would_stay_absent",
        )


def _root(view: ReturningStore, branch: str, document: Restore) -> Root:
    """Return the root that a returning document describes."""
    body = view.read(document.path, MAX_DOCUMENT_BYTES)
    try:
        return root_of(branch, document.path, body.data)
    except FormatError as error:
        raise RefusedError(f"table {view.location}: {error}", code="unreadable_root") from error


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
