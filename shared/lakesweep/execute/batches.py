"""Batches and steps of a plan. One recheck covers one batch. A step must be complete before the next step begins."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.model.plan import Action, Delete
from lakesweep.storage.store import DeleteResult

BATCH_KEYS = 1000
"""Deletes that share one recheck and one ledger entry: as many as one DeleteObjects request takes."""
DOCUMENT_PHASE = "documents"
TAG_PHASE = "tags"
ROOT_KINDS = frozenset({"snapshot", "changelog_document", "tag"})
"""Kinds of documents that name files."""
FILES_STEP = "files"
CONSUMER_PHASE = "consumers"
HEAD_PHASES = ("latest", "changelog_documents", DOCUMENT_PHASE, "hints", TAG_PHASE)
"""Phases that come before the first file is deleted."""


def batches(actions: Sequence[Action]) -> Iterator[tuple[Action, ...]]:
    """Split actions, in their order, into batches; one recheck covers one batch.

    Documents and hints form batches of their own, so a recheck lies between them and the first data file.
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
    """Tell whether an action comes before the first file is deleted."""
    return action.phase in HEAD_PHASES


def removed_roots(actions: Iterable[Action]) -> tuple[Delete, ...]:
    """Return the plan's deletions of snapshots, changelogs and tags."""
    return tuple(
        action
        for action in actions
        if isinstance(action, Delete) and action.phase in (DOCUMENT_PHASE, TAG_PHASE) and action.kind in ROOT_KINDS
    )


def step_of(action: Action) -> str:
    """Return the step of an action: one step for each phase of the head, and one step for all files together.

    A step must be complete before the next one begins. No root refers to a file of the plan, and the stored plan names
    all of them, so their order does not matter.
    """
    if action.kind == "tag_success":
        return action.kind  # the success file says that its tag exists, so it follows the tag
    return action.phase if is_head(action) or action.phase == CONSUMER_PHASE else FILES_STEP


def id_of(path: str) -> int:
    """Return the id in the path of a snapshot or changelog document."""
    return int(path.rpartition("-")[2])


def outcome_of(deletes: Sequence[Delete], results: Mapping[str, DeleteResult], kept_count: int) -> Outcome:
    """Sum up the results of one batch."""
    gone = [delete for delete in deletes if results[delete.path].code == "deleted"]
    return Outcome(
        deleted=len(gone),
        already_gone=sum(results[delete.path].code == "already_gone" for delete in deletes),
        failed=tuple(
            FailedDelete(delete.path, results[delete.path].code) for delete in deletes if not results[delete.path].ok
        ),
        kept_by_recheck=kept_count,
        deleted_bytes=sum(delete.size_bytes or 0 for delete in gone),
    )
