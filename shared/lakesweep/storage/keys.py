"""Keys: relative paths below a store's root."""

from collections.abc import Sequence

from lakesweep.errors import StorageError
from lakesweep.storage.store import Body, DeleteRequest, UndeleteRequest

SINGLE_DELETES = 16
"""Up to this many conditional deletions are sent as single requests, whose condition most servers check."""
MAX_DELETE_KEYS = 1000
"""Keys in one call of `Store.delete`."""


def is_key(key: str) -> bool:
    """Tell whether `key` names one object below the root: valid text without NUL, and no part is empty, `.` or `..`.

    In Python, a local file name that is not UTF-8 contains lone surrogates. No plan or ledger could store it.
    """
    if "\0" in key or any(part in ("", ".", "..") for part in key.split("/")):
        return False
    return key.isascii() or not any("\ud800" <= character <= "\udfff" for character in key)


def check_key(key: str, location: str) -> str:
    """Return `key` if it names one object below the root; see `is_key`.

    Raises:
        StorageError: With code `bad_key`.
    """
    if not is_key(key):
        raise StorageError(
            f"{location}: expected a relative key in UTF-8 without empty or dot parts, found {key!r}", code="bad_key"
        )
    return key


def check_range(start: int, length: int, where: str) -> None:
    """Refuse a range that is empty, or begins before the object.

    Raises:
        StorageError: With code `bad_range`.
    """
    if start < 0 or length < 1:
        raise StorageError(
            f"read {where}: expected a range of at least one byte, found {length} bytes from byte {start}",
            code="bad_range",
        )


def too_short(start: int, length: int, found: int, where: str) -> StorageError:
    """Return the error for a range that is longer than its object.

    Args:
        start: The begin of the range.
        length: The length of the range.
        found: How many bytes of it exist.
        where: The object, for messages.
    """
    return StorageError(
        f"read {where}: expected {length} bytes from byte {start}, found {max(found, 0)}", code="too_short"
    )


def part_of(body: Body, start: int, length: int, where: str) -> Body:
    """Return a part of a body, as `Store.read_range` does for an object.

    Raises:
        StorageError: The body ends before, or the range is invalid.
    """
    check_range(start, length, where)
    data = body.data[start : start + length]
    if len(data) < length:
        raise too_short(start, length, len(data), where)
    return Body(data, body.etag)


def check_prefix(prefix: str, location: str) -> str:
    """Return `prefix` if it is empty or a folder with its trailing slash.

    Raises:
        StorageError: With code `bad_key`.
    """
    if prefix:
        if not prefix.endswith("/"):
            raise StorageError(f"{location}: expected a folder with a closing slash, found {prefix!r}", code="bad_key")
        check_key(prefix[:-1], location)
    return prefix


def count_deletes(requests: Sequence[DeleteRequest], location: str) -> int:
    """Return the number of requests for these deletes: one for all without an ETag, one for each with an ETag.

    Raises:
        StorageError: There are more keys than one call may have.
    """
    check_count(requests, location)
    conditional = sum(request.etag is not None for request in requests)
    return conditional + (conditional < len(requests))


def check_count(requests: Sequence[DeleteRequest] | Sequence[UndeleteRequest], location: str) -> None:
    """Refuse more keys than one call may have.

    Raises:
        StorageError: With code `too_many`.
    """
    if len(requests) > MAX_DELETE_KEYS:
        raise StorageError(
            f"{location}: expected at most {MAX_DELETE_KEYS} keys to delete, found {len(requests)}", code="too_many"
        )
