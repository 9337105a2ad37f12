"""Deletions of objects: sent to the stores that hold them, or found to be made by an earlier run.

A run that dies between a deletion and the ledger leaves an object that is gone without a record. Lakesweep knows what
that run was about to delete: the lease names its plan, and the ledger has its intents.

On a versioned bucket, a delete marker right above the object proves the deletion and names what brings the object back.
Lakesweep does not send such a deletion again: a second marker would lie above the first, and undo could no longer bring
the object back. A store without versions has no such proof. There, an object that is gone counts as deleted by the run
that was about to delete it.
"""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from lakesweep.errors import ObjectNotFoundError, StorageError
from lakesweep.model.plan import Delete
from lakesweep.model.safety import MARKER_CLOCK_MS
from lakesweep.storage.guard import LateDeleteError
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import DeleteRequest, DeleteResult, HiddenState, Store
from lakesweep.table.stores import TableStores

REWRITTEN = "it was rewritten after the plan was made"
"""Why Lakesweep keeps an object: it is not the object that the plan names."""
_LASTING = ("access_denied", "no_such_bucket")
"""Answers that concern a whole store, and that do not change when Lakesweep asks again."""


def send(
    stores: TableStores,
    deletes: Sequence[Delete],
    before_request: Callable[[], None],
    answered: MutableMapping[str, DeleteResult] | None = None,
) -> dict[str, DeleteResult]:
    """Delete up to 1 000 objects and return path -> result.

    An object that no longer exists is `already_gone`. Some stores report a missing object only as a failed condition;
    such an object counts as `already_gone` too.

    Args:
        stores: Of the table.
        deletes: What to delete.
        before_request: Called right before each request that deletes; raises when nothing more may be deleted.
        answered: Receives path -> result when the guard refuses a request. A path is absent from it when its request
            was sent and no answer is known.

    Raises:
        LateDeleteError: The stores' guard refused a request.
        RefusedError: An object lies outside the table, where it must be kept. Callers leave such objects out.
        StorageError: A request of the table's store failed as a whole; any of its objects may be gone.
    """
    results: dict[str, DeleteResult] = {}
    by_store: dict[str, tuple[Store, list[tuple[Delete, str]]]] = {}
    for delete in deletes:
        store, key = stores.resolve_to_change(delete.kind, delete.path)
        by_store.setdefault(store.location, (store, []))[1].append((delete, key))
    for store, entries in by_store.values():
        requests = [DeleteRequest(key, delete.etag) for delete, key in entries]
        before_request()
        try:
            answers = store.delete(requests)
        except LateDeleteError as error:
            if answered is not None:
                paths = {key: delete.path for delete, key in entries}
                answered.update(results)
                answered.update({paths[answer.key]: answer for answer in error.answers})
            raise
        except StorageError as error:
            if store is stores.table or error.code not in _LASTING:
                raise
            # An external root may be gone for good; the table must not wait for it.
            answers = [DeleteResult(request.key, error.code) for request in requests]
        changed = [answer.key for answer in answers if answer.code == "precondition_failed"]
        gone = frozenset(_gone_among(store, changed))
        results |= {
            delete.path: DeleteResult(key, "already_gone") if key in gone else answer
            for (delete, key), answer in zip(entries, answers, strict=True)
        }
    return results


def _gone_among(store: Store, keys: Sequence[str]) -> Iterable[str]:
    """Yield the keys whose condition failed only because the object no longer exists."""
    with closing(read_many(store, keys, max_bytes=0)) as bodies:
        for key, body in bodies:
            if isinstance(body, ObjectNotFoundError):
                yield key
            elif isinstance(body, StorageError) and body.code != "too_large":
                raise body


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
