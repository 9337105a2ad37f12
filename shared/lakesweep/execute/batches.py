"""Batches and steps of a plan. One recheck covers one batch. A step must be complete before the next step begins.

The intent must name some expiring snapshots one by one, because the end id of an expiry does not cover them. When a
plan deletes the last tags of a snapshot, no document of the snapshot is left. When a branch rewrite removes snapshots
from the branch, nothing keeps their files from then on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakesweep.errors import FormatError
from lakesweep.format.tag import parse_tag
from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.model.plan import Action, Delete, Plan, Put, moves_roots, to_bytes
from lakesweep.model.roots import branch_dir
from lakesweep.storage.store import DeleteResult

BATCH_KEYS = 1000
"""Deletes that share one recheck and one ledger entry: as many as one DeleteObjects request takes."""
DOCUMENT_PHASE = "documents"
TAG_PHASE = "tags"
ROOT_KINDS = frozenset({"snapshot", "changelog_document", "tag"})
"""Kinds of documents that name files."""
FILES_STEP = "files"
CONSUMER_PHASE = "consumers"
HINT_PHASE = "hints"
HEAD_PHASES = ("latest", "changelog_documents", DOCUMENT_PHASE, HINT_PHASE, TAG_PHASE)
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


def last_hints(batch: Sequence[Action]) -> tuple[tuple[Action, ...], tuple[Put, ...]]:
    """Split a batch into its actions and the hints that it writes last."""
    hints = tuple(action for action in batch if isinstance(action, Put) and action.phase == HINT_PHASE)
    rest = tuple(batch[: len(batch) - len(hints)])
    return (rest, hints) if (*rest, *hints) == tuple(batch) else (tuple(batch), ())


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


def root_id_of(delete: Delete) -> int | None:
    """Return the snapshot id of a document to delete; a tag holds it inside. `None`: the tag cannot be parsed."""
    if delete.phase == DOCUMENT_PHASE:
        return id_of(delete.path)
    try:
        return parse_tag(to_bytes(delete.body or ""), delete.path).snapshot.id
    except FormatError:
        return None


def expiring_snapshots(plan: Plan) -> tuple[int, ...]:
    """Return the ids of expiring snapshots that the plan's end id does not cover.

    For a deletion of tags these are snapshots that were already gone when the plan was made: their files are deleted
    with the tags. For a branch rewrite these are the snapshots that the plan removes from the branch. A run that makes
    a new tag of one of these snapshots must withdraw it.
    """
    if moves_roots(plan.actions):
        folder = f"{branch_dir(plan.header.branch)}snapshot/snapshot-"
        withdrawn = {delete.path for delete in plan.deletes if delete.kind == "snapshot"}
        return tuple(sorted(id_of(path) for path in withdrawn if path.startswith(folder)))
    if all(map(is_head, plan.actions)):
        return ()  # the plan deletes no file
    tagged = {root_id_of(delete) for delete in removed_roots(plan.actions) if delete.kind == "tag"}
    folder = f"{branch_dir(plan.header.branch)}snapshot/snapshot-"
    return tuple(sorted(i for i in tagged if i is not None and f"{folder}{i}" not in plan.header.roots_seen))
