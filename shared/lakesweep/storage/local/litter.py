"""Temporary files of a local store, and temporary files of killed runs."""

import os
import re
import stat
import uuid

from lakesweep.model.safety import LITTER_AGE_MS

_NAME = re.compile(r"\..{1,40}\.[0-9a-f]{32}\.lakesweep\.tmp", re.DOTALL)


def temporary_name(name: str) -> str:
    """Return a temporary name for `name`. Readers do not confuse the two, and only Lakesweep makes such names.

    It contains only a few characters of the name, since a file name has at most 255 bytes.
    """
    return f".{name[:40]}.{uuid.uuid4().hex}.lakesweep.tmp"


def remove_litter(folder: int, now_ms: int) -> None:
    """Delete the temporary files of killed runs from a folder.

    Args:
        folder: A descriptor of the folder.
        now_ms: The time of the file system.

    Raises:
        OSError: The folder cannot be listed, or a file cannot be deleted.
        OSError: The folder cannot be listed, or a file cannot be removed.
    """
    listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(listed) as scan:
            names = [entry.name for entry in scan if _NAME.fullmatch(entry.name)]
    finally:
        os.close(listed)
    for name in names:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_mtime_ns // 1_000_000 < now_ms - LITTER_AGE_MS:
            os.unlink(name, dir_fd=folder)
