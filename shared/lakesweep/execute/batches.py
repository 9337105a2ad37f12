"""Batches: what of a plan one look covers, and what must be complete before the next thing begins."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.model.plan import Action, Delete
from lakesweep.storage.store import DeleteResult

BATCH_KEYS = 1000
"""Deletes that share one look and one ledger entry, as many as one DeleteObjects request takes."""
DOCUMENT_PHASE = "documents"
TAG_PHASE = "tags"
ROOT_KINDS = frozenset({"snapshot", "changelog_document", "tag"})
"""Kinds of documents that hold files."""
FILES_STEP = "files"
CONSUMER_PHASE = "consumers"
HEAD_PHASES = ("latest", "changelog_documents", DOCUMENT_PHASE, "hints", TAG_PHASE)
"""What happens before the first file goes."""


def batches(actions: Sequence[Action]) -> Iterator[tuple[Action, ...]]:
    """Split actions, in their order, into what one look covers.

    Documents and hints make batches of their own, so that a look lies between them and the first data file.
    """
    batch: list[Action] = []
    for action in actions:
        boundary = bool(batch) and is_head(batch[-1]) != is_head(action)
        if boundary or len(batch) >= BATCH_KEYS:
            yield tuple(batch)
            batch = []
        batch.append(action)
    if batch:
        yield tuple(batch)


def is_head(action: Action) -> bool:
    """Tell whether an action comes before the first file goes."""
    return action.phase in HEAD_PHASES


def removed_roots(actions: Iterable[Action]) -> tuple[Delete, ...]:
    """Return the deletions of snapshots, changelogs and tags that a plan is about."""
    return tuple(
        action
        for action in actions
        if isinstance(action, Delete) and action.phase in (DOCUMENT_PHASE, TAG_PHASE) and action.kind in ROOT_KINDS
    )


def step_of(action: Action) -> str:
    """Return what must be complete before the next thing begins: each phase of the head, and all files together.

    No root refers to a file that goes, and the stored plan knows them all, so their order among each other does not
    matter.
    """
    if action.kind == "tag_success":
        return action.kind  # it says of a tag that it is there, so it follows its tag
    return action.phase if is_head(action) or action.phase == CONSUMER_PHASE else FILES_STEP


def id_of(path: str) -> int:
    """Return the id in the path of a snapshot or changelog document."""
    return int(path.rpartition("-")[2])


def outcome_of(deletes: Sequence[Delete], results: Mapping[str, DeleteResult], kept_count: int) -> Outcome:
    """Fold the results of one batch."""
    gone = [delete for delete in deletes if results[delete.path].code == "deleted"]
    return Outcome(
        deleted=len(gone),
        already_gone=sum(results[delete.path].code == "already_gone" for delete in deletes),
        failed=tuple(
            FailedDelete(delete.path, results[delete.path].code) for delete in deletes if not results[delete.path].ok
        ),
        kept_by_look=kept_count,
        deleted_bytes=sum(delete.size_bytes or 0 for delete in gone),
    )
