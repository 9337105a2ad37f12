"""A store that reads a table's metadata from what earlier runs have read of it.

Two kinds of objects can be remembered. Those below `manifest/` (lists, manifests, index manifests) are never written
twice under one name, so a name is enough. The documents that a listing shows (snapshots, tags, changelogs, consumers,
schemas) are remembered with their ETags, and believed while the listing still shows the same. Bodies are kept as they
were read, so that whoever asks checks and decodes them as if they had just come.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage.store import Body, Store
from lakesweep.storage.wrapping import WrappingStore

IMMUTABLE_FOLDER = "manifest/"
MAX_OBJECT_BYTES = 1 << 20
"""A longer object is not remembered: reading it again costs a small part of what decoding it costs."""
MAX_TOTAL_BYTES = 32 << 20
"""So much is remembered of a table at most."""
MAX_IDLE_RUNS = 3
"""What so many runs did not ask for is forgotten."""


@dataclass(slots=True)
class Remembered:
    """One object."""

    body: Body
    idle_runs: int = 0
    """How many runs in a row did not ask for it."""


@dataclass(slots=True)
class Memory:
    """What is known of one table."""

    objects: dict[str, Remembered] = field(default_factory=dict)
    """By key."""
    is_loaded: bool = False
    learned: int = 0
    """How many objects this run has read that were not known, or forgotten."""
    is_full: bool = False
    """This run has read something that there was no room for."""
    clear: tuple[str, frozenset[str]] = ("", frozenset())
    """A plan of this run, and manifests that name nothing of it."""
    identity: str = ""
    """Of the table that it is about, empty where it is not known."""
    max_total_bytes: int = MAX_TOTAL_BYTES
    _fresh: set[str] = field(default_factory=set)
    """What this run has read itself."""
    _used: set[str] = field(default_factory=set)
    _size: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, objects: Mapping[str, Remembered], identity: str = "") -> None:
        """Take what earlier runs remembered of the table with this identity."""
        self.identity = identity
        self.objects, self._fresh = dict(objects), set()
        self._size = sum(len(known.body.data) for known in self.objects.values())
        self.is_loaded = True

    def find(self, key: str, etag: str | None) -> Body | None:
        """Return an object that is known, `None` when it is not.

        Args:
            key: Which one.
            etag: That it must have, `None` where its name is enough.
        """
        known = self.objects.get(key)
        if known is None or (etag is not None and known.body.etag != etag):
            return None
        self._used.add(key)
        return known.body

    def learn(self, key: str, body: Body) -> None:
        """Remember an object, where there is room."""
        with self._lock:
            before = self.objects.get(key)
            size = self._size + len(body.data) - (len(before.body.data) if before else 0)
            if len(body.data) > MAX_OBJECT_BYTES:
                return
            if size > self.max_total_bytes:
                self.is_full = True
                return
            self.objects[key] = Remembered(body)
            self._size = size
            self._used.add(key)
            self._fresh.add(key)
            self.learned += 1

    def forget(self, keys: Iterable[str]) -> None:
        """Have these objects read again: they were removed, or somebody wants to see that they are there."""
        with self._lock:
            for key in keys:
                known = self.objects.pop(key, None)
                if known is not None:
                    self._size -= len(known.body.data)
                    self.learned += 1

    def is_old(self, key: str) -> bool:
        """Tell whether an earlier run read what is known of an object."""
        return key in self.objects and key not in self._fresh

    @property
    def has_changed(self) -> bool:
        """Tell whether to keep it anew: something was learned, or others lack the room of what is idle."""
        return self.learned > 0 or (self.is_full and not self._used.issuperset(self.objects))

    def worth_keeping(self) -> dict[str, Remembered]:
        """Return what to keep for the next run."""
        kept = {
            key: Remembered(known.body, 0 if key in self._used else known.idle_runs + 1)
            for key, known in self.objects.items()
        }
        return {key: known for key, known in kept.items() if known.idle_runs < MAX_IDLE_RUNS}


class RememberingStore(WrappingStore):
    """Reads from memory what is known, and remembers what is read."""

    def __init__(self, store: Store, memory: Memory, etags: Mapping[str, str]) -> None:
        """Wrap a store.

        Args:
            store: The table's.
            memory: What is known of it.
            etags: Path -> ETag of the documents that a listing has just shown.
        """
        super().__init__(store)
        self._memory = memory
        self._etags = etags

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        etag = self._etags.get(key)
        if etag is None and not key.startswith(IMMUTABLE_FOLDER):
            return self._store.read(key, max_bytes)
        body = self._memory.find(key, etag)
        if body is None or (max_bytes is not None and len(body.data) > max_bytes):
            body = self._store.read(key, max_bytes)
            self._memory.learn(key, body)
        return body

    def forget(self, key: str) -> bool:
        """Have an object read again, and tell whether an earlier run had read what was known of it."""
        is_old = self._memory.is_old(key)
        self._memory.forget([key])
        return is_old


def read_anew(store: Store, key: str, max_bytes: int | None = None) -> Body | None:
    """Return an object that turned out to be damaged as it is now, where it came from memory: it may have been mended.

    `None`: it was read just now, or it is gone. In no case is it remembered, so the next run reads it as well.

    Args:
        store: It may wrap one that remembers.
        key: Which object.
        max_bytes: As in `Store.read`.

    Raises:
        StorageError: The request failed.
    """
    inner: object = store
    while isinstance(inner, WrappingStore):
        if isinstance(inner, RememberingStore):
            if not inner.forget(key):
                return None
            try:
                return inner.wrapped.read(key, max_bytes)
            except ObjectNotFoundError:
                return None
        inner = inner.wrapped
    return None
