"""Take back a branch rewrite: a rollback, a fast-forward, or the creation or deletion of a branch.

The plan of such a run contains every document that it deleted or overwrote, so the bucket need not keep versions. A
plan of the same kind takes it back (`operations/undo/rules.py`). It is stored and executed in the same way: under the
lease, with rechecks, and finished by the next run if this one dies.

The undo is refused unless the branch is as the run left it (`undone_run.py`). It is also refused if a file of a
returning root is missing: orphan scans delete such files once they are old enough.
"""

from collections.abc import Iterator, Sequence

from lakesweep.errors import FormatError
from lakesweep.execute.planned_roots import roots_to_write, schemas_after
from lakesweep.model.plan import Action, Delete, Plan
from lakesweep.model.report import RunReport
from lakesweep.model.roots import BranchListing, Root, branch_dir
from lakesweep.model.steering import Steering, Undone
from lakesweep.operations.branches.target_files import COUNTED, describe_lost
from lakesweep.operations.undo.rules import inverse
from lakesweep.operations.undo.undone_run import UndoneRun, actions_in_force, check_observation, places_of, read_current
from lakesweep.runs.run import plan_and_execute, plan_only
from lakesweep.runs.session import Table
from lakesweep.runs.view import begin, inputs_of
from lakesweep.table.reach.completeness import lost_files
from lakesweep.table.stores import OutsideFiles

OPERATION = "undo"
_ABSENT = "would_stay_absent"


def undo_rewrite(table: Table, undone: Plan, run_id: str, *, execute: bool) -> RunReport:
    """Take a branch rewrite back, or say what that would change.

    Args:
        table: The branch of the plan.
        undone: The plan, which was executed completely.
        run_id: The run that executed it.
        execute: If false, nothing changes.
    """
    run = plan_and_execute if execute else plan_only
    return run(table, OPERATION, lambda target: plan_undo_rewrite(target, undone, run_id))


def plan_undo_rewrite(table: Table, undone: Plan, run_id: str) -> Plan:
    """Plan the way back; without actions, everything is as it was before the run.

    Raises:
        RefusedError: The branch is not as the run left it, or a root would come back without a file that it needs.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    view, run = begin(table, OPERATION), UndoneRun(undone, run_id, places_of(undone.actions))
    own = view.listing.branches.get(run.branch) or BranchListing(run.branch)
    inputs = inputs_of(own, {"run_id": run_id})
    current = read_current(table.store, run.places)
    actions = actions_in_force(run, current)
    if not actions:
        return view.plan((), inputs, warnings=(f"everything is as it was before run {run_id} already",))
    check_observation(run, table, view)
    way_back = inverse(actions, current, f"run {run_id} is undone")
    coming = _returning_roots(run, table, own, way_back)
    if run.is_of_another_branch:  # other branches may appear and vanish meanwhile
        view = view.seeing(own)
    header = undone.header
    return view.plan(
        way_back,
        inputs,
        warnings=tuple(_warnings(run, own, way_back)),
        steering=Steering(complete_roots=_complete(coming), undone=Undone(run_id, header.plan_id, header.operation)),
    )


def _warnings(run: UndoneRun, own: BranchListing, way_back: Sequence[Action]) -> Iterator[str]:
    if run.has_made_branch:
        yield (
            f"stop the writers of branch {run.branch} before it is deleted; a writer that commits later leaves a "
            "snapshot in a branch without schemas"
        )
    elif not run.is_of_another_branch and any(action.kind == "snapshot" for action in way_back):
        yield (
            f"writers and streaming readers of branch {run.branch} must be stopped before and started again after: its "
            "newest snapshot changes"
        )
    seen = run.plan.header.roots_seen
    late = [ref for ref in own.tags if ref.path not in seen and ref.path not in run.places]
    if late and any(isinstance(action, Delete) and action.kind == "snapshot" for action in way_back):
        yield f"tags that were made since are kept, with their files: {', '.join(ref.name for ref in late)}"


def _complete(coming: Sequence[Root]) -> tuple[str, ...]:
    """Return the roots that must be complete at the end. Older snapshots may expire meanwhile."""
    snapshots = [root for root in coming if root.ref.kind == "snapshot"]
    newest = sorted(snapshots, key=lambda root: root.ref.id)[-1:]
    return tuple(root.ref.path for root in (*newest, *(root for root in coming if root.ref.kind == "tag")))


def _returning_roots(run: UndoneRun, table: Table, own: BranchListing, way_back: Sequence[Action]) -> tuple[Root, ...]:
    """Return the roots that come back. All of them have the files that they need.

    Args:
        run: The run to undo.
        table: With a store without a cache, since cached files may be gone.
        own: The branch that the run rewrote, as it is now.
        way_back: The actions that undo the run.

    Raises:
        RefusedError: A root lacks a file: `would_stay_absent`.
        StorageError: A request failed.
    """
    try:
        coming = tuple(roots_to_write(run.branch, way_back))
        schemas = schemas_after(table.store, own, way_back)
    except FormatError as error:
        raise run.refusal(_ABSENT, f"{error}; expected every returning document to be intact") from error
    folder = f"{branch_dir(run.branch)}schema/schema-"
    wanted = {root.snapshot.schema_id for root in coming}
    lost = [f"{folder}{number}" for number in sorted(wanted - schemas.ids)]
    if schemas.latest is not None and not lost:
        outside = OutsideFiles(table.store, table.open_store)
        lost += lost_files(table.store, schemas.latest, coming, COUNTED, outside)
    if lost:
        raise run.refusal(
            _ABSENT,
            f"the returning roots have lost {describe_lost(lost)}; undo the run of remove-orphan-files that deleted "
            "them first, if the bucket keeps versions",
        )
    return coming
