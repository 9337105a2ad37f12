"""What a failed call of the file system means to a caller of the store."""

import errno

from lakesweep.errors import AccessDeniedError, StorageError

MISSING = (FileNotFoundError, NotADirectoryError)
"""No such file, or a part of its path is a file and not a folder: either way nothing lies at that key."""


def storage_error(operation: str, path: str, error: OSError) -> StorageError:
    """Return the error that says what could not be done, and where."""
    if isinstance(error, PermissionError):
        return AccessDeniedError(f"{operation} {path}: permission denied")
    return StorageError(f"{operation} {path}: {error.strerror or error}", code=word(error))


def word(error: OSError) -> str:
    """Return the stable word of an error."""
    words = {errno.ELOOP: "is_link", errno.EISDIR: "is_directory"}
    return words.get(error.errno or 0) or errno.errorcode.get(error.errno or 0, "storage")
