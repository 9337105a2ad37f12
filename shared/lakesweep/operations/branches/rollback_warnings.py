"""What people should know before a rollback: who else reads and writes the branch, and what does not change."""

from collections.abc import Iterator

from lakesweep.errors import RefusedError
from lakesweep.model.roots import Root
from lakesweep.model.wording import some_of
from lakesweep.operations.branches.removed_documents import Withdrawal
from lakesweep.operations.tags.options import is_write_only
from lakesweep.operations.tags.removal import OwnTags
from lakesweep.runs.memory import doubt
from lakesweep.runs.view import Draft
from lakesweep.table.documents import read_consumers
from lakesweep.table.metadata import MetadataReader, Unreadable

_NAMED = 5


def rollback_warnings(
    draft: Draft, target: Root, tags: OwnTags, going: Withdrawal, *, comes_back: bool
) -> Iterator[str]:
    """Yield sentences about a rollback.

    Args:
        draft: The branch.
        target: The target of the rollback.
        tags: The tags of the branch.
        going: The documents to delete.
        comes_back: Only a tag holds the target, so the plan writes its snapshot again.

    Raises:
        StorageError: A request failed.
    """
    snapshot_id = target.snapshot.id
    yield (
        f"stop the writers of {draft.table.ref} before, and start them again after: a writer that continues from a "
        f"later snapshot than {snapshot_id} fails, or commits on top of a deleted snapshot"
    )
    yield from _consumers(draft, snapshot_id)
    for name, problem in tags.unreadable.items():
        yield f"tag {name} cannot be read, so it is kept ({problem})"
    if not is_write_only(draft.schema.options):
        yield (
            "writers of this table may expire its snapshots themselves; one that does so right now may delete files "
            f"of snapshot {snapshot_id} after the last check of them"
        )
    if comes_back:
        hidden = [ref.id for ref in draft.own.snapshots if ref.id < snapshot_id]
        if hidden:
            yield (
                f"EARLIEST will name snapshot {snapshot_id}, so {len(hidden)} older snapshots ({hidden[0]} to "
                f"{hidden[-1]}) are kept but no longer found"
            )
        if _has_lost_changelog(draft, target):
            yield (
                f"the changelog of snapshot {snapshot_id} has expired, and its document still names it: keep tag "
                f"{target.ref.name} as long as the snapshot, or else the scan for orphan files reports it as damaged"
            )
    latest = draft.schema.id
    if target.snapshot.schema_id != latest:
        yield (
            f"schemas do not change: snapshot {snapshot_id} was committed under schema {target.snapshot.schema_id}, "
            f"and readers and writers continue with schema {latest}"
        )
    damaged = len(going.snapshot_ids) - sum(root.ref.kind == "snapshot" for root in going.roots)
    if damaged:
        yield f"{damaged} of the snapshots to delete cannot be read, so their files are not counted"


def _has_lost_changelog(draft: Draft, target: Root) -> bool:
    """Tell whether an expiry deleted the target's changelog list, as it does for a tagged snapshot."""
    name = target.snapshot.changelog_manifest_list
    if name is None:
        return False
    doubt(draft.table, (name,))
    content = MetadataReader(draft.table.store).manifest_lists({name: None})[name]
    return isinstance(content, Unreadable) and content.missing


def _consumers(draft: Draft, snapshot_id: int) -> Iterator[str]:
    """Warn of readers that are beyond the target: they fail, since they wait for an id that a new commit will get."""
    try:
        consumers = read_consumers(draft.table.store, draft.own.consumers)
    except RefusedError as error:
        yield f"a consumer cannot be read, so it is not known whether it is beyond the target: {error}"
        return
    ahead = sorted(name for name, next_id in consumers.items() if next_id > snapshot_id + 1)
    if ahead:
        yield (
            f"readers are beyond snapshot {snapshot_id} and fail until their consumers are reset or deleted: "
            f"consumer{'s'[: len(ahead) != 1]} {some_of(ahead, _NAMED)}"
        )
