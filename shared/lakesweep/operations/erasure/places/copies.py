"""Roots that came since the search from versions with such rows: a compaction may have copied the rows into new files.

Nobody has searched these files. So the roots are unknown until a new search.
"""

from collections.abc import Iterator

from lakesweep.model.erasure.places import ErasedFiles, head_of
from lakesweep.model.roots import Root
from lakesweep.operations.erasure.places.held import Held
from lakesweep.runs.view import TableView


def roots_with_copies(view: TableView, erased: ErasedFiles, held: Held, erased_ms: int | None) -> Iterator[Root]:
    """Yield the roots that may have such copies.

    A branch whose newest snapshot has lost the rows makes no copies, unless a rollback brings a former one back. What
    the view's branch has committed since the rows left it has none.
    """
    roots: dict[str, list[Root]] = {}
    for root in held.holders.roots:
        roots.setdefault(root.ref.branch, []).append(root)
    known = {head_of(root.snapshot) for root in held.holders.roots if root.ref.branch in erased.heads}
    for branch, found in roots.items():
        head = erased.heads.get(branch)
        if head is None:  # the branch is new; what another branch has, too, is no copy
            yield from (root for root in found if head_of(root.snapshot) not in known)
            continue
        number = int(head.partition(" ")[0] or -1)
        newer = [root for root in found if root.snapshot.id > number]
        if _was_replaced(found, head, number):
            yield from found
        elif branch in erased.open and not (branch == view.own.name and erased_ms is not None):
            yield from newer


def _was_replaced(found: list[Root], head: str, number: int) -> bool:
    """Tell whether the newest snapshot of the search is gone, though older ones are there, or another has its id."""
    snapshots = [root.snapshot for root in found if root.ref.kind == "snapshot"]
    if not head:
        return False
    if any(each.id == number for each in snapshots):
        return all(head_of(each) != head for each in snapshots)
    return any(each.id < number for each in snapshots)
