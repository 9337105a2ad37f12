"""Send deletions to the stores that hold the objects, and interpret the answers."""

from collections.abc import Callable, Iterable, MutableMapping, Sequence

from lakesweep.errors import ObjectNotFoundError, StorageError
from lakesweep.model.plan import Delete
from lakesweep.storage.guard import LateDeleteError
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store
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
    for key, body in read_many(store, keys, max_bytes=0):
        if isinstance(body, ObjectNotFoundError):
            yield key
        elif isinstance(body, StorageError) and body.code != "too_large":
            raise body
