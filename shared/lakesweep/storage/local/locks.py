"""Locks of a local store: one file in each folder where puts must match an ETag.

Object stores check such conditions themselves. In a local store, a conditional put or delete holds the folder's lock
file (`flock`) from the comparison to the change.
"""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lakesweep.errors import LockHeldError, MaintenanceError, StorageError
from lakesweep.model.safety import LOCK_WAIT_S
from lakesweep.storage.clock import monotonic_s

LOCK_NAME = ".lakesweep.lock"
_PAUSE_S = (0.001, 0.05)
"""The first pause between two attempts, and the longest."""


@contextmanager
def locked(folder: int, path: str, *, make: bool, stays: bool) -> Iterator[None]:
    """Hold a folder's lock file.

    Args:
        folder: A descriptor of the folder.
        path: Its path, for messages.
        make: Create the file if there is none. Otherwise a folder without it is not locked.
        stays: Keep the file. Otherwise Lakesweep leaves no file in the folder.

    Raises:
        LockHeldError: Another process has held the file for `LOCK_WAIT_S`.
        StorageError: The lock is not a regular file.
        OSError: The file cannot be opened or locked.
    """
    where = f"{path}/{LOCK_NAME}"
    lock = _take(folder, where, make=make)
    if lock is None:
        yield
        return
    try:
        yield
    finally:
        if not stays:
            with suppress(OSError):  # The name still belongs to this file, since only its holder deletes it.
                os.unlink(LOCK_NAME, dir_fd=folder)
        os.close(lock)  # This ends the lock, as does the end of the process.


def _take(folder: int, where: str, *, make: bool) -> int | None:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    ends_s = monotonic_s() + LOCK_WAIT_S
    while True:
        try:
            lock = os.open(LOCK_NAME, flags, 0o666, dir_fd=folder)
        except FileNotFoundError:
            if make:
                raise
            return None
        try:
            if not stat.S_ISREG(os.fstat(lock).st_mode):
                raise StorageError(f"lock {where}: expected a file, found something else", code="not_a_file")
            _wait(lock, where, ends_s)
            if _is_there(folder, lock):
                return lock
        except (OSError, MaintenanceError):
            os.close(lock)
            raise
        os.close(lock)  # The previous holder has deleted the file, and a new one may exist by now.


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


def _is_there(folder: int, lock: int) -> bool:
    try:
        named = os.stat(LOCK_NAME, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(lock))
