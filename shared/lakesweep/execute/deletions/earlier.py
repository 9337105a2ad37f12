"""Objects that earlier runs of a plan deleted without recording it.

A run that dies between a deletion and the ledger leaves an object that is gone without a record. Lakesweep knows what
that run was about to delete: the lease names its plan, and the ledger has its intents.

On a versioned bucket, a delete marker right above the object proves the deletion and names what brings the object back.
Lakesweep does not send such a deletion again: a second marker would lie above the first, and undo could no longer bring
the object back. A store without versions has no such proof. There, an object that is gone counts as deleted by the run
that was about to delete it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lakesweep.errors import StorageError
from lakesweep.model.plan import Delete
from lakesweep.model.safety import MARKER_CLOCK_MS
from lakesweep.storage.store import DeleteResult, HiddenState, Store
from lakesweep.table.stores import TableStores

BY_MARKER = "an earlier run of the plan deleted it without recording that; its delete marker is the proof"
"""Why the ledger of a run has a result for a deletion that this run did not send."""
BY_INTENT = "an earlier run of the plan was about to delete it, and recorded no result"
_CHUNK = 1000
_SILENT = frozenset({"access_denied", "no_such_bucket", "not_implemented"})
"""Codes of a store that does not list versions, now or later. Undo is impossible there as well."""


@dataclass(slots=True)
class EarlierDeletions:
    """What became of the objects that earlier runs were about to delete."""

    deleted: dict[str, DeleteResult] = field(default_factory=dict)
    """By path: deletions that an earlier run is known to have made."""
    untold: set[str] = field(default_factory=set)
    """Paths for which the store gives no answer. If such an object turns out to be gone, the intent is the proof."""


def earlier_deletions(
    stores: TableStores, suspects: Sequence[Delete], created_ms: int, check: Callable[[], None]
) -> EarlierDeletions:
    """Return which of the suspected objects earlier runs of a plan deleted.

    Args:
        stores: Of the table.
        suspects: Deletions that earlier runs were about to send, and whose answers are not known.
        created_ms: When the plan was made. A file that was deleted before that time was deleted by somebody else.
        check: Called before each thousand objects; raises when the run must stop.

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
    """Tell whether a marker hides the object in the plan.

    A document with the plan's ETag existed when the plan was made.
    """
    if state.code != "hidden":
        return False
    if delete.etag is not None:
        return state.etag == delete.etag
    return state.deleted_ms >= created_ms - MARKER_CLOCK_MS
