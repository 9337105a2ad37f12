"""The time of a file system.

The files of a shared folder have the times of its server, and ages are differences of such times. So the clock of a
local store is the clock of its file system, not of this machine: the time that a newly written file gets.

On a local disk, the file has no name and lies in the root: nobody sees it, and no killed run leaves it behind. A
network share shows the time only for a file with a name, after it was closed. Lakesweep creates this file in the folder
above the root. If that folder belongs to another file system or cannot be written, Lakesweep uses the root itself. The
file is deleted at once.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lakesweep.storage.clock import steady_ns, wall_ns

CLOCK_NAME = ".lakesweep.clock.tmp"
"""One fixed name, so that killed runs leave at most one file. The next run deletes it."""
_FRESH_NS = 600 * 10**9
"""Between two measurements, the clocks drift apart by a negligible time."""
_APART_NS = 10**9
_ATTEMPTS = 3
"""Another process may measure at the same time and delete this process's file."""
_OWN_KINDS = frozenset(("btrfs", "ext2", "ext3", "ext4", "overlay", "ramfs", "tmpfs", "xfs", "zfs"))
"""File systems whose times come from this machine's kernel."""


@dataclass(frozen=True, slots=True)
class _Measured:
    storage_ns: int
    at_ns: int
    """The time of a clock that is never set and that continues while the machine sleeps."""
    wall_ns: int
    """The time of this machine's clock."""

    def is_good(self) -> bool:
        """Tell whether it is recent and both clocks agree: no sandbox was suspended, and no clock was set."""
        passed_ns = steady_ns() - self.at_ns
        return passed_ns <= _FRESH_NS and abs(passed_ns - (wall_ns() - self.wall_ns)) <= _APART_NS


_measured: dict[int, _Measured] = {}
"""The measurement of each device: all stores of one file system share its clock."""


def now_ns(root: str) -> int:
    """Return the time of the file system of a store, in epoch nanoseconds.

    If Lakesweep cannot write there, this is the time of this machine; see `is_doubtful`.
    """
    place, device = _place(root)
    found = _measured.get(device)
    if found is None or not found.is_good():
        _measure(place, device)
        found = _measured.get(device)
    return wall_ns() if found is None else found.storage_ns + steady_ns() - found.at_ns


def is_doubtful(root: str) -> bool:
    """Tell whether the store uses this machine's clock although the file system may have another one."""
    _, device = _place(root)
    return device not in _measured and _kind_of(device) not in _OWN_KINDS


def _place(root: str) -> tuple[str, int]:
    """Return the root, or the nearest existing folder above it, and its device."""
    path = Path(root)
    while True:
        try:
            return str(path), path.stat().st_dev
        except OSError:
            if path == path.parent:
                raise
            path = path.parent


def _measure(place: str, device: int) -> None:
    _measured.pop(device, None)
    is_own = _kind_of(device) in _OWN_KINDS
    above = str(Path(place).parent)
    for folder in (place, above) if is_own else (above, place):
        for _ in range(_ATTEMPTS):
            with suppress(OSError):
                if Path(folder).stat().st_dev != device:
                    break
                found_ns = _time_of_nameless_file(folder) if is_own else _time_of_named_file(folder)
                _measured[device] = _Measured(found_ns, steady_ns(), wall_ns())
                return


def _time_of_nameless_file(place: str) -> int:
    descriptor = os.open(place, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.utime(descriptor)  # Sets the file system's own time; needs no space on a full disk.
        return os.fstat(descriptor).st_mtime_ns
    finally:
        os.close(descriptor)


def _time_of_named_file(place: str) -> int:
    folder = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _time_of_new_file(folder)
    finally:
        os.close(folder)


def _time_of_new_file(folder: int) -> int:
    with suppress(FileNotFoundError):
        os.unlink(CLOCK_NAME, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(CLOCK_NAME, flags, 0o600, dir_fd=folder)
    try:
        try:
            os.write(
                descriptor, b"\n"
            )  # A server sets the time of written data itself. For a mere name, it may take this machine's time.
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return os.stat(CLOCK_NAME, dir_fd=folder, follow_symlinks=False).st_mtime_ns
    finally:
        with suppress(OSError):
            os.unlink(CLOCK_NAME, dir_fd=folder)


def _kind_of(device: int) -> str:
    """Return the type of a mounted file system, empty if the kernel does not name it."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    found = (line.partition(" - ")[2].split(" ")[0] for line in lines if line.split(" ")[2:3] == [number])
    return next(found, "")
