"""Documents of roots that cannot be read: a simulation refuses them, since its sums would lack files."""

from collections.abc import Iterable, Sequence

from lakesweep.errors import RefusedError
from lakesweep.model.roots import MAIN, Root
from lakesweep.runs.view import TableView
from lakesweep.table.reach.held import Unread


def refuse_gaps(view: TableView, roots: Sequence[Root], gaps: Iterable[Unread]) -> None:
    """Refuse roots whose files are not all known. What expiry has rightly deleted is no gap.

    These are the lists of a changelog, both of them; the changelog list of a tagged snapshot, and of its copy in a
    branch; the index manifest of a changelog.

    Args:
        view: The branch.
        roots: All roots.
        gaps: What could not be read of them.

    Raises:
        RefusedError: A root is damaged or incomplete.
    """
    gaps = tuple(gaps)
    lacking = {(gap.root.ref.path, gap.content.path) for gap in gaps if gap.content.missing}
    tagged = {(root.ref.branch, root.snapshot.id) for root in roots if root.ref.kind == "tag"}
    for gap in gaps:
        if gap.root.ref.kind == "changelog" and (gap.part == "index" or _is_bare(gap.root, lacking)):
            continue
        snapshot = gap.root.snapshot
        is_copy = gap.root.ref.branch != MAIN or (gap.root.ref.branch, snapshot.id) in tagged
        if gap.content.missing and is_copy and gap.content.path == f"manifest/{snapshot.changelog_manifest_list}":
            continue
        raise refusal(view, f"{gap.root.ref} cannot be read completely: {gap.content.problem}")


def _is_bare(root: Root, lacking: set[tuple[str, str]]) -> bool:
    lists = (root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list)
    return all((root.ref.path, f"manifest/{name}") in lacking for name in lists)


def refusal(view: TableView, problem: str) -> RefusedError:
    """Return the error for a table that cannot be summed up."""
    return RefusedError(
        f"table {view.table.ref}: {problem}; expected complete roots, since every sum would lack files (`lakesweep "
        "check` shows what is damaged)",
        code="unreadable_root",
    )
