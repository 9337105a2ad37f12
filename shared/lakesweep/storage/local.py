"""A store in a local folder.

Symbolic links below the root are listed, never followed, never deleted: what they point at is not ours. (The root
itself may be reached through links.)

A put that matches an ETag takes a lock file beside the object, which stays there; so such puts belong to control
locations only. Once a folder has that file, every put and every conditional delete in it takes the lock, over all
processes. A plain or if-absent put leaves nothing behind but its object, also in a table. All of this needs a file
system with hard links, and with `flock` between all machines that share it.
"""

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from lakesweep.errors import (
    AccessDeniedError,
    LeaseLostError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
)
from lakesweep.storage.guard import LateDeleteError, ask_guard
from lakesweep.storage.keys import check_key, check_prefix, check_range, count_deletes, is_key, too_short
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import (
    PAGE_KEYS,
    Body,
    DeleteRequest,
    DeleteResult,
    HiddenState,
    Page,
    StoredObject,
    UndeleteRequest,
    UndeleteResult,
    pages_of,
)

_LOCK_NAME = ".lakesweep.lock"
_BRANCH = re.compile(r"branch/branch-[^/]+(?=/)", re.DOTALL)
_MISSING = (FileNotFoundError, NotADirectoryError)
"""No such file, or a part of its path is a file and not a folder: either way nothing lies at that key."""


class LocalStore:
    """Files below one folder."""

    reads_wait = False
    """Reading local files one after another is faster than handing them to threads."""

    def __init__(self, root: str, counter: RequestCounter | None = None) -> None:
        self._root = str(Path(root).absolute())
        self._below = self._root.rstrip("/") + "/"
        self._counter = counter or RequestCounter()

    @property
    def location(self) -> str:
        """Return the folder's absolute path."""
        return self._root

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield files below a folder; see `Store.list`.

        Memory grows with the largest single folder, not with the tree.
        """
        return self._found(prefix)

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Yield files of a range in pages; see `Store.list_range`. Reads no folder that lies outside of it."""
        return pages_of(self._found(prefix, after, until))

    def _found(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[StoredObject]:
        check_prefix(prefix, self._root)
        self._counter.add("list")
        link = self._link_on_the_way(prefix.rstrip("/")) if prefix else None
        for count, entry in enumerate(self._walk(prefix if link is None else link, after, until)):
            if count and count % PAGE_KEYS == 0:
                self._counter.add("list")
            yield entry

    def _walk(self, first: str, after: str, until: str | None) -> Iterator[StoredObject]:
        # Not recursive: folders may be nested more deeply than calls.
        waiting = [first]
        while waiting:
            key = waiting.pop()
            if until is not None and key > until:
                return
            if key.endswith("/") or not key:
                if key >= after or after.startswith(key):  # else everything in it comes before `after`
                    waiting += [key + name for name in reversed(self._names(key))]
            elif key > after:
                yield from self._entry(key)

    def _names(self, prefix: str) -> Sequence[str]:
        """Return what lies in a folder, in the order of keys; folders with a closing slash."""
        folder = self._below + prefix
        try:
            with os.scandir(folder) as scan:
                # Keys below a folder compare as its name with a slash does: `a-b`, then `a/x`, then `a0`.
                names = sorted(e.name + "/" if e.is_dir(follow_symlinks=False) else e.name for e in scan)
        except _MISSING:
            return []
        except OSError as error:
            raise _storage_error("list", folder, error) from error
        return [name for name in names if name != _LOCK_NAME]

    def _entry(self, key: str) -> Iterator[StoredObject]:
        path = self._below + key
        try:
            status = os.lstat(path)
        except _MISSING:
            return  # gone since its folder was read
        except OSError as error:
            raise _storage_error("list", path, error) from error
        is_link = stat.S_ISLNK(status.st_mode)
        yield StoredObject(key, status.st_size, _etag(status), status.st_mtime_ns // 1_000_000, is_link)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders in a folder; see `Store.folders`."""
        check_prefix(prefix, self._root)
        self._counter.add("list")
        self._refuse_links(prefix + "x")
        try:
            with os.scandir(self._below + prefix) as scan:
                names = [entry.name for entry in scan if entry.is_dir(follow_symlinks=False)]
        except _MISSING:
            return
        except OSError as error:
            raise _storage_error("list", f"{self._root}/{prefix}", error) from error
        yield from sorted(names, key=lambda name: f"{name}/")

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of `names` are there, as folders or links; see `Store.folders_among`."""
        self._counter.add("list")
        try:
            with os.scandir(self._below) as scan:
                return frozenset(entry.name for entry in scan).intersection(names)
        except _MISSING:
            return frozenset()
        except OSError as error:
            raise _storage_error("list", self._root, error) from error

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one file; see `Store.read`."""
        path = self._checked_path(key)
        self._counter.add("get")
        self._refuse_links(key)
        try:
            with open(path, "rb", opener=_open_to_read) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise StorageError(f"read {path}: expected a file, found something else", code="not_a_file")
                if max_bytes is not None and status.st_size > max_bytes:
                    raise StorageError(
                        f"{path}: expected at most {max_bytes} bytes, found {status.st_size}", code="too_large"
                    )
                data = file.read()
        except _MISSING as error:
            raise ObjectNotFoundError(f"{path} does not exist") from error
        except OSError as error:
            raise _storage_error("read", path, error) from error
        self._counter.add_read_bytes(len(data))
        return Body(data, _etag(status))

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return a part of one file; see `Store.read_range`."""
        path = self._checked_path(key)
        check_range(start, length, path)
        self._counter.add("get")
        self._refuse_links(key)
        try:
            with open(path, "rb", opener=_open_to_read) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise StorageError(f"read {path}: expected a file, found something else", code="not_a_file")
                if status.st_size < start + length:  # before anything is read: `length` may be any number
                    raise too_short(start, length, status.st_size - start, path)
                file.seek(start)
                data = file.read(length)
        except _MISSING as error:
            raise ObjectNotFoundError(f"{path} does not exist") from error
        except OSError as error:
            raise _storage_error("read", path, error) from error
        if len(data) < length:
            raise too_short(start, length, len(data), path)
        self._counter.add_read_bytes(length)
        return Body(data, _etag(status))

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one file atomically, durable when this returns; see `Store.put`."""
        path = self._checked_path(key)
        self._counter.add("put")
        self._refuse_links(key)
        folder = Path(path).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(folder, make=if_match is not None):
                if if_match is not None:
                    _check_match(path, if_match)
                return _write(path, data, if_absent=if_absent)
        except OSError as error:
            raise _storage_error("put", path, error) from error

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 files; see `Store.delete`. Folders stay, also empty ones, but for those of a branch.

        In a folder without a lock file lies a moment between comparing an ETag and unlinking, in which another process
        could replace the file.
        """
        self._counter.add("delete", count_deletes(requests, self._root))
        late: LeaseLostError | None = None
        results: list[DeleteResult] = []
        for request in requests:
            try:
                results.append(DeleteResult(request.key, self._delete(request)))
            except LeaseLostError as error:
                late = error
                results.append(DeleteResult(request.key, "not_tried"))
        for result in results:
            if result.code == "deleted":
                self._forget_branch(result.key)
        self._counter.add_deleted_keys(sum(result.code == "deleted" for result in results))
        if late is not None:
            raise LateDeleteError(late, results)
        return results

    def _delete(self, request: DeleteRequest) -> str:
        if not is_key(request.key) or _is_lock(request.key):
            return "bad_key"
        if self._link_on_the_way(request.key) is not None:
            return "is_link"
        path = Path(self._below + request.key)
        try:
            if request.etag is None:
                ask_guard()
                path.unlink()
                return "deleted"
            with _locked(path.parent, make=False):
                if _etag(path.lstat()) != request.etag:
                    return "precondition_failed"
                ask_guard()
                path.unlink()
                return "deleted"
        except _MISSING:
            return "already_gone"
        except IsADirectoryError:
            return "is_directory"
        except PermissionError:
            # POSIX has EPERM for unlinking a folder, and so have some systems.
            return "is_directory" if path.is_dir() else "access_denied"
        except OSError as error:
            return _word(error)

    def _forget_branch(self, key: str) -> None:
        """Remove the folders of a branch that has no file left: to engines the folder is the branch."""
        branch = _BRANCH.match(key)
        if branch is None or not _is_empty(self._below + key.rpartition("/")[0]):
            return
        folders = list(os.walk(self._below + branch[0]))
        if any(name != _LOCK_NAME for _, _, names in folders for name in names):
            return
        with suppress(OSError):  # somebody begins a branch of this name right now, or may remove what we may not
            for folder, _, names in reversed(folders):
                for name in names:
                    Path(folder, name).unlink(missing_ok=True)
                Path(folder).rmdir()

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        """Refuse: a deleted file is gone."""
        raise self._not_versioned()

    def hidden(self, keys: Sequence[str]) -> Sequence[HiddenState]:
        """Say that nobody can tell: a deleted file leaves nothing behind."""
        return [HiddenState("unknown") for _ in keys]

    def read_deleted(self, request: UndeleteRequest, max_bytes: int | None = None) -> Body:
        """Refuse: a deleted file is gone."""
        raise self._not_versioned()

    def _not_versioned(self) -> StorageError:
        return StorageError(
            f"{self._root}: expected a versioned bucket, found a local folder, which keeps nothing of what is deleted",
            code="not_versioned",
        )

    def now_ms(self) -> int:
        """Return this machine's clock."""
        return time.time_ns() // 1_000_000

    def _checked_path(self, key: str) -> str:
        if _is_lock(check_key(key, self._root)):
            raise StorageError(f"{self._below}{key}: expected another name than that of locks", code="bad_key")
        return self._below + key

    def _refuse_links(self, key: str) -> None:
        link = self._link_on_the_way(key)
        if link is not None:
            raise StorageError(
                f"{self._below}{link} is a symbolic link; expected plain files and folders", code="is_link"
            )

    def _link_on_the_way(self, key: str) -> str | None:
        """Return the first part of `key` that is a symbolic link, from the root down."""
        end = 0
        while end < len(key):
            slash = key.find("/", end + 1)
            end = len(key) if slash < 0 else slash
            if os.path.islink(self._below + key[:end]):  # noqa: PTH114 - a Path costs more than the question
                return key[:end]
        return None


def _is_empty(folder: str) -> bool:
    """Tell whether at most a lock lies in a folder. Looks no further than at the first thing that does."""
    try:
        with os.scandir(folder) as scan:
            return all(entry.name == _LOCK_NAME for entry in scan)
    except OSError:
        return False


def _is_lock(key: str) -> bool:
    return key.rpartition("/")[2] == _LOCK_NAME


def _etag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def _write(path: str, data: bytes, *, if_absent: bool) -> str:
    target = Path(path)
    # A dot in front, so that no reader takes it for what it becomes; few characters, since a name has 255 bytes.
    temporary = target.with_name(f".{target.name[:40]}.{os.urandom(8).hex()}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            # The kernel's own times advance every few milliseconds and inodes are used again at once, so two bodies of
            # one size written in a row could share an ETag. The time of the clock tells them apart.
            now_ns = time.time_ns()
            os.utime(file.fileno(), ns=(now_ns, now_ns))
            os.fsync(file.fileno())
            etag = _etag(os.fstat(file.fileno()))
        ask_guard()
        if if_absent:
            try:
                target.hardlink_to(temporary)
            except FileExistsError as error:
                raise PreconditionFailedError(f"{path}: expected nothing there, found a file") from error
        else:
            temporary.replace(target)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    _sync_folder(target.parent)
    return etag


def _sync_folder(folder: Path) -> None:
    # A ledger entry has to outlive a power cut that comes after the deletes it announces.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_match(path: str, etag: str) -> None:
    try:
        found = _etag(Path(path).lstat())
    except FileNotFoundError as error:
        raise PreconditionFailedError(f"{path}: expected the file with ETag {etag}, found nothing") from error
    if found != etag:
        raise PreconditionFailedError(f"{path}: expected the file with ETag {etag}, found {found}")


@contextmanager
def _locked(folder: Path, *, make: bool) -> Iterator[None]:
    """Hold the folder's lock file; without `make`, only if it has one."""
    flags = os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if make else 0)
    try:
        lock = os.open(folder / _LOCK_NAME, flags, 0o666)
    except FileNotFoundError:
        if make:
            raise
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends when the file is closed, also by the end of the process
        yield
    finally:
        os.close(lock)


def _open_to_read(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe would last until somebody writes to it.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _storage_error(operation: str, path: str, error: OSError) -> StorageError:
    if isinstance(error, PermissionError):
        return AccessDeniedError(f"{operation} {path}: permission denied")
    return StorageError(f"{operation} {path}: {error.strerror or error}", code=_word(error))


def _word(error: OSError) -> str:
    words = {errno.ELOOP: "is_link", errno.EISDIR: "is_directory"}
    return words.get(error.errno or 0) or errno.errorcode.get(error.errno or 0, "storage")
