"""Manifests that are written while a snapshot is still being prepared, so that their bodies need not wait in memory.

They are new files, and orphans until a list that a snapshot names has them. No list is among them: a list comes after
all that it names.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from lakesweep.commit.files import write_file
from lakesweep.storage.store import Store
from lakesweep.storage.together import waits

_AT_ONCE = 16
_WAITING_BYTES = 48 << 20
"""A file waits for earlier ones while this many bytes are on their way."""


class EarlyFiles:
    """Writes files below `manifest/`, several at a time. Leaving it waits for what was begun."""

    def __init__(self, store: Store, before_each: Callable[[], None]) -> None:
        """Begin without files.

        Args:
            store: The table's store.
            before_each: Called before each file; may raise.
        """
        self._store, self._before_each = store, before_each
        self._pool: ThreadPoolExecutor | None = None
        self._begun: deque[tuple[Future[None], int]] = deque()

    def write(self, name: str, body: bytes) -> None:
        """Begin to write a manifest, once there is room for it.

        Raises:
            RefusedError: As `write_files`, of this file or an earlier one.
            StorageError: The same.
        """
        if "/" in name or not name.startswith("manifest-") or name.startswith("manifest-list-"):
            raise ValueError(f"{name} is no name of a new manifest")
        if not waits(self._store):
            self._write(name, body)
            return
        while len(self._begun) >= _AT_ONCE or (
            self._begun and sum(size for _, size in self._begun) + len(body) > _WAITING_BYTES
        ):
            self._take()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="manifests")
        self._begun.append((self._pool.submit(self._write, name, body), len(body)))

    def finish(self) -> None:
        """Wait until all files exist.

        Raises:
            RefusedError: As `write_files`.
            StorageError: The same.
        """
        while self._begun:
            self._take()

    def _take(self) -> None:
        future, _ = self._begun.popleft()
        future.result()

    def _write(self, name: str, body: bytes) -> None:
        self._before_each()
        write_file(self._store, name, body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
