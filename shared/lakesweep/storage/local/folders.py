"""Folders of a local store, opened one part at a time.

Each part is opened through the descriptor of the folder above it, and no part may be a symbolic link. So nobody can
lead a read, a write or a deletion out of the root by swapping a folder for a link at the right moment. A descriptor
always refers to the folder that was opened.

A *trail* has the folders that Lakesweep checked before it decided about files. It deletes only in these folders. After
the check, somebody may swap a folder for a link or another folder. The path alone does not show this.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from lakesweep.errors import AccessDeniedError, StorageError

MISSING = (FileNotFoundError, NotADirectoryError)
"""The file does not exist, or a part of its path is a file and not a folder: either way the key has no object."""
Identity = tuple[int, int]
"""Device and inode of a folder."""
MAX_OPEN = 16
"""Descriptors of folders that one listing or one call of `delete` keeps. This is enough for the folders of most tables,
and few enough for many concurrent listings."""
_PATH_MAX = 4096
"""Other programs reach no file with a longer path, although each part by itself could still be opened."""
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
"""`O_PATH` needs no permission to list the folder, only to pass through it."""


class Trail:
    """The folder that was first found at each path without links. Threads may share a trail."""

    def __init__(self) -> None:
        self._met: dict[str, Identity] = {}

    def meets(self, path: str, found: Identity) -> bool:
        """Tell whether the folder at a path is the first one that a check found there."""
        return self._met.setdefault(path, found) == found

    def knows(self, path: str, found: Identity) -> bool:
        """Tell whether a check has found this folder at this path."""
        return self._met.get(path) == found


class LinkFoundError(Exception):
    """A part of a key is a symbolic link."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class AnotherFolderError(Exception):
    """A part of a path is not the folder that was checked."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class RootFolder:
    """The root folder of a store. The first access determines which folder this is."""

    def __init__(self, path: str) -> None:
        self.path = str(Path(path).absolute())
        self.below = self.path.rstrip("/") + "/"
        self._known: Identity | None = None
        self._trail: Trail | None = None
        self._looks = False

    def follow(self, trail: Trail, *, looks: bool) -> None:
        """Follow no link to the root from now on, and use the same folders as others on the trail.

        Args:
            trail: The checked folders.
            looks: Record the folders down to the root on the trail. Otherwise folders that were not checked are
                refused,
                also below the root.
        """
        self._trail, self._looks = trail, looks

    def open(self, *, make: bool = False) -> int:
        """Return a descriptor. Without a trail, links to the root are followed, since the operator named it.

        Raises:
            StorageError: `moved`: another folder has since replaced it.
            AnotherFolderError: It is not the folder of the trail.
            OSError: It cannot be opened.
        """
        if self._trail is not None:
            return self._walked(self._trail)
        if make:
            Path(self.path).mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, _FOLDER)
        found = _identity(descriptor)
        if self._known is None:
            self._known = found
        if self._known != found:
            os.close(descriptor)
            raise StorageError(
                f"{self.path}: expected the same folder as at the begin of the run, found another one; "
                "Lakesweep reads and deletes nothing there, run the command again",
                code="moved",
            )
        return descriptor

    def _walked(self, trail: Trail) -> int:
        is_right = trail.meets if self._looks else trail.knows
        at = os.open("/", _FOLDER)
        try:
            _check(is_right, "/", at)
            for end in (place for place, letter in enumerate(self.below) if letter == "/" and place):
                path = self.below[:end]
                above, at = at, self._passed(at, path)
                os.close(above)
                _check(is_right, path, at)
        except BaseException:
            os.close(at)
            raise
        return at

    def _passed(self, above: int, path: str) -> int:
        try:
            return _open(above, path.rpartition("/")[2], path)
        except LinkFoundError:
            raise AnotherFolderError(path) from None

    def check(self, folder: str, descriptor: int) -> None:
        """Make sure that a folder below the root is on the trail. It is named without its trailing slash.

        Raises:
            AnotherFolderError: It is not on the trail.
        """
        if self._trail is not None and not self._looks:
            _check(self._trail.knows, self.below + folder, descriptor)


class Folders:
    """Open folders below a root. Keeps the descriptors of the last few; all are closed at the end."""

    def __init__(self, root: RootFolder) -> None:
        self._root = root
        self._top: int | None = None
        self._opened: dict[str, int] = {}

    def __enter__(self) -> "Folders":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        opened = [*self._opened.values(), *(() if self._top is None else (self._top,))]
        self._opened, self._top = {}, None
        for descriptor in opened:
            os.close(descriptor)

    def open(self, folder: str, *, make: bool = False) -> int:
        """Return the descriptor of a folder, which is valid until the next call.

        Args:
            folder: Empty for the root, otherwise with its trailing slash.
            make: Create missing folders.

        Raises:
            LinkFoundError: A part of it is a symbolic link.
            AnotherFolderError: A part of it is not the folder that was checked at this path.
            StorageError: As `RootFolder.open`.
            OSError: It cannot be opened.
        """
        self._check_length(folder)
        if self._top is None:
            self._top = self._root.open(make=make)
        if folder in self._opened:
            self._opened[folder] = self._opened.pop(folder)  # The last used descriptor is closed last.
            return self._opened[folder]
        begin = folder
        while begin and begin not in self._opened:
            begin = parent_of(begin.rstrip("/"))
        at, end = self._opened[begin] if begin else self._top, len(begin)
        while end < len(folder):
            slash = folder.index("/", end)
            at = _enter(at, folder[end:slash], folder[:slash], make=make)
            end = slash + 1
            try:
                self._root.check(folder[:slash], at)
            except AnotherFolderError:
                os.close(at)
                raise
            self._opened[folder[:end]] = at
            if len(self._opened) > MAX_OPEN:
                os.close(self._opened.pop(next(iter(self._opened))))
        return at

    def parent(self, key: str, *, make: bool = False) -> tuple[int, str]:
        """Return the descriptor of a key's folder, and the name in it; see `open`."""
        self._check_length(key)
        folder = parent_of(key)
        return self.open(folder, make=make), key[len(folder) :]

    def names(self, folder: str) -> Sequence[tuple[str, bool]]:
        """Return each name in a folder, in no order, and whether it is a folder itself; see `open`."""
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.open(folder))
        try:
            with os.scandir(listed) as scan:
                return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan]
        finally:
            os.close(listed)

    def status(self, key: str) -> os.stat_result:
        """Return the status of a key; for a link, the link's own. See `open`."""
        folder, name = self.parent(key)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def _check_length(self, key: str) -> None:
        if len(self._root.below) + 4 * len(key) < _PATH_MAX:
            return
        if len(os.fsencode(self._root.below + key)) >= _PATH_MAX:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def parent_of(key: str) -> str:
    """Return the folder of a key, with its trailing slash; empty for the root."""
    return key[: key.rfind("/") + 1]


def _identity(descriptor: int) -> Identity:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _check(is_right: Callable[[str, Identity], bool], path: str, descriptor: int) -> None:
    if not is_right(path, _identity(descriptor)):
        raise AnotherFolderError(path)


def _enter(above: int, name: str, key: str, *, make: bool) -> int:
    try:
        return _open(above, name, key)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # Another process was faster.
        os.mkdir(name, dir_fd=above)
    return _open(above, name, key)


def _open(above: int, name: str, key: str) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except NotADirectoryError:
        kind = os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
        if stat.S_ISLNK(kind) or stat.S_ISDIR(kind):  # If it is a folder now, somebody is swapping it.
            raise LinkFoundError(key) from None
        raise


def storage_error(operation: str, path: str, error: OSError) -> StorageError:
    """Return the error that says which operation failed, and where."""
    if isinstance(error, PermissionError):
        return AccessDeniedError(f"{operation} {path}: permission denied")
    return StorageError(f"{operation} {path}: {error.strerror or error}", code=word(error))


def word(error: OSError) -> str:
    """Return the stable code word of an error."""
    words = {errno.ELOOP: "is_link", errno.EISDIR: "is_directory"}
    return words.get(error.errno or 0) or errno.errorcode.get(error.errno or 0, "storage")
