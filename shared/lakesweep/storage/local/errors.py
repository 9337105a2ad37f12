"""The meaning of failed file system calls for callers of the store."""

import errno

from lakesweep.errors import AccessDeniedError, StorageError

MISSING = (FileNotFoundError, NotADirectoryError)
"""The file does not exist, or a part of its path is a file and not a folder: either way the key has no object."""


def storage_error(operation: str, path: str, error: OSError) -> StorageError:
    """Return the error that says which operation failed, and where."""
    if isinstance(error, PermissionError):
        return AccessDeniedError(f"{operation} {path}: permission denied")
    return StorageError(f"{operation} {path}: {error.strerror or error}", code=word(error))


def word(error: OSError) -> str:
    """Return the stable code word of an error."""
    words = {errno.ELOOP: "is_link", errno.EISDIR: "is_directory"}
    return words.get(error.errno or 0) or errno.errorcode.get(error.errno or 0, "storage")
