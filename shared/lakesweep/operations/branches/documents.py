"""The documents of a branch, as a branch rewrite reads and writes them.

A rollback deletes the documents of all versions after its target. Snapshots are deleted from the newest down, so the
history has no hole after any deletion. Damaged documents are deleted, too, since damage may be the reason for the
rollback.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError, ObjectNotFoundError, StalePlanError
from lakesweep.format.documents import parse_changelog, parse_hint
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.model.document_actions import Former, delete_document, delete_root, write_document
from lakesweep.model.paths.allowed import may_delete
from lakesweep.model.plan import Action, Delete, Put, to_text
from lakesweep.model.roots import BranchListing, Root, RootRef, branch_dir
from lakesweep.operations.branches.rules.history import EARLIEST, History, SchemaDocument
from lakesweep.operations.tags.delete import OwnTags
from lakesweep.operations.tags.options import writes_success_file
from lakesweep.runs.tags.documents import SUCCESS, success_path
from lakesweep.runs.view import TableView
from lakesweep.storage.store import Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, Document, present_documents


def read_history(view: TableView, branch: BranchListing) -> History:
    """Read the documents of a branch. A fast-forward compares two branches by them.

    Raises:
        RefusedError: A document is no valid root.
        StalePlanError: One vanished or changed since it was listed.
        StorageError: A request failed.
    """
    earliest = read_hint_of(view, branch, EARLIEST)
    return History(
        snapshots=view.own_documents(branch.snapshots),
        tags=view.own_documents(branch.tags),
        changelogs=view.own_documents(branch.changelogs),
        schemas=tuple(SchemaDocument(ref, body) for ref, body in read_bodies(view.table.store, branch.schemas)),
        earliest_id=None if earliest is None else parse_hint(earliest.body),
    )


def read_bodies(store: Store, refs: Sequence[Document]) -> Iterator[tuple[Document, bytes]]:
    """Yield documents, or their deletions, with the content, which is not parsed.

    Raises:
        StalePlanError: One vanished or changed since it was listed.
        StorageError: A request failed.
    """
    for ref, body in present_documents(store, refs):
        if body is None:
            raise StalePlanError(f"table {store.location}: {ref.path} vanished while the plan was made")
        if body.etag != ref.etag:
            raise StalePlanError(f"table {store.location}: {ref.path} was written again while the plan was made")
        yield ref, body.data


def read_hint_of(view: TableView, branch: BranchListing, name: str) -> Former | None:
    """Return a hint of a branch as it is now, `None` if the branch has none.

    Raises:
        StalePlanError: The hint vanished since it was listed.
        StorageError: A request failed.
    """
    hint, store = branch.hints.get(name), view.table.store
    if hint is None:
        return None
    try:
        found = store.read(hint.path, max_bytes=MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError as error:
        raise StalePlanError(f"table {store.location}: {hint.path} vanished while the plan was made") from error
    return Former(found.etag, found.data)


def put_hint(view: TableView, phase: str, name: str, snapshot_id: int, reason: str) -> Put:
    """Return the action that writes a hint of the branch, or overwrites its present value.

    Raises:
        StalePlanError: The hint vanished since it was listed.
        StorageError: The hint cannot be read.
    """
    path = f"{branch_dir(view.own.name)}{name}"
    return write_document(phase, "hint", path, str(snapshot_id).encode(), reason, read_hint_of(view, view.own, name))


def lost_rows(before: Snapshot | None, after: Snapshot) -> int | None:
    """Return how many rows fewer `after` has, `None` if one of the counts is not known."""
    counts = (None if before is None else before.total_record_count, after.total_record_count)
    return None if counts[0] is None or counts[1] is None else counts[0] - counts[1]


@dataclass(frozen=True, slots=True)
class RemovedDocuments:
    """The documents to delete, and the roots in them."""

    tag_actions: tuple[Delete, ...]
    """The deletions of tags, which come first."""
    actions: tuple[Action, ...]
    """All other actions."""
    roots: tuple[Root, ...]
    """The readable roots."""
    snapshot_ids: tuple[int, ...]
    """Ascending."""
    changelog_ids: tuple[int, ...]
    """Ascending."""
    tags: tuple[str, ...]
    """By name."""

    @property
    def newest(self) -> Snapshot | None:
        """Return the newest snapshot to delete, `None` if it cannot be read."""
        found = [root.snapshot for root in self.roots if root.ref.kind == "snapshot"]
        return next((each for each in found if self.snapshot_ids and each.id == self.snapshot_ids[-1]), None)

    @property
    def commit_users(self) -> tuple[str, ...]:
        """Return the commit users of the snapshots to delete, by the age of their snapshots, oldest first."""
        snapshots = [root.snapshot for root in self.roots if root.ref.kind == "snapshot"]
        return tuple(dict.fromkeys(each.commit_user for each in sorted(snapshots, key=lambda each: each.id)))


def withdrawal(view: TableView, tags: OwnTags, snapshot_id: int) -> RemovedDocuments:
    """Return the documents that a rollback to a snapshot deletes.

    Args:
        view: The branch.
        tags: Its tags.
        snapshot_id: The newest snapshot to keep.

    Raises:
        RefusedError: A document has a later format version than this program knows.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    own = view.own
    snapshots = [ref for ref in reversed(own.snapshots) if ref.id > snapshot_id]
    changelogs = [ref for ref in reversed(own.changelogs) if ref.id > snapshot_id]
    names = sorted(
        (name for name, root in tags.roots.items() if root.snapshot.id > snapshot_id),
        key=lambda name: (-tags.snapshot_id(name), name),
    )
    why = f"it is later than snapshot {snapshot_id}"
    documents = list(read_bodies(view.table.store, (*snapshots, *changelogs)))
    deletes = [_delete(ref, body, why) for ref, body in documents]
    return RemovedDocuments(
        tag_actions=tuple(action for name in names for action in _tag_deletes(view, tags.roots[name], why)),
        actions=(
            *deletes[: len(snapshots)],
            *_changelog_hint(view, changelogs, snapshot_id),
            *deletes[len(snapshots) :],
        ),
        roots=(
            *(root for ref, body in documents if (root := _root(ref, body)) is not None),
            *(tags.roots[name] for name in names),
        ),
        snapshot_ids=tuple(sorted(ref.id for ref in snapshots)),
        changelog_ids=tuple(sorted(ref.id for ref in changelogs)),
        tags=tuple(sorted(names)),
    )


def _root(ref: RootRef, body: bytes) -> Root | None:
    try:
        snapshot = (parse_changelog if ref.kind == "changelog" else parse_snapshot)(body, ref.path)
    except FormatError:
        return None
    return Root(ref, snapshot, body) if snapshot.id == ref.id else None


def _delete(ref: RootRef, body: bytes, why: str) -> Delete:
    is_snapshot = ref.kind == "snapshot"
    phase, kind = ("withdraw", "snapshot") if is_snapshot else ("withdraw_changelogs", "changelog_document")
    return delete_document(phase, kind, ref, body, why)


def _changelog_hint(view: TableView, going: Sequence[RootRef], snapshot_id: int) -> Iterator[Put]:
    """Yield the new LATEST of changelogs before their deletion; -1 if none remains. Source: Paimon `RollbackHelper`."""
    if not going:
        return
    staying = [ref.id for ref in view.own.changelogs if ref.id <= snapshot_id]
    latest = staying[-1] if staying else -1
    why = f"the changelogs up to {latest} are kept" if staying else "no changelog is kept"
    yield put_hint(view, "withdraw_changelogs", "changelog/LATEST", latest, why)


def _tag_deletes(view: TableView, root: Root, why: str) -> Iterator[Delete]:
    yield delete_root("withdraw_tags", root, why)
    path = success_path(view.own.name, root.ref.name)
    if not writes_success_file(view.schema.options) or not may_delete(SUCCESS, path):
        return
    try:
        found = view.table.store.read(path, max_bytes=MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return
    reason = f"tag {root.ref.name} is deleted"
    yield Delete("withdraw_tags", SUCCESS, path, len(found.data), reason, etag=found.etag, body=to_text(found.data))
