"""A store in a local folder.

Symbolic links below the root are listed once, never followed, never deleted: what they point at is not ours. (The root
itself may be reached through links.) Conditional puts that match an ETag are made one at a time by a lock file beside
the object, so use them at control locations only; a plain or if-absent put leaves nothing behind.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lakesweep.errors import AccessDeniedError, ObjectNotFoundError, PreconditionFailedError, StorageError
from lakesweep.storage.keys import check_key, check_prefix
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Body, DeleteRequest, DeleteResult, StoredObject

PAGE_KEYS = 1000
MAX_DELETE_KEYS = 1000
_LOCK_NAME = ".lock"


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
        count = 0
        linked = self._link_on_the_way(prefix.rstrip("/")) if prefix else None
        if linked is not None:
            yield self._entry(linked, os.lstat(self._path(linked)), is_link=True)
            return
        for entry in self._walk(prefix):
            count += 1
            if count > PAGE_KEYS:
                self._counter.add("list")
                count = 1
            yield entry

    def _walk(self, prefix: str) -> Iterator[StoredObject]:
        folder = os.path.join(self._root, prefix) if prefix else self._root
        try:
            with os.scandir(folder) as found:
                # A folder sorts as its name with a slash, as its keys do.
                entries = sorted((e.name + "/" if e.is_dir(follow_symlinks=False) else e.name, e) for e in found)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._storage_error("list", folder, error) from error
        for name, entry in entries:
            if name.endswith("/"):
                yield from self._walk(f"{prefix}{name}")
                continue
            try:
                stat = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # gone since the folder was read: not there
            except OSError as error:
                raise self._storage_error("list", entry.path, error) from error
            if name != _LOCK_NAME:
                yield self._entry(prefix + name, stat, is_link=entry.is_symlink())

    @staticmethod
    def _entry(key: str, stat: os.stat_result, *, is_link: bool) -> StoredObject:
        return StoredObject(key, stat.st_size, _etag(stat), stat.st_mtime_ns // 1_000_000, is_link)

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one file; see `Store.read`."""
        check_key(key, self._root)
        self._counter.add("get")
        path = self._path(key)
        self._refuse_links(key)
        try:
            with open(path, "rb", opener=_open_no_follow) as file:
                stat = os.fstat(file.fileno())
                if max_bytes is not None and stat.st_size > max_bytes:
                    raise StorageError(
                        f"{path}: expected at most {max_bytes} bytes, found {stat.st_size}", code="too_large"
                    )
                return Body(file.read(), _etag(stat))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ObjectNotFoundError(f"{path} does not exist") from error
        except OSError as error:
            raise self._storage_error("read", path, error) from error

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one file atomically; see `Store.put`."""
        check_key(key, self._root)
        self._counter.add("put")
        self._refuse_links(key)
        path = self._path(key)
        folder, name = os.path.split(path)
        try:
            os.makedirs(folder, exist_ok=True)
            if if_match is not None:
                with _locked(folder):
                    self._check_match(path, if_match)
                    return self._write(folder, name, data, if_absent=False)
            return self._write(folder, name, data, if_absent=if_absent)
        except OSError as error:
            raise self._storage_error("put", path, error) from error

    def _write(self, folder: str, name: str, data: bytes, *, if_absent: bool) -> str:
        path = os.path.join(folder, name)
        temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.tmp")
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                stat = os.fstat(file.fileno())
            if if_absent:
                try:
                    os.link(temporary, path)
                except FileExistsError as error:
                    raise PreconditionFailedError(f"{path}: expected nothing there, found a file") from error
            else:
                os.replace(temporary, path)
            return _etag(stat)
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)

    def _check_match(self, path: str, etag: str) -> None:
        try:
            found = _etag(os.lstat(path))
        except FileNotFoundError as error:
            raise PreconditionFailedError(f"{path}: expected the file with ETag {etag}, found nothing") from error
        if found != etag:
            raise PreconditionFailedError(f"{path}: expected the file with ETag {etag}, found {found}")

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        """Delete up to 1 000 files; see `Store.delete`.

        Between comparing an ETag and unlinking lies a moment in which another process could replace the file.
        """
        if len(requests) > MAX_DELETE_KEYS:
            raise StorageError(f"{self._root}: expected at most {MAX_DELETE_KEYS} keys, found {len(requests)}")
        for request in requests:
            check_key(request.key, self._root)
        if requests:
            self._counter.add("delete")
        return [DeleteResult(request.key, self._delete(request)) for request in requests]

    def _delete(self, request: DeleteRequest) -> str:
        path = self._path(request.key)
        if self._link_on_the_way(request.key) is not None:
            return "is_link"
        try:
            if request.etag is not None and _etag(os.lstat(path)) != request.etag:
                return "precondition_failed"
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return "already_gone"
        except IsADirectoryError:
            return "is_directory"
        except PermissionError:
            return "is_directory" if os.path.isdir(path) else "access_denied"
        except OSError as error:
            return f"errno_{error.errno}"
        return "deleted"

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

    def _storage_error(self, operation: str, path: str, error: OSError) -> StorageError:
        if isinstance(error, PermissionError):
            return AccessDeniedError(f"{operation} {path}: permission denied")
        return StorageError(f"{operation} {path}: {error.strerror or error}")


def _etag(stat: os.stat_result) -> str:
    return f"{stat.st_ino:x}-{stat.st_mtime_ns:x}-{stat.st_size:x}"


def _open_no_follow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    with open(os.path.join(folder, _LOCK_NAME), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
