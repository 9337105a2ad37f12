"""Check the branch before an undo: did anything build on the run's result, and does that result still exist?

Changes by time are allowed: old snapshots may have expired, and tags may have been made. A commit is not allowed, since
the undo would delete the snapshot below it.
"""

from lakesweep.execute.batches import id_of
from lakesweep.execute.branch_rewrites.target import snapshots_seen
from lakesweep.model.roots import RootRef
from lakesweep.model.table_ref import branch_dir
from lakesweep.operations.branches.names import EXISTS, list_branch
from lakesweep.operations.branches.use import check_unused
from lakesweep.operations.undo.undone_run import UndoneRun
from lakesweep.runs.session import Table
from lakesweep.runs.view import Draft

_COMMITTED = "committed_since"


def check_ground(run: UndoneRun, table: Table, draft: Draft) -> None:
    """Make sure that nothing builds on a run's result, and that this result still exists.

    Args:
        run: The run to undo.
        table: The branch of its plan, with a store without a cache.
        draft: The same branch as it is now.

    Raises:
        RefusedError: `committed_since`, `rolled_back`, `later_run`, `id_reused`, `branch_exists` or `branch_in_use`.
        StalePlanError: A document vanished since it was listed.
        StorageError: A request failed.
    """
    if run.is_of_another_branch:
        _check_folder(run, table, draft)
    else:
        _check_history(run, draft)


def _check_history(run: UndoneRun, draft: Draft) -> None:
    """Make sure that the newest snapshot is the one that the run left, with the same id and content."""
    last = max(snapshots_seen(run.plan) - run.places.keys(), key=id_of, default=None)
    snapshots = draft.own.snapshots
    for ref in snapshots:
        if ref.path not in run.places and (last is None or ref.id > id_of(last)):
            raise run.refusal(_COMMITTED, f"{ref.path} was committed since; expected no commit")
    if last is None:
        return
    found = next((ref for ref in snapshots if ref.path == last), None)
    if found is None:
        code = "rolled_back" if all(ref.id < id_of(last) for ref in snapshots) else "later_run"
        raise run.refusal(
            code, f"{last}, the newest snapshot after that run, no longer exists. Undo the run that deleted it first"
        )
    written = [id_of(path) for path, place in run.places.items() if place.kind == "snapshot" and place.after]
    if max(written, default=-1) < found.id and not _is_same(run, draft, found):
        raise run.refusal("id_reused", f"{last}, the newest snapshot after that run, has other content now")


def _is_same(run: UndoneRun, draft: Draft, ref: RootRef) -> bool:
    """Tell whether a snapshot is the one that the plan saw. Its ETag changes if it was deleted and written again."""
    header = run.plan.header
    if header.roots_seen[ref.path] == ref.etag:
        return True
    target = header.steering.target
    (root,) = draft.own_documents([ref])
    return target is not None and (target.snapshot, target.time_ms) == (ref.id, root.snapshot.time_ms)


def _check_folder(run: UndoneRun, table: Table, draft: Draft) -> None:
    """Make sure that a branch's folder has only objects that the run wrote."""
    found = list_branch(table, run.branch)
    strange = [entry.key for entry in found.objects if entry.key not in run.places and entry.key[-1] != "/"]
    if strange or found.others:
        strange.sort(key=lambda path: "/snapshot-" not in path)  # a commit says more than its hint, so it comes first
        what = (strange or [branch_dir(name) for name in found.others])[0]
        raise run.refusal(
            _COMMITTED if run.has_made_branch else EXISTS,
            f"{what} was written since; expected nothing in the branch that the run did not write",
        )
    if run.has_made_branch:
        check_unused(table, draft.listing, run.branch)
