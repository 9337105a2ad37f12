"""A store in a local folder.

Symbolic links below the root are listed, never followed, never deleted: their targets are not Lakesweep's. (The root
itself may be reached through links.) `folders.py` says how this stays true while somebody swaps folders for links.

A put that must match an ETag takes a lock (`locks.py`). In a control location this is a file beside the object. Once a
folder has this file, every put and every conditional delete in the folder takes the lock, across all processes. In a
folder with documents of a table, every put and every conditional delete takes the lock of the document itself, so it
leaves nothing else behind. All of this needs a file system with hard links, and with `flock` between all machines that
share it.
"""

import os
import re
import stat
import uuid
from collections.abc import Sequence
from contextlib import suppress

from lakesweep.errors import LeaseLostError, PreconditionFailedError
from lakesweep.model.safety import LITTER_AGE_MS
from lakesweep.storage.guard import LateDeleteError, ask_guard
from lakesweep.storage.keys import count_deletes, is_key
from lakesweep.storage.local import clock as local_clock
from lakesweep.storage.local.folders import MISSING, AnotherFolderError, Folders, LinkFoundError, parent_of, word
from lakesweep.storage.local.locks import DOCUMENTS, LOCK_NAME, locked
from lakesweep.storage.local.reading import LocalReading, etag_of, is_lock
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import DeleteRequest, DeleteResult

_TEMPORARY = re.compile(r"\..{1,40}\.[0-9a-f]{32}\.lakesweep\.tmp", re.DOTALL)
_BRANCH = re.compile(r"branch/branch-[^/]+(?=/)", re.DOTALL)
_AREA = re.compile(r"(?:tables|scans)/[^/]+/", re.DOTALL)
"""The folder of one table in a control location. All its temporary files lie there and in no deeper folder, so the next
run finds the files of a killed run."""


class LocalStore(LocalReading):
    """Files below one folder."""

    def __init__(self, root: str, counter: RequestCounter | None = None) -> None:
        super().__init__(root, counter)
        self._tidied: set[str] = set()

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one file atomically. The file is durable when this returns; see `Store.put`."""
        self._checked_path(key)
        self._counter.add("put", free=1)
        above = parent_of(key)
        area = _AREA.match(key)
        with self._failing("put", key), Folders(self._folder) as folders, Folders(self._folder) as others:
            folder, name = folders.parent(key, make=True)
            self._refuse_link(folder, name, key)
            views = folder if area is None else others.open(area[0])
            self._tidy(views, above if area is None else area[0])
            while True:
                with locked(folder, self._below + above.rstrip("/"), key, make=if_match is not None) as is_held:
                    mode = None
                    if if_match is not None:
                        mode = self._check_match(folder, name, key, if_match)
                    try:
                        return self._write(views, folder, key, data, if_absent=if_absent or not is_held, mode=mode)
                    except PreconditionFailedError:
                        if if_absent:
                            raise
                # Another process made the document meanwhile. So it has a lock by now, and is replaced under it.

    def _refuse_link(self, folder: int, name: str, key: str) -> None:
        with suppress(FileNotFoundError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise LinkFoundError(key)

    def _check_match(self, folder: int, name: str, key: str, etag: str) -> int:
        """Return the permissions of the file, which its replacement gets: others may have to read it."""
        path = self._below + key
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            found = etag_of(status)
        except FileNotFoundError as error:
            raise PreconditionFailedError(f"{path}: expected the file with ETag {etag}, found nothing") from error
        if found != etag:
            raise PreconditionFailedError(f"{path}: expected the file with ETag {etag}, found {found}")
        return stat.S_IMODE(status.st_mode)

    def _tidy(self, folder: int, name: str) -> None:
        """Delete the temporary files of killed runs where this run writes, once for each folder."""
        if name in self._tidied:
            return
        self._tidied.add(name)
        with suppress(OSError):  # Then the file remains, which does no harm.
            _remove_litter(folder, self.now_ms())

    def _write(self, views: int, folder: int, key: str, data: bytes, *, if_absent: bool, mode: int | None) -> str:
        """Write one file under a temporary name, and rename it once it is complete."""
        name = key.rpartition("/")[2]
        temporary, etag = _temporary_name(name), None
        try:
            if DOCUMENTS.fullmatch(parent_of(key)):
                with suppress(OSError):  # Not every file system has files without a name.
                    etag = self._begin(views, temporary, data, named=False, mode=mode)
            if etag is None:
                etag = self._begin(views, temporary, data, named=True, mode=mode)
            ask_guard()
            if if_absent:
                try:
                    os.link(temporary, name, src_dir_fd=views, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError as error:
                    raise PreconditionFailedError(
                        f"{self._below}{key}: expected nothing there, found a file"
                    ) from error
            else:
                os.replace(temporary, name, src_dir_fd=views, dst_dir_fd=folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=views)
        _sync_folder(folder)
        return etag

    def _begin(self, views: int, temporary: str, data: bytes, *, named: bool, mode: int | None) -> str:
        """Write a temporary file. If it gets its name only in the end, a killed run leaves nothing behind."""
        flags, name = os.O_WRONLY | os.O_CLOEXEC, temporary if named else "."
        flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW if named else os.O_TMPFILE
        with os.fdopen(os.open(name, flags, 0o666, dir_fd=views), "wb") as file:
            descriptor = file.fileno()
            if mode is not None and stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
                with suppress(OSError):  # Not every file system has permissions.
                    os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            # A kernel's own times advance every few milliseconds, and inodes are soon used again. So two bodies of
            # the same size, written one after the other, could share an ETag. The clock's time distinguishes them.
            now_ns = local_clock.now_ns(self._root)
            os.utime(descriptor, ns=(now_ns, now_ns))
            os.fsync(descriptor)
            etag = etag_of(os.fstat(descriptor))
            if not named:
                os.link(f"/proc/self/fd/{descriptor}", temporary, dst_dir_fd=views)
            return etag

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 files; see `Store.delete`. Keeps empty folders, except a branch's own.

        Another process could replace a file between the comparison of the ETag and the deletion, if it takes no lock
        (as other programs), or outside the documents of a table if the folder has no lock file.
        """
        sent = count_deletes(requests, self._root)
        self._counter.add("delete", sent, free=sent)
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
        if not is_key(request.key) or is_lock(request.key):
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
            with locked(folder, self._below + above.rstrip("/"), request.key, make=False):
                if etag_of(os.stat(name, dir_fd=folder, follow_symlinks=False)) != request.etag:
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


def _is_empty(folders: Folders, folder: str) -> bool:
    """Tell whether a folder contains nothing except a lock."""
    return all(name == LOCK_NAME for name, _ in folders.names(folder))


def _sync_folder(folder: int) -> None:
    # A ledger entry must survive a power cut after the deletes that it announces.
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _temporary_name(name: str) -> str:
    """Return a temporary name for `name`. Readers do not confuse the two, and only Lakesweep makes such names.

    It contains only a few characters of the name, since a file name has at most 255 bytes.
    """
    return f".{name[:40]}.{uuid.uuid4().hex}.lakesweep.tmp"


def _remove_litter(folder: int, now_ms: int) -> None:
    """Delete the temporary files of killed runs from a folder.

    Args:
        folder: A descriptor of the folder.
        now_ms: The time of the file system.

    Raises:
        OSError: The folder cannot be listed, or a file cannot be deleted.
    """
    listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(listed) as scan:
            names = [entry.name for entry in scan if _TEMPORARY.fullmatch(entry.name)]
    finally:
        os.close(listed)
    for name in names:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and status.st_mtime_ns // 1_000_000 < now_ms - LITTER_AGE_MS:
            os.unlink(name, dir_fd=folder)
