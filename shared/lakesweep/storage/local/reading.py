"""Listings and reads of a local folder, and its clock."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

from lakesweep.errors import ObjectNotFoundError, StorageError, UsageError
from lakesweep.storage.keys import check_key, check_prefix, check_range, too_short
from lakesweep.storage.local import clock as local_clock
from lakesweep.storage.local.folders import (
    MISSING,
    AnotherFolderError,
    Folders,
    LinkFoundError,
    RootFolder,
    Trail,
    parent_of,
    storage_error,
    word,
)
from lakesweep.storage.local.locks import LOCK_NAME
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import (
    PAGE_KEYS,
    Body,
    HiddenState,
    Page,
    StoredObject,
    UndeleteRequest,
    UndeleteResult,
    pages_of,
)


class LocalReading:
    """The part of a local store that changes nothing."""

    reads_wait = False
    """Reading local files one after another is faster than handing them to threads."""

    def __init__(self, root: str, counter: RequestCounter | None = None) -> None:
        """Open the folder.

        Raises:
            UsageError: This process does not decode file names as UTF-8. A listed name would be another text than the
                name in a manifest, so a live file would look like an orphan.
        """
        encoding = sys.getfilesystemencoding()
        if encoding != "utf-8":
            raise UsageError(
                f"{root}: file names would not match the names in manifests; expected UTF-8, found {encoding} as this "
                "process's encoding of file names; set PYTHONUTF8=1",
                code="file_name_encoding",
            )
        self._folder = RootFolder(root)
        self._root = self._folder.path
        self._below = self._folder.below
        self._counter = counter or RequestCounter()

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
        self._counter.add("list", free=1)
        with Folders(self._folder) as folders:
            for count, entry in enumerate(self._walk(folders, self._first(folders, prefix), after, until)):
                if count and count % PAGE_KEYS == 0:
                    self._counter.add("list", free=1)
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
        yield StoredObject(key, status.st_size, etag_of(status), status.st_mtime_ns // 1_000_000, is_link)

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield the folders in a folder; see `Store.folders`."""
        check_prefix(prefix, self._root)
        self._counter.add("list", free=1)
        with Folders(self._folder) as folders:
            names = [name for name in self._names(folders, prefix) if name.endswith("/")]
        yield from (name[:-1] for name in names)

    def folders_among(self, names: Sequence[str]) -> frozenset[str]:
        """Return which of `names` exist, as folders or links; see `Store.folders_among`."""
        self._counter.add("list", free=1)
        with self._failing("list", ""), Folders(self._folder) as folders:
            try:
                return frozenset(name for name, _ in folders.names("")).intersection(names)
            except MISSING:
                return frozenset()

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one file; see `Store.read`."""
        path = self._checked_path(key)
        self._counter.add("get", free=1)
        with self._failing("read", key), self._opened(key) as (file, status):
            if max_bytes is not None and status.st_size > max_bytes:
                raise StorageError(
                    f"{path}: expected at most {max_bytes} bytes, found {status.st_size}", code="too_large"
                )
            data = file.read()
        self._counter.add_read_bytes(len(data))
        return Body(data, etag_of(status))

    def read_range(self, key: str, start: int, length: int) -> Body:
        """Return a part of one file; see `Store.read_range`."""
        path = self._checked_path(key)
        check_range(start, length, path)
        self._counter.add("get", free=1)
        with self._failing("read", key), self._opened(key) as (file, status):
            if status.st_size < start + length:  # Check before the read, since `length` may be any number.
                raise too_short(start, length, status.st_size - start, path)
            file.seek(start)
            data = file.read(length)
        if len(data) < length:
            raise too_short(start, length, len(data), path)
        self._counter.add_read_bytes(length)
        return Body(data, etag_of(status))

    @contextmanager
    def _opened(self, key: str) -> Iterator[tuple[BinaryIO, os.stat_result]]:
        # Without O_NONBLOCK, opening a pipe would wait until somebody writes to it.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            with Folders(self._folder) as folders:
                folder, name = folders.parent(key)
                descriptor = os.open(name, flags, dir_fd=folder)
        except MISSING as error:
            # Where the path has a folder and the disk a file, the folder may be there again once the file is away.
            code = word(error) if isinstance(error, NotADirectoryError) else None
            raise ObjectNotFoundError(f"{self._below}{key} does not exist", code=code) from error
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"read {self._below}{key}: expected a file, found something else", code="not_a_file")
            yield file, status

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
        if is_lock(check_key(key, self._root)):
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


def is_lock(key: str) -> bool:
    """Tell whether a key is that of a lock file."""
    return key.rpartition("/")[2] == LOCK_NAME


def etag_of(status: os.stat_result) -> str:
    """Return the ETag of a file: it changes when the file is replaced."""
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
