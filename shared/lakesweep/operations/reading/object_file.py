"""A file object over one object of a store, for readers that seek: each read is one ranged request, or all are one."""

import io
from typing import Any

from lakesweep.errors import FormatError
from lakesweep.storage.store import Store


class ObjectFile(io.RawIOBase):
    """Reads one object. Only whole ranges are returned, all of one version of the object."""

    def __init__(self, store: Store, key: str, size_bytes: int, *, is_whole: bool = False) -> None:
        """Open an object without a request.

        Args:
            store: The store.
            key: The key of the object.
            size_bytes: Its size, as metadata state it.
            is_whole: The first read asks for the whole object, and keeps it.
        """
        super().__init__()
        self._store = store
        self._key = key
        self._size = size_bytes
        self._at = 0
        self._etag: str | None = None
        self._is_whole, self._body = is_whole, b""

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that it can be sought in."""
        return True

    def tell(self) -> int:
        """Return the place of the next byte to read."""
        return self._at

    def size(self) -> int:
        """Return the size in bytes; pyarrow asks for it."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the place of the next byte to read, and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"expected a place in the file, found {base + offset}")
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """Return up to `size` bytes: fewer only at the end.

        Raises:
            FormatError: The object was replaced since the first read.
            StorageError: The request failed, or the object is shorter than metadata state.
        """
        left = max(0, self._size - self._at)
        length = left if size is None or size < 0 else min(size, left)
        if not length:
            return b""
        if self._is_whole:
            self._body = self._body or self._store.read_range(self._key, 0, self._size).data
            self._at += length
            return self._body[self._at - length : self._at]
        body = self._store.read_range(self._key, self._at, length)
        if self._etag is None:
            self._etag = body.etag
        elif body.etag != self._etag:
            raise FormatError(f"{self._key}: expected the same object for all reads, found another one")
        self._at += length
        return body.data

    def readall(self) -> bytes:
        """Return all bytes up to the end; see `read`."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, and return the number of bytes; see `read`."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)
