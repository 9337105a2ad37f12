"""What an expiry notices of a damaged table while it asks the roots that stay."""

from collections.abc import Mapping

from lakesweep.model.damage import DAMAGED_ROOTS, LOST_HISTORIES, lost_history
from lakesweep.model.facts import References
from lakesweep.model.roots import BranchListing
from lakesweep.operations.draft import Draft
from lakesweep.table.documents import read_hint
from lakesweep.table.live_set import Wholeness


def damage_findings(draft: Draft, references: References, others: Mapping[str, str] | None = None) -> dict[str, object]:
    """Return the findings about roots that stay and that are damaged; nothing where all are whole.

    Half-expired snapshots, and the changelog lists that tags and branches lack, are no damage (`Wholeness`).

    Args:
        draft: The table.
        references: What the roots that stay need.
        others: Path of a root -> what else is wrong with it.
    """

    def earliest(branch: BranchListing) -> int | None:
        document = branch.hints.get("snapshot/EARLIEST")
        return None if document is None else read_hint(draft.table.store, document.path)

    found = dict(others or {})
    if references.gaps:
        roots = [gap.root for gap in references.gaps]
        tagged = {(root.ref.branch, root.snapshot.id) for root in roots if root.ref.kind == "tag"}
        wholeness = Wholeness(draft.listing, tagged, earliest)
        for gap in references.gaps:
            if not gap.is_missing or wholeness.is_strict(gap.root, gap.part):
                found.setdefault(gap.root.ref.path, gap.problem)
    return {DAMAGED_ROOTS: dict(sorted(found.items()))} if found else {}


def lost_findings(draft: Draft) -> dict[str, object]:
    """Return the finding that the branch has lost its snapshots; nothing where that is not so."""
    why = lost_history(draft.own)
    return {} if why is None else {LOST_HISTORIES: {draft.own.name: why}}


def warnings_of(lost: Mapping[str, object]) -> tuple[str, ...]:
    """Return a sentence for each branch that has lost its snapshots."""
    branches = lost.get(LOST_HISTORIES)
    if not isinstance(branches, Mapping):
        return ()
    return tuple(f"branch {name} has lost its history: {why}" for name, why in branches.items())
