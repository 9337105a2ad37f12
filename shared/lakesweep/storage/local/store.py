"""A store in a local folder.

Symbolic links below the root are listed, never followed, never deleted: their targets are not Lakesweep's. (The root
itself may be reached through links.) `local_folders` says how this stays true while somebody swaps folders for links.

A put that must match an ETag takes a lock file beside the object (`local_locks`). In a control location the lock file
remains. Once a folder has this file, every put and every conditional delete in the folder takes the lock, across all
processes. Beside the documents of a table the lock file is deleted at the end, since there the lease separates runs. A
plain or if-absent put leaves nothing behind but its object. All of this needs a file system with hard links, and with
`flock` between all machines that share it.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

from lakesweep.errors import LeaseLostError, ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.storage.guard import LateDeleteError, ask_guard
from lakesweep.storage.keys import check_key, check_prefix, check_range, count_deletes, is_key, too_short
from lakesweep.storage.local import clock as local_clock
from lakesweep.storage.local.errors import MISSING, storage_error, word
from lakesweep.storage.local.folders import AnotherFolderError, Folders, LinkFoundError, RootFolder, parent_of
from lakesweep.storage.local.litter import remove_litter, temporary_name
from lakesweep.storage.local.locks import LOCK_NAME, locked
from lakesweep.storage.local.trail import Trail
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

_BRANCH = re.compile(r"branch/branch-[^/]+(?=/)", re.DOTALL)
_TABLE_FOLDER = re.compile(
    r"(?:branch/branch-[^/]+/)?(?:snapshot|changelog|schema|tag|tag/tag-success-file|consumer)/", re.DOTALL
)
"""Folders with documents of a table, where Lakesweep may leave no lock file."""
_AREA = re.compile(r"(?:tables|scans)/[^/]+/", re.DOTALL)
"""The folder of one table in a control location. All its temporary files lie there and in no deeper folder, so the next
run finds the files of a killed run."""


class LocalStore:
    """Files below one folder."""

    reads_wait = False
    """Reading local files one after another is faster than handing them to threads."""

    def __init__(self, root: str, counter: RequestCounter | None = None) -> None:
        self._folder = RootFolder(root)
        self._root = self._folder.path
        self._below = self._folder.below
        self._counter = counter or RequestCounter()
        self._tidied: set[str] = set()

    @property
    def location(self) -> str:
        """Return the folder's absolute path."""
        return self._root

    def follow(self, trail: Trail, *, looks: bool) -> None:
        """Follow no link to the root from now on, and check folders against a trail; see `RootFolder.follow`."""
        self._folder.follow(trail, looks=looks)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Yield files below a folder; see `Store.list`.

        Memory grows with the largest single folder, not with the tree.
        """
        return self._found(prefix)

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        """Yield files of a range in pages; see `Store.list_range`. Reads no folder outside the range."""
        return pages_of(self._found(prefix, after, until))

    def _found(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[StoredObject]:
        check_prefix(prefix, self._root)
        self._counter.add("list")
        with Folders(self._folder) as folders:
            for count, entry in enumerate(self._walk(folders, self._first(folders, prefix), after, until)):
                if count and count % PAGE_KEYS == 0:
                    self._counter.add("list")
                yield entry

    def _first(self, folders: Folders, prefix: str) -> str:
        """Return where a listing of `prefix` begins: at `prefix`, or at the link on the way to it."""
        with self._failing("list", prefix), suppress(*MISSING):
            try:
                folders.open(prefix)
            except LinkFoundError as link:
                return link.key
        return prefix

    def _walk(self, folders: Folders, first: str, after: str, until: str | None) -> Iterator[StoredObject]:
        # Not recursive: folders may be nested more deeply than calls.
        waiting = [first]
        while waiting:
            key = waiting.pop()
            if until is not None and key > until:
                return
            if key.endswith("/") or not key:
                if key >= after or after.startswith(key):  # Otherwise all its keys come before `after`.
                    waiting += [key + name for name in reversed(self._names(folders, key))]
            elif key > after:
                yield from self._entry(folders, key)

    def _names(self, folders: Folders, folder: str) -> Sequence[str]:
        """Return the names in a folder, in the order of keys; folders with a trailing slash."""
        with self._failing("list", folder):
            try:
                found = folders.names(folder)
            except MISSING:
                return []
        # To compare keys below a folder, its name needs a slash: `a-b`, then `a/x`, then `a0`.
        return sorted(f"{name}/" if is_folder else name for name, is_folder in found if name != LOCK_NAME)

    def _entry(self, folders: Folders, key: str) -> Iterator[StoredObject]:
        with self._failing("list", key):
            try:
                status = folders.status(key)
            except MISSING:
                return  # Deleted since its folder was read.
        if stat.S_ISDIR(status.st_mode):  # A listing without it would hide the files in it.
            raise StorageError(
                f"list {self._below}{key}: expected a file or a link, found a folder that took its place meanwhile",
                code="moved",
            )
        is_link = stat.S_ISLNK(status.st_mode)
        yield StoredObject(key, status.st_size, _etag(status), status.st_mtime_ns // 1_000_000, is_link)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders in a folder; see `Store.folders`."""
        check_prefix(prefix, self._root)
        self._counter.add("list")
        with Folders(self._folder) as folders:
            names = [name for name in self._names(folders, prefix) if name.endswith("/")]
        yield from (name[:-1] for name in names)

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of `names` exist, as folders or links; see `Store.folders_among`."""
        self._counter.add("list")
        with self._failing("list", ""), Folders(self._folder) as folders:
            try:
                return frozenset(name for name, _ in folders.names("")).intersection(names)
            except MISSING:
                return frozenset()

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one file; see `Store.read`."""
        path = self._checked_path(key)
        self._counter.add("get")
        with self._failing("read", key), self._opened(key) as (file, status):
            if max_bytes is not None and status.st_size > max_bytes:
                raise StorageError(
                    f"{path}: expected at most {max_bytes} bytes, found {status.st_size}", code="too_large"
                )
            data = file.read()
        self._counter.add_read_bytes(len(data))
        return Body(data, _etag(status))

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return a part of one file; see `Store.read_range`."""
        path = self._checked_path(key)
        check_range(start, length, path)
        self._counter.add("get")
        with self._failing("read", key), self._opened(key) as (file, status):
            if status.st_size < start + length:  # Check before the read, since `length` may be any number.
                raise too_short(start, length, status.st_size - start, path)
            file.seek(start)
            data = file.read(length)
        if len(data) < length:
            raise too_short(start, length, len(data), path)
        self._counter.add_read_bytes(length)
        return Body(data, _etag(status))

    @contextmanager
    def _opened(self, key: str) -> Iterator[tuple[BinaryIO, os.stat_result]]:
        # Without O_NONBLOCK, opening a pipe would wait until somebody writes to it.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with Folders(self._folder) as folders:
                folder, name = folders.parent(key)
                descriptor = os.open(name, flags, dir_fd=folder)
        except MISSING as error:
            raise ObjectNotFoundError(f"{self._below}{key} does not exist") from error
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"read {self._below}{key}: expected a file, found something else", code="not_a_file")
            yield file, status

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one file atomically. The file is durable when this returns; see `Store.put`."""
        self._checked_path(key)
        self._counter.add("put")
        above = parent_of(key)
        area = _AREA.match(key)
        stays = _TABLE_FOLDER.fullmatch(above) is None
        with self._failing("put", key), Folders(self._folder) as folders, Folders(self._folder) as others:
            folder, name = folders.parent(key, make=True)
            self._refuse_link(folder, name, key)
            drafts = folder if area is None else others.open(area[0])
            self._tidy(drafts, above if area is None else area[0])
            with locked(folder, self._below + above.rstrip("/"), make=if_match is not None, stays=stays):
                if if_match is not None:
                    self._check_match(folder, name, key, if_match)
                return self._write(drafts, folder, key, data, if_absent=if_absent)

    def _refuse_link(self, folder: int, name: str, key: str) -> None:
        with suppress(FileNotFoundError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise LinkFoundError(key)

    def _check_match(self, folder: int, name: str, key: str, etag: str) -> None:
        path = self._below + key
        try:
            found = _etag(os.stat(name, dir_fd=folder, follow_symlinks=False))
        except FileNotFoundError as error:
            raise PreconditionFailedError(f"{path}: expected the file with ETag {etag}, found nothing") from error
        if found != etag:
            raise PreconditionFailedError(f"{path}: expected the file with ETag {etag}, found {found}")

    def _tidy(self, folder: int, name: str) -> None:
        """Delete the temporary files of killed runs where this run writes, once for each folder."""
        if name in self._tidied:
            return
        self._tidied.add(name)
        with suppress(OSError):  # Then the file remains, which does no harm.
            remove_litter(folder, self.now_ms())

    def _write(self, drafts: int, folder: int, key: str, data: bytes, *, if_absent: bool) -> str:
        """Write one file under a temporary name, and rename it once it is complete."""
        name = key.rpartition("/")[2]
        temporary = temporary_name(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o666, dir_fd=drafts)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                # A kernel's own times advance every few milliseconds, and inodes are soon used again. So two bodies of
                # the same size, written one after the other, could share an ETag. The clock's time distinguishes them.
                now_ns = local_clock.now_ns(self._root)
                os.utime(descriptor, ns=(now_ns, now_ns))
                os.fsync(descriptor)
                etag = _etag(os.fstat(descriptor))
            ask_guard()
            if if_absent:
                try:
                    os.link(temporary, name, src_dir_fd=drafts, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError as error:
                    raise PreconditionFailedError(
                        f"{self._below}{key}: expected nothing there, found a file"
                    ) from error
            else:
                os.replace(temporary, name, src_dir_fd=drafts, dst_dir_fd=folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=drafts)
        _sync_folder(folder)
        return etag

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 files; see `Store.delete`. Keeps empty folders, except a branch's own.

        In a folder without a lock file, another process could replace the file between the comparison of the ETag and
        the deletion.
        """
        self._counter.add("delete", count_deletes(requests, self._root))
        late: LeaseLostError | None = None
        results: list[DeleteResult] = []
        with Folders(self._folder) as folders:
            for request in requests:
                try:
                    results.append(DeleteResult(request.key, self._delete(folders, request)))
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

    def _delete(self, folders: Folders, request: DeleteRequest) -> str:
        if not is_key(request.key) or _is_lock(request.key):
            return "bad_key"
        above = parent_of(request.key)
        try:
            folder, name = folders.parent(request.key)
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISLNK(kind):
                return "is_link"
            if stat.S_ISDIR(kind):  # POSIX answers EPERM for a folder, which would look like a missing permission.
                return "is_directory"
            if request.etag is None:
                ask_guard()
                os.unlink(name, dir_fd=folder)
                return "deleted"
            stays = _TABLE_FOLDER.fullmatch(above) is None
            with locked(folder, self._below + above.rstrip("/"), make=False, stays=stays):
                if _etag(os.stat(name, dir_fd=folder, follow_symlinks=False)) != request.etag:
                    return "precondition_failed"
                ask_guard()
                os.unlink(name, dir_fd=folder)
                return "deleted"
        except LinkFoundError:
            return "is_link"
        except AnotherFolderError:
            return "moved"
        except MISSING:
            return "already_gone"
        except PermissionError:
            return "access_denied"
        except OSError as error:
            return word(error)

    def _forget_branch(self, key: str) -> None:
        """Delete the folders of a branch without files, since Paimon takes an existing folder for a branch."""
        branch = _BRANCH.match(key)
        if branch is None:
            return
        with suppress(OSError, LinkFoundError), Folders(self._folder) as folders:
            if not _is_empty(folders, parent_of(key)):
                return
            found = [f"{branch[0]}/"]
            for folder in found:  # The list grows meanwhile.
                names = folders.names(folder)
                if any(name != LOCK_NAME for name, is_folder in names if not is_folder):
                    return
                found += [f"{folder}{name}/" for name, is_folder in names if is_folder]
            # An error ends this: somebody begins a branch of this name right now, or a permission is missing.
            for folder in reversed(found):
                with suppress(FileNotFoundError):
                    os.unlink(LOCK_NAME, dir_fd=folders.open(folder))
                above, name = folders.parent(folder[:-1])
                os.rmdir(name, dir_fd=above)

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        """Refuse: a local folder does not keep deleted files."""
        raise self._not_versioned()

    def hidden(self, keys: Sequence[str]) -> Sequence[HiddenState]:
        """Return `unknown` for each key, since a deleted file leaves no trace."""
        return [HiddenState("unknown") for _ in keys]

    def read_deleted(self, request: UndeleteRequest, max_bytes: int | None = None) -> Body:
        """Refuse: a local folder does not keep deleted files."""
        raise self._not_versioned()

    def _not_versioned(self) -> StorageError:
        return StorageError(
            f"{self._root}: expected a versioned bucket, found a local folder, which does not keep deleted files",
            code="not_versioned",
        )

    def now_ms(self) -> int:
        """Return the clock of the file system; see `local_clock`."""
        return local_clock.now_ns(self._root) // 1_000_000

    @property
    def clock_is_doubtful(self) -> bool:
        """Tell whether ages may be wrong: a network share's time is unknown if Lakesweep cannot write a file there."""
        return local_clock.is_doubtful(self._root)

    def _checked_path(self, key: str) -> str:
        if _is_lock(check_key(key, self._root)):
            raise StorageError(f"{self._below}{key}: expected any name except that of lock files", code="bad_key")
        return self._below + key

    @contextmanager
    def _failing(self, operation: str, key: str) -> Iterator[None]:
        """Translate errors of the file system into errors of a store."""
        try:
            yield
        except LinkFoundError as link:
            raise StorageError(
                f"{self._below}{link.key} is a symbolic link; expected plain files and folders", code="is_link"
            ) from None
        except AnotherFolderError as error:
            raise StorageError(
                f"{error.path}: expected the folder that the run checked before, found another folder or a link; "
                "Lakesweep reads and deletes nothing there, run the command again",
                code="moved",
            ) from None
        except OSError as error:
            if error.filename == LOCK_NAME:
                operation, key = "lock", parent_of(key) + LOCK_NAME
            raise storage_error(operation, self._below + key, error) from error


def _is_empty(folders: Folders, folder: str) -> bool:
    """Tell whether a folder contains nothing except a lock."""
    return all(name == LOCK_NAME for name, _ in folders.names(folder))


def _is_lock(key: str) -> bool:
    return key.rpartition("/")[2] == LOCK_NAME


def _etag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def _sync_folder(folder: int) -> None:
    # A ledger entry must survive a power cut after the deletes that it announces.
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
