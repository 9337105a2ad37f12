"""Locks of a local store, for puts and deletions that must match an ETag.

Object stores check such conditions themselves. In a local store, a conditional put or delete holds a lock (`flock`)
from the comparison to the change.

In a control location, the lock is a file of its own, one in each folder where puts must match. It stays there.

In a table, where nothing of Lakesweep may stay, the lock is the document itself. The process that locks the file with
the document's name may replace or delete this name, once. A replacement is another file with a lock of its own. So a
process that waited looks again which file has the name, and waits for that one. Readers take no lock. A killed process
leaves none behind.
"""

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from lakesweep.errors import LockHeldError, MaintenanceError, StorageError
from lakesweep.model.safety import LOCK_WAIT_S
from lakesweep.storage.clock import monotonic_s

LOCK_NAME = ".lakesweep.lock"
DOCUMENTS = re.compile(
    r"(?:branch/branch-[^/]+/)?(?:snapshot|changelog|schema|tag|tag/tag-success-file|consumer)/", re.DOTALL
)
"""Folders with documents of a table."""
_PAUSE_S = (0.001, 0.05)
"""The first pause between two attempts, and the longest."""


@contextmanager
def locked(folder: int, path: str, key: str, *, make: bool) -> Iterator[bool]:
    """Hold the lock of a document. Yields false if it is a document of a table that does not exist, and has no lock.

    Args:
        folder: A descriptor of its folder.
        path: The path of the folder, for messages.
        key: The key of the document.
        make: In a control location, create the lock file if there is none. Otherwise a folder without it is not locked.

    Raises:
        LockHeldError: Another process has held the lock for `LOCK_WAIT_S`.
        StorageError: The lock is not a regular file.
        OSError: The file cannot be opened or locked.
    """
    above, _, name = key.rpartition("/")
    in_table = DOCUMENTS.fullmatch(f"{above}/") is not None
    with ExitStack() as held:
        # In a table this is the file of an earlier version, whose processes delete it, too, while they hold it.
        held.enter_context(_holding(folder, LOCK_NAME, path, make=make and not in_table, stays=not in_table))
        yield not in_table or held.enter_context(_holding(folder, name, path))


@contextmanager
def _holding(folder: int, name: str, path: str, *, make: bool = False, stays: bool = True) -> Iterator[bool]:
    """Hold the lock of a file. Yields false if it does not exist and is not made."""
    lock = _take(folder, name, f"{path}/{name}", make=make)
    if lock is None:
        yield False
        return
    try:
        yield True
    finally:
        if not stays:
            with suppress(OSError):  # The name still belongs to this file, since only its holder deletes it.
                os.unlink(name, dir_fd=folder)
        os.close(lock)  # This ends the lock, as does the end of the process.


def _take(folder: int, name: str, where: str, *, make: bool) -> int | None:
    ends_s = monotonic_s() + LOCK_WAIT_S
    while True:
        try:
            lock = _open(folder, name, make=make)
        except FileNotFoundError:
            if make:
                raise
            return None
        try:
            if not stat.S_ISREG(os.fstat(lock).st_mode):
                raise StorageError(f"lock {where}: expected a file, found something else", code="not_a_file")
            _wait(lock, where, ends_s)
            if _is_there(folder, name, lock):
                return lock
        except (OSError, MaintenanceError):
            os.close(lock)
            raise
        os.close(lock)  # The previous holder has deleted or replaced the file, and a new one may exist by now.


def _open(folder: int, name: str, *, make: bool) -> int:
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    try:
        return os.open(name, os.O_RDWR | flags, 0o666, dir_fd=folder)
    except PermissionError:
        if name == LOCK_NAME:
            raise
        # A document may be replaced by somebody who may only read it. A share would then refuse the lock.
        return os.open(name, os.O_RDONLY | flags, dir_fd=folder)


def _wait(lock: int, where: str, ends_s: float) -> None:
    pause_s = _PAUSE_S[0]
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            left_s = ends_s - monotonic_s()
        if left_s <= 0:
            raise LockHeldError(
                f"lock {where}: expected a free lock within {LOCK_WAIT_S:g} s, but another process holds it; "
                f"find this process with `fuser {where}`, end it, and run the command again"
            )
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _PAUSE_S[1])


def _is_there(folder: int, name: str, lock: int) -> bool:
    try:
        named = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(lock))
