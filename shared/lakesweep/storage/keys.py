"""Keys: relative paths below a store's root."""

from collections.abc import Sequence

from lakesweep.errors import StorageError
from lakesweep.storage.store import DeleteRequest, UndeleteRequest

SINGLE_DELETES = 16
"""Up to so many deletions with a condition are requests of their own, which most servers check."""
MAX_DELETE_KEYS = 1000
"""Keys in one call of `Store.delete`."""


def is_key(key: str) -> bool:
    """Tell whether `key` names one object below the root: no part is empty, `.` or `..`, no NUL, and it is text.

    A local file name that is no UTF-8 reaches Python as lone surrogates, which no plan or ledger could hold.
    """
    if "\0" in key or any(part in ("", ".", "..") for part in key.split("/")):
        return False
    return key.isascii() or not any("\ud800" <= character <= "\udfff" for character in key)


def check_key(key: str, location: str) -> str:
    """Return `key` when it names one object below the root; see `is_key`.

    Raises:
        StorageError: With code `bad_key`.
    """
    if not is_key(key):
        raise StorageError(
            f"{location}: expected a relative key in UTF-8 without empty or dot parts, found {key!r}", code="bad_key"
        )
    return key


def check_prefix(prefix: str, location: str) -> str:
    """Return `prefix` when it is empty or a folder with its closing slash.

    Raises:
        StorageError: With code `bad_key`.
    """
    if prefix:
        if not prefix.endswith("/"):
            raise StorageError(f"{location}: expected a folder with a closing slash, found {prefix!r}", code="bad_key")
        check_key(prefix[:-1], location)
    return prefix


def count_deletes(requests: Sequence[DeleteRequest], location: str) -> int:
    """Return how many requests to a store these deletes are: one for all without an ETag, one for each with it.

    Raises:
        StorageError: More keys than a call may hold.
    """
    check_count(requests, location)
    conditional = sum(request.etag is not None for request in requests)
    return conditional + (conditional < len(requests))


def check_count(requests: Sequence[DeleteRequest] | Sequence[UndeleteRequest], location: str) -> None:
    """Refuse more keys than a call may hold.

    Raises:
        StorageError: With code `too_many`.
    """
    if len(requests) > MAX_DELETE_KEYS:
        raise StorageError(
            f"{location}: expected at most {MAX_DELETE_KEYS} keys to delete, found {len(requests)}", code="too_many"
        )
