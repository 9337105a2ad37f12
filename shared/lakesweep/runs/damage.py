"""What operations notice about a damaged table: incomplete roots that the plan keeps, and lost snapshots."""

from collections.abc import Mapping

from lakesweep.errors import ObjectNotFoundError
from lakesweep.model.damage import DAMAGED_ROOTS, LOST_HISTORIES, lost_history
from lakesweep.model.roots import BranchListing, References, TableListing, branch_dir
from lakesweep.runs.view import TableView
from lakesweep.storage.store import Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, latest_hint_of, read_hint
from lakesweep.table.reach.live_set import Wholeness


def damage_findings(
    view: TableView, references: References, others: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Return the findings about damaged roots that the plan keeps; nothing if all are complete.

    Half-expired snapshots are no damage, and neither are the changelog lists that tags and branches lack (`Wholeness`).

    Args:
        view: The table.
        references: The files that the remaining roots need.
        others: Path of a root -> another problem of it.
    """
    found = dict(others or {})
    if references.gaps:
        roots = [gap.root for gap in references.gaps]
        tagged = {(root.ref.branch, root.snapshot.id) for root in roots if root.ref.kind == "tag"}
        wholeness = Wholeness(view.table.store, view.listing, tagged)
        for gap in references.gaps:
            if not gap.is_missing or wholeness.is_strict(gap.root, gap.part):
                found.setdefault(gap.root.ref.path, gap.problem)
    return {DAMAGED_ROOTS: dict(sorted(found.items()))} if found else {}


def lost_findings(view: TableView) -> dict[str, object]:
    """Return the finding that the branch has lost its snapshots; nothing if it has not."""
    why = lost_history(view.own)
    return {} if why is None else {LOST_HISTORIES: {view.own.name: why}}


def lost_snapshots(store: Store, listing: TableListing) -> dict[str, str]:
    """Return branch -> the evidence that its newest snapshots are lost: LATEST names a missing snapshot.

    No operation of Paimon leaves a hint like that: a commit writes the snapshot before the hint, a rollback the hint
    first.
    """
    found = ((branch.name, _lost_newest(store, branch)) for branch in listing.branches.values() if branch.snapshots)
    return {name: why for name, why in found if why is not None}


def _lost_newest(store: Store, branch: BranchListing) -> str | None:
    newest, before = branch.snapshots[-1].id, None
    hint = latest_hint_of(store, branch)
    # A commit or rollback rewrites the hint, so only a hint that does not change shows a loss.
    while hint is not None and hint > newest:
        name = f"snapshot/snapshot-{hint}"
        if _is_there(store, f"{branch_dir(branch.name)}{name}"):
            return None
        if hint == before:
            return f"LATEST names snapshot {hint}, but {name} is not there, and snapshot {newest} is the newest"
        before, hint = hint, read_hint(store, branch.hints["snapshot/LATEST"].path)
    return None


def _is_there(store: Store, path: str) -> bool:
    try:
        store.read(path, MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return False
    return True


def warnings_of(lost: Mapping[str, object]) -> tuple[str, ...]:
    """Return a sentence for each branch that has lost its snapshots."""
    branches = lost.get(LOST_HISTORIES)
    if not isinstance(branches, Mapping):
        return ()
    return tuple(f"branch {name} has lost its history: {why}" for name, why in branches.items())
