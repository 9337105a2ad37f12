"""The newest snapshot, before anything goes that other roots hold: it must be whole, and it is what "much" means."""

from collections.abc import Iterable, Sequence

from lakesweep.errors import RefusedError
from lakesweep.model.plan import Action
from lakesweep.operations.draft import Draft
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.root_files import RootFiles

CONFIRM_ABOVE_FILES = 1000
"""A call that takes more data files than this, and more than the newest snapshot has, is confirmed."""


def refuse_damaged_head(
    draft: Draft,
    reader: MetadataReader,
    latest: RootFiles,
    unreadable: frozenset[str],
    problems: Iterable[str],
    what: str,
) -> None:
    """Refuse when the newest snapshot cannot be read: what is to go may be all that is left to go back to.

    Readers need the index manifest as well, and fail without it. They do not need statistics.

    Args:
        draft: The branch.
        reader: Reads the index manifest, where the plan did not.
        latest: Its newest snapshot.
        unreadable: Paths of the roots that could not be read whole.
        problems: A sentence about each of them, which begins with the root.
        what: Is to go, for the sentence.

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
    """Tell whether a plan takes many data files, and more than the newest snapshot has."""
    data = sum(action.phase == "data" for action in actions)
    live = sum(meta.added_count - meta.deleted_count for meta in latest.manifests())
    return data > CONFIRM_ABOVE_FILES and data > live
