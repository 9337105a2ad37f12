"""Take a run back that moved a branch: a rollback, a fast-forward, a new branch or one that was deleted.

The plan of such a run has the content of every document that it took or wrote over, so no bucket has to keep versions.
What takes it back is a plan of the same kind (`plan/inversion.py`), stored and carried out like it: under the lease,
with looks in between, and finished by the next run where one dies.

It is refused unless the branch is as the run left it, but for what time does: old snapshots may have expired, and tags
may have come. Somebody's commit would lose what it stands on. And it is refused where a file of what comes back is not
there any more: the orphan scan takes such files when they are old enough.
"""

from collections.abc import Iterator, Sequence

from lakesweep.model.plan import Action, Delete, Plan
from lakesweep.model.report import RunReport
from lakesweep.model.roots import BranchListing, Root
from lakesweep.operations.context import Table
from lakesweep.operations.draft import begin, frame_of
from lakesweep.operations.returning_roots import returning_roots
from lakesweep.operations.run import plan_and_execute, plan_only
from lakesweep.operations.undo_ground import check_ground
from lakesweep.operations.undone_run import UndoneRun, actions_in_force, places_of, read_current
from lakesweep.plan.inversion import inverse

OPERATION = "undo"


def undo_move(table: Table, undone: Plan, run_id: str, *, execute: bool) -> RunReport:
    """Take a plan that moved a branch back, or say what that would change.

    Args:
        table: The branch that the plan was made for.
        undone: The plan, which was carried out to its end.
        run_id: Of the run that did it.
        execute: Do it.
    """
    run = plan_and_execute if execute else plan_only
    return run(table, OPERATION, lambda target: plan_undo_move(target, undone, run_id))


def plan_undo_move(table: Table, undone: Plan, run_id: str) -> Plan:
    """Plan the way back; without actions all is as it was before the run.

    Raises:
        RefusedError: The branch is not as the run left it, or something would come back without a file that it needs.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    draft, run = begin(table, OPERATION), UndoneRun(undone, run_id, places_of(undone.actions))
    own = draft.listing.branches.get(run.branch) or BranchListing(run.branch)
    frame = frame_of(own, {"run_id": run_id})
    current = read_current(table.store, run.places)
    actions = actions_in_force(run, current)
    if not actions:
        return draft.plan((), frame, warnings=(f"all is as it was before run {run_id} already",))
    check_ground(run, table, draft)
    way_back = inverse(actions, current, f"run {run_id} is undone")
    coming = returning_roots(run, table, own, way_back)
    if run.is_of_another_branch:  # all other branches may come and go
        draft = draft.seeing(own)
    header = undone.header
    return draft.plan(
        way_back,
        frame,
        warnings=tuple(_warnings(run, own, way_back)),
        findings={
            "undone": {"run_id": run_id, "plan_id": header.plan_id, "operation": header.operation},
            "whole": _whole(coming),
        },
    )


def _warnings(run: UndoneRun, own: BranchListing, way_back: Sequence[Action]) -> Iterator[str]:
    if run.has_made_branch:
        yield (
            f"stop what writes to branch {run.branch} before it goes; a writer that commits later leaves a snapshot of "
            "a branch without schemas"
        )
    elif not run.is_of_another_branch and any(action.kind == "snapshot" for action in way_back):
        yield (
            f"writers and streaming readers of branch {run.branch} must be stopped before and started again after: its "
            "newest snapshot is another one then"
        )
    seen = run.plan.header.roots_seen
    late = [ref for ref in own.tags if ref.path not in seen and ref.path not in run.places]
    if late and any(isinstance(action, Delete) and action.kind == "snapshot" for action in way_back):
        yield f"tags that were made since stay, and keep their files: {', '.join(ref.name for ref in late)}"


def _whole(coming: Sequence[Root]) -> list[str]:
    """Return the roots that must be whole at the end. Older snapshots may expire meanwhile."""
    snapshots = [root for root in coming if root.ref.kind == "snapshot"]
    newest = sorted(snapshots, key=lambda root: root.ref.id)[-1:]
    return [root.ref.path for root in (*newest, *(root for root in coming if root.ref.kind == "tag"))]
