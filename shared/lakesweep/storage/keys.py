"""Keys: relative paths below a store's root."""

from lakesweep.errors import StorageError


def check_key(key: str, location: str) -> str:
    """Return `key` when it names one object below the root.

    Raises:
        StorageError: With code `bad_key`: empty, absolute, with an empty, `.` or `..` part, or a NUL.
    """
    if "\0" in key or any(part in ("", ".", "..") for part in key.split("/")):
        raise StorageError(
            f"{location}: expected a relative key without empty or dot parts, found {key!r}", code="bad_key"
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
