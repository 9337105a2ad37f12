"""Keys: relative paths below a store's root."""

from collections.abc import Sequence

from lakesweep.errors import StorageError
from lakesweep.storage.store import Body, DeleteRequest, UndeleteRequest

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


def check_range(start: int, length: int, where: str) -> None:
    """Refuse a range that holds nothing, or begins before the object.

    Raises:
        StorageError: It does.
    """
    if start < 0 or length < 1:
        raise StorageError(
            f"read {where}: expected a range of at least one byte, found {length} bytes from byte {start}",
            code="bad_range",
        )


def too_short(start: int, length: int, found: int, where: str) -> StorageError:
    """Return the error of a range that an object ends before.

    Args:
        start: Of the range.
        length: Of the range.
        found: How many bytes of it there are.
        where: Which object, for messages.
    """
    return StorageError(
        f"read {where}: expected {length} bytes from byte {start}, found {max(found, 0)}", code="too_short"
    )


def part_of(body: Body, start: int, length: int, where: str) -> Body:
    """Return a part of a body, as `Store.read_range` does of an object.

    Raises:
        StorageError: It ends before, or no such range can be asked for.
    """
    check_range(start, length, where)
    data = body.data[start : start + length]
    if len(data) < length:
        raise too_short(start, length, len(data), where)
    return Body(data, body.etag)


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
