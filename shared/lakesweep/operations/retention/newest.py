"""The newest snapshot, before a plan deletes other roots: it must be complete, and it tells which plans are large."""

from collections.abc import Iterable, Sequence

from lakesweep.errors import RefusedError
from lakesweep.model.plan import Action
from lakesweep.runs.view import Draft
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.root_files import RootFiles

CONFIRM_ABOVE_FILES = 1000
"""A call that deletes more data files than this, and more than the newest snapshot has, needs confirmation."""


def refuse_damaged_head(
    draft: Draft,
    reader: MetadataReader,
    latest: RootFiles,
    unreadable: frozenset[str],
    problems: Iterable[str],
    what: str,
) -> None:
    """Refuse if the newest snapshot cannot be read: the roots to delete may be the only ones left to restore.

    Readers need the index manifest as well, and fail without it. They do not need statistics.

    Args:
        draft: The branch.
        reader: Reads the index manifest, if the plan has not done so.
        latest: Its newest snapshot.
        unreadable: Paths of the roots that could not be read completely.
        problems: A sentence about each of these roots, which begins with the root.
        what: What the plan would do next, for the message.

    Raises:
        RefusedError: With code `unreadable_root`.
    """
    problem = next((content.problem for content in latest.unreadable_lists), None)
    if problem is None and latest.root.ref.path in unreadable:
        problem = next(sentence for sentence in problems if sentence.startswith(f"{latest.root.ref} "))
    if problem is None and (name := latest.root.snapshot.index_manifest) is not None:
        content = reader.index_manifests([name])[name]
        problem = content.problem if isinstance(content, Unreadable) else None
    if problem is not None:
        raise RefusedError(
            f"table {draft.table.ref}: the newest snapshot {latest.root.snapshot.id} cannot be read ({problem}); "
            f"expected a readable one before {what}",
            code="unreadable_root",
        )


def is_large(actions: Sequence[Action], latest: RootFiles) -> bool:
    """Tell whether a plan deletes many data files, and more than the newest snapshot has."""
    data = sum(action.phase == "data" for action in actions)
    live = sum(meta.added_count - meta.deleted_count for meta in latest.manifests())
    return data > CONFIRM_ABOVE_FILES and data > live
