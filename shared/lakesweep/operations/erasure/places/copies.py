"""Roots that came since the search from versions with such rows: a compaction may have copied the rows into new files.

Nobody has searched these files. So the roots are unknown until a new search.
"""

from collections.abc import Iterator

from lakesweep.model.erasure.places import ErasedFiles, head_of
from lakesweep.model.roots import Root
from lakesweep.operations.erasure.places.held import Held, held_by_roots
from lakesweep.runs.view import TableView


def roots_with_copies(
    view: TableView, erased: ErasedFiles, held: Held, erased_ms: int | None, erased_id: int
) -> Iterator[Root]:
    """Yield the roots that may have such copies.

    A branch whose newest snapshot has lost the rows makes no copies, unless a rollback brings a former one back. What
    the view's branch has committed since the rows left it has none, up to such a rollback.
    """
    roots: dict[str, list[Root]] = {}
    for root in held.holders.roots:
        roots.setdefault(root.ref.branch, []).append(root)
    known = {head_of(root.snapshot) for root in held.holders.roots if root.ref.branch in erased.heads}
    needing = {ref.path for name in erased.holds for ref in held.refs_in(held.tainted.get(name, 0))}
    for branch, found in roots.items():
        head = erased.heads.get(branch)
        if head is None:  # the branch is new; what another branch has, too, is no copy
            yield from (root for root in found if head_of(root.snapshot) not in known)
            continue
        is_erased = branch == view.own.name and erased_ms is not None
        number = int(head.partition(" ")[0] or -1)
        last = max(number, erased_id) if is_erased else number
        newer = [root for root in found if root.snapshot.id > number]
        if _was_replaced(found, head, number):
            yield from found
        elif (branch in erased.open and not is_erased) or any(_is_late(root, last, erased_ms) for root in newer):
            yield from newer
        else:
            back = min((r.snapshot.id for r in found if r.snapshot.id > last and r.ref.path in needing), default=None)
            yield from (root for root in newer if back is not None and root.snapshot.id >= back)


def came_back(view: TableView, erased: ErasedFiles, erased_ms: int | None, erased_id: int) -> bool:
    """Tell whether the view's branch has roots that may have copies: then they are the only sign of it.

    Raises:
        StorageError: As `held_by_roots`.
    """
    found = roots_with_copies(view, erased, held_by_roots(view, erased), erased_ms, erased_id)
    return any(root.ref.branch == view.own.name for root in found)


def _is_late(root: Root, last: int, erased_ms: int | None) -> bool:
    """Tell whether a snapshot was committed after a rollback: the rows left with a later id, and earlier."""
    return erased_ms is not None and root.snapshot.id <= last and root.snapshot.time_ms > erased_ms


def _was_replaced(found: list[Root], head: str, number: int) -> bool:
    """Tell whether the newest snapshot of the search is gone, though older ones are there, or another has its id."""
    snapshots = [root.snapshot for root in found if root.ref.kind == "snapshot"]
    if not head:
        return False
    if any(each.id == number for each in snapshots):
        return all(head_of(each) != head for each in snapshots)
    return any(each.id < number for each in snapshots)
