"""A file on this machine that a person names for output: a page, a list of rows.

A file gets its name when it is whole. A device, a pipe and an open descriptor (`/dev/stderr`, `/dev/fd/3`) are never
given to another file by a rename, and bytes go straight into them. A folder is refused.
"""

import io
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, EISDIR
from pathlib import Path
from typing import BinaryIO, cast

_DESCRIPTOR = re.compile(r"/dev/(stdin|stdout|stderr|fd/[0-9]+)|/proc/(self|[0-9]+)/fd/[0-9]+")
_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_stdout(path: str) -> bool:
    """Tell whether a path is a name of standard output."""
    return path in _STDOUT


def is_direct(path: str | Path) -> bool:
    """Tell whether bytes go straight into what has this path: it is neither a file, nor a folder, nor nothing."""
    if _DESCRIPTOR.fullmatch(str(Path(path).absolute())):
        return True
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextmanager
def replaced(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that replaces what has its path, if no error ends the block. Where the path is a link, it stays one.

    Raises:
        OSError: There is a folder, or the disk refused. What was there is there.
    """
    if is_direct(path):
        with _direct(path) as file:
            yield file
        return
    final = Path(os.path.realpath(path))
    mode = _mode_of(final)
    with _part(final, mode) as (file, part):
        yield file
        _settle(file)
        if is_direct(final):
            raise FileExistsError(EEXIST, "no regular file any more", str(final))
        part.replace(final)


@contextmanager
def created(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that gets its path, if no error ends the block. Nothing that exists is replaced.

    Raises:
        FileExistsError: Something exists there that is no device or pipe.
        OSError: The disk refused.
    """
    if is_direct(path):
        with _direct(path) as file:
            yield file
        return
    final = Path(path)
    with _part(final, _new_mode()) as (file, part):
        yield file
        _settle(file)
        _give_name(part, final)


def _give_name(part: Path, final: Path) -> None:
    try:
        os.link(part, final)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(final):
            raise FileExistsError(EEXIST, os.strerror(EEXIST), str(final)) from None
        part.rename(final)


@contextmanager
def _part(final: Path, mode: int) -> Iterator[tuple[BinaryIO, Path]]:
    """Make a file without a final name, and delete this name at the end."""
    handle, name = tempfile.mkstemp(prefix=".lakesweep-", suffix=".part", dir=final.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(file.fileno(), mode)
            yield file, part
    finally:
        with suppress(OSError):
            part.unlink()


def _settle(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _direct(path: str | Path) -> BinaryIO:
    """Open a device, a pipe or a descriptor.

    Raises:
        OSError: It cannot be opened, or it has become a regular file.
    """
    file = _Stream(path)
    is_descriptor = _DESCRIPTOR.fullmatch(str(Path(path).absolute())) is not None
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and not is_descriptor:
        file.close()
        raise FileExistsError(EEXIST, "a regular file now", str(path))
    return cast("BinaryIO", io.BufferedWriter(file))


class _Stream(io.FileIO):
    """Bytes that go one way. It tells how many went: the writer of Parquet asks for it."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path, "wb", opener=_opened)
        self._written = 0

    def write(self, data: object, /) -> int:
        count = super().write(data)  # type: ignore[arg-type]
        self._written += count or 0
        return count

    def tell(self) -> int:
        return self._written

    def seekable(self) -> bool:
        return False


def _opened(path: str, flags: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY)


def _mode_of(final: Path) -> int:
    """Return the mode of the file that is there, else that of a new file.

    Raises:
        IsADirectoryError: There is a folder.
    """
    try:
        mode = final.stat().st_mode
    except FileNotFoundError:
        return _new_mode()
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(final))
    return stat.S_IMODE(mode)


def _new_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
