"""What earlier runs of a plan deleted and could not write down.

A run that dies between a deletion and the ledger leaves an object that is gone without a word about it. What that run
was about to delete is known: the lease names its plan, and the ledger has its intents. On a bucket with versions a
delete marker right above the object tells the rest, and names what brings it back. To send such a deletion again would
lay a second marker above the first, from below which nothing comes back. A store without versions does not tell; there
an object that is gone counts as deleted by the run that was about to do it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lakesweep.errors import StorageError
from lakesweep.model.plan import Delete
from lakesweep.storage.store import DeleteResult, HiddenState, Store
from lakesweep.table.stores import TableStores

BY_MARKER = "an earlier run of the plan deleted it and could not write that down; its delete marker tells"
"""Why a result is in the ledger of a run that did not send the deletion."""
BY_INTENT = "an earlier run of the plan was about to delete it and could not write more down"
_CHUNK = 1000
_SILENT = frozenset({"access_denied", "no_such_bucket", "not_implemented"})
"""Answers of a store that does not list versions, now or later. Nobody can undo there either."""
_CLOCK_MS = 5_000
"""S3 tells the time of a marker in whole seconds, and its clock may be a little ahead of what a plan says."""


@dataclass(slots=True)
class EarlierDeletions:
    """What became of objects that earlier runs were about to delete."""

    deleted: dict[str, DeleteResult] = field(default_factory=dict)
    """By path, what they deleted."""
    untold: set[str] = field(default_factory=set)
    """Paths of which the store cannot tell: if they turn out to be gone, the intent tells."""


def earlier_deletions(
    stores: TableStores, suspects: Sequence[Delete], created_ms: int, check: Callable[[], None]
) -> EarlierDeletions:
    """Return what earlier runs of a plan deleted of what they were about to delete.

    Args:
        stores: Of the table.
        suspects: What they were about to delete, and of which no answer is known.
        created_ms: When the plan was made. A file that was deleted before is somebody else's work.
        check: Called before each thousand objects; raises when the run must not go on.

    Raises:
        StorageError: A request failed.
    """
    found = EarlierDeletions()
    by_store: dict[str, tuple[Store, list[tuple[Delete, str]]]] = {}
    for delete in suspects:
        store, key = stores.resolve(delete.path)
        by_store.setdefault(store.location, (store, []))[1].append((delete, key))
    for store, entries in by_store.values():
        for start in range(0, len(entries), _CHUNK):
            check()
            chunk = entries[start : start + _CHUNK]
            try:
                states = store.hidden([key for _, key in chunk])
            except StorageError as error:
                if error.code not in _SILENT:
                    raise
                found.untold.update(delete.path for delete, _ in entries[start:])
                break
            for (delete, key), state in zip(chunk, states, strict=True):
                if state.code == "unknown":
                    found.untold.add(delete.path)
                elif _is_of_plan(delete, state, created_ms):
                    found.deleted[delete.path] = DeleteResult(key, "deleted", state.version_id)
    return found


def _is_of_plan(delete: Delete, state: HiddenState, created_ms: int) -> bool:
    """Tell whether a marker hides what the plan means. A document with its ETag was there when the plan was made."""
    if state.code != "hidden":
        return False
    if delete.etag is not None:
        return state.etag == delete.etag
    return state.deleted_ms >= created_ms - _CLOCK_MS
