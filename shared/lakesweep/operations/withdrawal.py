"""What goes of a branch when it goes back to a snapshot: the documents of all later versions.

Snapshots go from the newest down, so what is left is a history without a hole after each of them. A document that is
damaged goes as well: a table may be rolled back for just that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError, ObjectNotFoundError, StalePlanError, StorageError
from lakesweep.format.changelog import parse_changelog
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.model.allowed import may_delete
from lakesweep.model.plan import Action, Delete, Put, to_text
from lakesweep.model.roots import Root, RootRef
from lakesweep.model.table_ref import branch_dir
from lakesweep.operations.draft import Draft
from lakesweep.operations.tag_documents import SUCCESS, TAG, success_path
from lakesweep.operations.tag_options import writes_success_file
from lakesweep.operations.tag_removal import OwnTags
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Body
from lakesweep.table.documents import MAX_DOCUMENT_BYTES


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What goes, and what that was."""

    tag_actions: tuple[Delete, ...]
    """Of tags: what comes first of all."""
    actions: tuple[Action, ...]
    """Of all else."""
    roots: tuple[Root, ...]
    """Those that could be read."""
    snapshot_ids: tuple[int, ...]
    """Ascending."""
    changelog_ids: tuple[int, ...]
    """Ascending."""
    tags: tuple[str, ...]
    """By name."""

    @property
    def newest(self) -> Snapshot | None:
        """Return the newest snapshot that goes, `None` where it cannot be read."""
        found = [root.snapshot for root in self.roots if root.ref.kind == "snapshot"]
        return next((each for each in found if self.snapshot_ids and each.id == self.snapshot_ids[-1]), None)

    @property
    def commit_users(self) -> tuple[str, ...]:
        """Return who committed what goes, the first ones first."""
        snapshots = [root.snapshot for root in self.roots if root.ref.kind == "snapshot"]
        return tuple(dict.fromkeys(each.commit_user for each in sorted(snapshots, key=lambda each: each.id)))


def withdrawal(draft: Draft, tags: OwnTags, snapshot_id: int) -> Withdrawal:
    """Return what goes when a branch goes back to a snapshot.

    Args:
        draft: The branch.
        tags: Its tags.
        snapshot_id: The newest one that stays.

    Raises:
        RefusedError: A document of a later version than this program knows.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    own = draft.own
    snapshots = [ref for ref in reversed(own.snapshots) if ref.id > snapshot_id]
    changelogs = [ref for ref in reversed(own.changelogs) if ref.id > snapshot_id]
    names = sorted(
        (name for name, root in tags.roots.items() if root.snapshot.id > snapshot_id),
        key=lambda name: (-tags.snapshot_id(name), name),
    )
    why = f"it is later than snapshot {snapshot_id}"
    documents = _read(draft, (*snapshots, *changelogs))
    deletes = [_delete(ref, documents[ref.path], why) for ref in (*snapshots, *changelogs)]
    return Withdrawal(
        tag_actions=tuple(action for name in names for action in _tag_deletes(draft, tags.roots[name], why)),
        actions=(
            *deletes[: len(snapshots)],
            *_changelog_hint(draft, changelogs, snapshot_id),
            *deletes[len(snapshots) :],
        ),
        roots=(
            *(root for ref in (*snapshots, *changelogs) if (root := _root(ref, documents[ref.path])) is not None),
            *(tags.roots[name] for name in names),
        ),
        snapshot_ids=tuple(sorted(ref.id for ref in snapshots)),
        changelog_ids=tuple(sorted(ref.id for ref in changelogs)),
        tags=tuple(sorted(names)),
    )


def put_hint(draft: Draft, phase: str, path: str, snapshot_id: int, reason: str) -> Put:
    """Return what writes a hint of the branch, over what it says now.

    Raises:
        StorageError: It cannot be read.
    """
    path = f"{branch_dir(draft.own.name)}{path}"
    try:
        found = draft.table.store.read(path, max_bytes=MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return Put(phase, "hint", path, str(snapshot_id), reason, if_absent=True)
    return Put(phase, "hint", path, str(snapshot_id), reason, etag=found.etag, former=to_text(found.data))


def _read(draft: Draft, refs: Sequence[RootRef]) -> dict[str, Body]:
    """Read documents as they are.

    Raises:
        StalePlanError: One is gone, or another one than was listed.
        StorageError: A request failed.
    """
    store = draft.table.store
    found: dict[str, Body] = {}
    bodies = read_many(store, [ref.path for ref in refs], max_bytes=MAX_DOCUMENT_BYTES)
    for ref, (_, body) in zip(refs, bodies, strict=True):
        if isinstance(body, ObjectNotFoundError):
            raise StalePlanError(f"table {store.location}: {ref.path} vanished while the plan was made")
        if isinstance(body, StorageError):
            raise body
        if body.etag != ref.etag:
            raise StalePlanError(f"table {store.location}: {ref.path} was written again while the plan was made")
        found[ref.path] = body
    return found


def _root(ref: RootRef, body: Body) -> Root | None:
    try:
        snapshot = (parse_changelog if ref.kind == "changelog" else parse_snapshot)(body.data, ref.path)
    except FormatError:
        return None
    return Root(ref, snapshot, body.data) if snapshot.id == ref.id else None


def _delete(ref: RootRef, body: Body, why: str) -> Delete:
    is_snapshot = ref.kind == "snapshot"
    phase, kind = ("withdraw", "snapshot") if is_snapshot else ("withdraw_changelogs", "changelog_document")
    return Delete(phase, kind, ref.path, ref.size_bytes, why, etag=ref.etag, body=to_text(body.data))


def _changelog_hint(draft: Draft, going: Sequence[RootRef], snapshot_id: int) -> Iterator[Put]:
    """Yield the changelogs' LATEST before they go; -1 where none stays. Source: Paimon `RollbackHelper`."""
    if not going:
        return
    staying = [ref.id for ref in draft.own.changelogs if ref.id <= snapshot_id]
    latest = staying[-1] if staying else -1
    why = f"the changelogs up to {latest} stay" if staying else "no changelog stays"
    yield put_hint(draft, "withdraw_changelogs", "changelog/LATEST", latest, why)


def _tag_deletes(draft: Draft, root: Root, why: str) -> Iterator[Delete]:
    ref = root.ref
    yield Delete("withdraw_tags", TAG, ref.path, ref.size_bytes, why, etag=ref.etag, body=to_text(root.body))
    path = success_path(draft.own.name, ref.name)
    if not writes_success_file(draft.schema.options) or not may_delete(SUCCESS, path):
        return
    try:
        found = draft.table.store.read(path, max_bytes=MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return
    reason = f"tag {ref.name} goes"
    yield Delete("withdraw_tags", SUCCESS, path, len(found.data), reason, etag=found.etag, body=to_text(found.data))
