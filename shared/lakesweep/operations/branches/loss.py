"""What the deletion of a branch loses: documents that no other branch has, and files that no other root needs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.tag import tag_body
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.operations.branches.newly_orphaned import find_newly_orphaned
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_roots

Json = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class BranchLoss:
    """Information for people; Lakesweep decides nothing by it."""

    lost: Json
    newly_orphaned: Json | None
    """`None`: not known."""
    warnings: tuple[str, ...]


def find_loss(view: TableView, own: BranchListing) -> BranchLoss:
    """Return what the deletion of a branch loses. Unreadable documents are only counted by name.

    Args:
        view: Of any branch of the table.
        own: The branch to delete.

    Raises:
        StorageError: A request failed.
    """
    going, unreadable = read_each(view, own.roots())
    warnings = [
        f"{problem}; it is deleted all the same, and its files are not counted" for problem in unreadable.values()
    ]
    try:
        others = view.other_documents([ref.path for ref in own.roots()]).roots
        newly_orphaned = find_newly_orphaned(view, going)
    except RefusedError as error:
        others, found = (), None
        warnings.append(f"the files that only branch {own.name!r} needs are not known: {error}")
    else:
        found = newly_orphaned.to_json()
        about = f"the files that only branch {own.name!r} needs are not known exactly"
        warnings += [f"{about}: {what}" for what in newly_orphaned.unknown]
    known = {content_of(root) for root in others}
    alone = [root for root in going if content_of(root) not in known]
    return BranchLoss(_lost(own, alone, unreadable), found, tuple(warnings))


def read_each(view: TableView, refs: Iterable[RootRef]) -> tuple[tuple[Root, ...], Mapping[str, str]]:
    """Return the readable roots, and for each unreadable one path -> problem. Vanished roots are in neither.

    Raises:
        StorageError: A request failed.
    """
    refs = tuple(refs)
    try:
        return read_roots(view.table.store, refs).roots, {}
    except RefusedError:
        pass  # some roots cannot be read; only one after another shows which
    roots: list[Root] = []
    unreadable: dict[str, str] = {}
    for ref in refs:
        try:
            roots += read_roots(view.table.store, [ref]).roots
        except RefusedError as error:
            unreadable[ref.path] = str(error)
    return tuple(roots), unreadable


def content_of(root: Root) -> bytes:
    """Return the content that a snapshot, its tags and its changelog have in common."""
    try:
        return tag_body(root.body, root.ref.path, None, None)
    except (FormatError, RefusedError):
        return root.body


def _lost(own: BranchListing, alone: Sequence[Root], unreadable: Mapping[str, str]) -> Json:
    paths = {root.ref.path for root in alone} | unreadable.keys()
    snapshots = [root.snapshot for root in alone if root.ref.kind == "snapshot"]
    return {
        "snapshots": [ref.id for ref in own.snapshots if ref.path in paths],
        "changelogs": [ref.id for ref in own.changelogs if ref.path in paths],
        "tags": [ref.name for ref in own.tags if ref.path in paths],
        "rows": max(0, sum(snapshot.delta_record_count or 0 for snapshot in snapshots)),
        "commit_users": sorted({snapshot.commit_user for snapshot in snapshots}),
    }
