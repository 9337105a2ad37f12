"""Damage of a table that an operation noticed, according to the findings of its plan.

A damaged root lacks a list or a manifest that its readers open. A missing file does not exist although a readable root
names it. A lost history is a branch whose snapshots are all deleted. None of this is normal, so a run that noticed any
of it never ends as a success.
"""

from collections.abc import Iterator, Mapping
from itertools import chain

from lakesweep.model.roots import BranchListing, TableListing

DAMAGED_ROOTS = "damaged_roots"
MISSING = "missing"
LOST_HISTORIES = "lost_histories"


def is_damaged(findings: Mapping[str, object]) -> bool:
    """Tell whether the findings of a plan report damage."""
    missing = findings.get(MISSING)
    count = missing.get("count") if isinstance(missing, Mapping) else 0
    return bool(findings.get(DAMAGED_ROOTS) or findings.get(LOST_HISTORIES) or count)


def empty_branches(listing: TableListing) -> Iterator[BranchListing]:
    """Yield the branches that have a schema and no snapshot."""
    for branch in listing.branches.values():
        if branch.schemas and not branch.snapshots:
            yield branch


def lost_history(branch: BranchListing) -> str | None:
    """Return the evidence that a branch had snapshots, if it has a schema but no snapshot any more; otherwise `None`.

    A branch that was created empty has no such evidence. Paimon writes its first hint, tag, changelog and consumer
    after its first snapshot, and no expiry deletes the last snapshot.
    """
    if not branch.schemas or branch.snapshots:
        return None
    roots = (ref.path for ref in (*branch.tags, *branch.changelogs))
    others = (document.path for document in (*branch.hints.values(), *branch.consumers))
    first = next(chain(roots, others), None)
    return None if first is None else f"it has no snapshot, although {first} shows that it had one"


def lost_histories(listing: TableListing) -> dict[str, str]:
    """Return branch -> the evidence that it lost its snapshots."""
    found = ((branch.name, lost_history(branch)) for branch in listing.branches.values())
    return {name: why for name, why in found if why is not None}
