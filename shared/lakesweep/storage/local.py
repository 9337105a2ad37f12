"""A store in a local folder.

Symbolic links below the root are listed once, never followed, never deleted: what they point at is not ours. (The root
itself may be reached through links.)

A put that matches an ETag takes a lock file beside the object, which stays there; use it at control locations only.
Once a folder has that file, every put and every conditional delete in it takes the lock. A plain or if-absent put
leaves nothing behind.
"""

import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from lakesweep.errors import AccessDeniedError, ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.storage.keys import check_key, check_prefix, is_key
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Body, DeleteRequest, DeleteResult, StoredObject

PAGE_KEYS = 1000
MAX_DELETE_KEYS = 1000
_LOCK_NAME = ".lock"
_MISSING = (FileNotFoundError, NotADirectoryError)
"""No such file, or a part of its path is a file and not a folder: either way nothing lies at that key."""


class LocalStore:
    """Files below one folder."""

    reads_wait = False
    """Reading local files one after another is faster than handing them to threads."""

    def __init__(self, root: str, counter: RequestCounter | None = None) -> None:
        self._root = os.path.abspath(root)
        self._counter = counter or RequestCounter()

    @property
    def location(self) -> str:
        """Return the folder's absolute path."""
        return self._root

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield files below a folder; see `Store.list`."""
        check_prefix(prefix, self._root)
        self._counter.add("list")
        link = self._link_on_the_way(prefix.rstrip("/")) if prefix else None
        entries = self._walk(prefix) if link is None else self._entry(link, self._path(link))
        for count, entry in enumerate(entries):
            if count and count % PAGE_KEYS == 0:
                self._counter.add("list")
            yield entry

    def _walk(self, prefix: str) -> Iterator[StoredObject]:
        folder = self._path(prefix)
        try:
            with os.scandir(folder) as found:
                # A folder sorts as its name with a slash, as its keys do.
                names = sorted(e.name + "/" if e.is_dir(follow_symlinks=False) else e.name for e in found)
        except _MISSING:
            return
        except OSError as error:
            raise _storage_error("list", folder, error) from error
        for name in names:
            if name.endswith("/"):
                yield from self._walk(prefix + name)
            elif name != _LOCK_NAME:
                yield from self._entry(prefix + name, os.path.join(folder, name))

    @staticmethod
    def _entry(key: str, path: str) -> Iterator[StoredObject]:
        try:
            status = os.lstat(path)
        except _MISSING:
            return  # gone since its folder was read: not there
        except OSError as error:
            raise _storage_error("list", path, error) from error
        modified_ms = status.st_mtime_ns // 1_000_000
        yield StoredObject(key, status.st_size, _etag(status), modified_ms, stat.S_ISLNK(status.st_mode))

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one file; see `Store.read`."""
        check_key(key, self._root)
        self._counter.add("get")
        path = self._path(key)
        self._refuse_links(key)
        try:
            with open(path, "rb", opener=_open_no_follow) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise StorageError(f"read {path}: expected a regular file, found a device or pipe")
                if max_bytes is not None and status.st_size > max_bytes:
                    raise StorageError(
                        f"{path}: expected at most {max_bytes} bytes, found {status.st_size}", code="too_large"
                    )
                return Body(file.read(), _etag(status))
        except (*_MISSING, IsADirectoryError) as error:
            raise ObjectNotFoundError(f"{path} does not exist") from error
        except OSError as error:
            raise _storage_error("read", path, error) from error

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one file atomically; see `Store.put`."""
        check_key(key, self._root)
        self._counter.add("put")
        self._refuse_links(key)
        path = self._path(key)
        folder = os.path.dirname(path)
        try:
            os.makedirs(folder, exist_ok=True)
            with _locked(folder, make=if_match is not None):
                if if_match is not None:
                    _check_match(path, if_match)
                return _write(path, data, if_absent=if_absent)
        except OSError as error:
            raise _storage_error("put", path, error) from error

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 files; see `Store.delete`.

        In a folder without a lock file lies a moment between comparing an ETag and unlinking, in which another process
        could replace the file.
        """
        if len(requests) > MAX_DELETE_KEYS:
            raise StorageError(f"{self._root}: expected at most {MAX_DELETE_KEYS} keys, found {len(requests)}")
        if requests:
            self._counter.add("delete")
        return [DeleteResult(request.key, self._delete(request)) for request in requests]

    def _delete(self, request: DeleteRequest) -> str:
        if not is_key(request.key):
            return "bad_key"
        if self._link_on_the_way(request.key) is not None:
            return "is_link"
        path = self._path(request.key)
        try:
            if request.etag is None:
                os.unlink(path)
                return "deleted"
            with _locked(os.path.dirname(path), make=False):
                if _etag(os.lstat(path)) != request.etag:
                    return "precondition_failed"
                os.unlink(path)
                return "deleted"
        except _MISSING:
            return "already_gone"
        except IsADirectoryError:
            return "is_directory"
        except PermissionError:
            # POSIX has EPERM for unlinking a folder, and so have some systems.
            return "is_directory" if os.path.isdir(path) else "access_denied"
        except OSError as error:
            return f"errno_{error.errno}"

    def now_ms(self) -> int:
        """Return this machine's clock."""
        return int(time.time() * 1000)

    def _path(self, key: str) -> str:
        return os.path.join(self._root, key)

    def _refuse_links(self, key: str) -> None:
        link = self._link_on_the_way(key)
        if link is not None:
            raise StorageError(
                f"{self._path(link)} is a symbolic link; expected plain files and folders", code="is_link"
            )

    def _link_on_the_way(self, key: str) -> str | None:
        """Return the first part of `key` that is a symbolic link, from the root down."""
        parts = key.split("/")
        for end in range(1, len(parts) + 1):
            part = "/".join(parts[:end])
            if os.path.islink(self._path(part)):
                return part
        return None


def _etag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def _write(path: str, data: bytes, *, if_absent: bool) -> str:
    folder, name = os.path.split(path)
    # A dot in front, so that no reader takes it for what it becomes; few characters, since a name has 255 bytes.
    temporary = os.path.join(folder, f".{name[:40]}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            # The kernel's own times advance every few milliseconds and inodes are used again at once, so two bodies of
            # one size written in a row could share an ETag. The time of the clock tells them apart.
            now_ns = time.time_ns()
            os.utime(file.fileno(), ns=(now_ns, now_ns))
            os.fsync(file.fileno())
            etag = _etag(os.fstat(file.fileno()))
        if if_absent:
            try:
                os.link(temporary, path)
            except FileExistsError as error:
                raise PreconditionFailedError(f"{path}: expected nothing there, found a file") from error
        else:
            os.replace(temporary, path)
        return etag
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _check_match(path: str, etag: str) -> None:
    try:
        found = _etag(os.lstat(path))
    except FileNotFoundError as error:
        raise PreconditionFailedError(f"{path}: expected the file with ETag {etag}, found nothing") from error
    if found != etag:
        raise PreconditionFailedError(f"{path}: expected the file with ETag {etag}, found {found}")


@contextmanager
def _locked(folder: str, *, make: bool) -> Iterator[None]:
    """Hold the folder's lock file; without `make`, only if it has one."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if make else 0)
    try:
        lock: int | None = os.open(os.path.join(folder, _LOCK_NAME), flags, 0o666)
    except FileNotFoundError:
        if make:
            raise
        lock = None
    try:
        if lock is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _open_no_follow(path: str, flags: int) -> int:
    # Without waiting: opening a pipe would otherwise last until somebody writes to it.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _storage_error(operation: str, path: str, error: OSError) -> StorageError:
    if isinstance(error, PermissionError):
        return AccessDeniedError(f"{operation} {path}: permission denied")
    code = "is_link" if error.errno == errno.ELOOP else None
    return StorageError(f"{operation} {path}: {error.strerror or error}", code=code)
