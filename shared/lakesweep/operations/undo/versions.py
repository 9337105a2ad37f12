"""The undo of a deletion, checked completely before anything changes: objects return from the versions in the bucket.

Each delete marker must be the newest version above an object. The history must be as the run left it. Every returning
snapshot, changelog and tag must find its files in the table as it will be.
"""

import dataclasses
from collections.abc import Callable, Iterator

from lakesweep.control.markers import makers_of
from lakesweep.errors import FormatError, RefusedError, StorageError
from lakesweep.execute.attempt import Environment
from lakesweep.execute.batches import BATCH_KEYS, ROOT_KINDS
from lakesweep.execute.planned_roots import root_of
from lakesweep.execute.undo import Undo, settled_observation, undelete
from lakesweep.model.paths.allowed import check_action, is_external
from lakesweep.model.plan import Restore, to_bytes
from lakesweep.model.roots import BranchListing, Root
from lakesweep.model.table_ref import MAIN
from lakesweep.operations.undo.aftermath import aftermath
from lakesweep.operations.undo.ledger import Presence, check_ledger
from lakesweep.operations.undo.record import DECIDES_NOTHING, RunRecord
from lakesweep.runs.parameters.retention_options import changelog_producer
from lakesweep.storage.store import UndeleteResult
from lakesweep.storage.wrappers.returning import ReturningStore
from lakesweep.table.discover import discover
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_roots, read_schema
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
    tagged = _tagged_ids(env, listing.branches.get(branch) or own)
    schema = read_schema(table, listing.branches.get(branch) or own)
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


def _tagged_ids(env: Environment, own: BranchListing) -> frozenset[int]:
    return frozenset(root.snapshot.id for root in read_roots(env.stores.table, own.tags).roots)


def _root(view: ReturningStore, branch: str, document: Restore) -> Root:
    """Return the root that a returning document describes."""
    body = view.read(document.path, MAX_DOCUMENT_BYTES)
    try:
        return root_of(branch, document.path, body.data)
    except FormatError as error:
        raise RefusedError(f"table {view.location}: {error}", code="unreadable_root") from error
