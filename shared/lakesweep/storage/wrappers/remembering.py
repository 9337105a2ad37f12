"""A store that reads a table's metadata from the cache of earlier runs.

Two kinds of objects can be cached. Objects below `manifest/` (lists, manifests, index manifests) are never written
twice under one name, so the name is enough. Documents in a listing (snapshots, tags, changelogs, consumers, schemas)
are cached with their ETags. They are valid while the listing shows the same ETag. Bodies are cached as they were read,
so callers check and decode them as if they had just been read.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakesweep.errors import ObjectNotFoundError
from lakesweep.storage.store import Body, Store
from lakesweep.storage.wrappers.wrapping import WrappingStore

IMMUTABLE_FOLDER = "manifest/"
MAX_OBJECT_BYTES = 1 << 20
"""A longer object is not cached: reading it again costs little compared with decoding it."""
MAX_TOTAL_BYTES = 32 << 20
"""The largest cache of one table."""
MAX_IDLE_RUNS = 3
"""Objects that this many runs did not need are dropped from the cache."""


@dataclass(slots=True)
class Remembered:
    """One cached object."""

    body: Body
    idle_runs: int = 0
    """How many runs in a row did not need it."""


@dataclass(slots=True)
class MetadataCache:
    """The metadata cache of one table."""

    objects: dict[str, Remembered] = field(default_factory=dict)
    """By key."""
    is_loaded: bool = False
    learned: int = 0
    """How many objects this run has added to the cache, or dropped from it."""
    is_full: bool = False
    """This run has read an object for which the cache had no space."""
    clear: tuple[str, frozenset[str]] = ("", frozenset())
    """A plan of this run, and the manifests that name none of its files."""
    identity: str = ""
    """The identity of the cached table, empty if it is unknown."""
    max_total_bytes: int = MAX_TOTAL_BYTES
    _fresh: set[str] = field(default_factory=set)
    """The objects that this run has read itself."""
    _used: set[str] = field(default_factory=set)
    _size: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, objects: Mapping[str, Remembered], identity: str = "") -> None:
        """Take over the cache of earlier runs for the table with this identity."""
        self.identity = identity
        self.objects, self._fresh = dict(objects), set()
        self._size = sum(len(known.body.data) for known in self.objects.values())
        self.is_loaded = True

    def find(self, key: str, etag: str | None) -> Body | None:
        """Return a cached object, `None` if there is none.

        Args:
            key: The key of the object.
            etag: The required ETag, `None` if the name is enough.
        """
        known = self.objects.get(key)
        if known is None or (etag is not None and known.body.etag != etag):
            return None
        self._used.add(key)
        return known.body

    def learn(self, key: str, body: Body) -> None:
        """Add an object to the cache if there is space."""
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
        """Drop objects from the cache: they were deleted, or the caller wants to see whether they exist."""
        with self._lock:
            for key in keys:
                known = self.objects.pop(key, None)
                if known is not None:
                    self._size -= len(known.body.data)
                    self.learned += 1

    def is_old(self, key: str) -> bool:
        """Tell whether the cached body of an object was read by an earlier run."""
        return key in self.objects and key not in self._fresh

    @property
    def has_changed(self) -> bool:
        """Tell whether to store the cache again: it has changed, or idle objects block space that others need."""
        return self.learned > 0 or (self.is_full and not self._used.issuperset(self.objects))

    def worth_keeping(self) -> dict[str, Remembered]:
        """Return the objects to cache for the next run."""
        kept = {
            key: Remembered(known.body, 0 if key in self._used else known.idle_runs + 1)
            for key, known in self.objects.items()
        }
        return {key: known for key, known in kept.items() if known.idle_runs < MAX_IDLE_RUNS}


class RememberingStore(WrappingStore):
    """Reads from the metadata cache, and adds to it."""

    def __init__(self, store: Store, memory: MetadataCache, etags: Mapping[str, str]) -> None:
        """Wrap a store.

        Args:
            store: The table's store.
            memory: The metadata cache of the table.
            etags: Path -> ETag of the documents that a listing has just shown.
        """
        super().__init__(store)
        self._memory = memory
        self._etags = etags

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one object; see `Store.read`."""
        body = self.known(key, max_bytes)
        if body is None:
            body = self._store.read(key, max_bytes)
            if key in self._etags or key.startswith(IMMUTABLE_FOLDER):
                self._memory.learn(key, body)
        return body

    def known(self, key: str, max_bytes: int | None = None) -> Body | None:
        """Return what `read` would return without a request, `None` if it would send one."""
        etag = self._etags.get(key)
        if etag is None and not key.startswith(IMMUTABLE_FOLDER):
            return None
        body = self._memory.find(key, etag)
        return None if body is None or (max_bytes is not None and len(body.data) > max_bytes) else body

    def forget(self, key: str) -> bool:
        """Drop an object from the cache, and tell whether an earlier run had read the cached body."""
        is_old = self._memory.is_old(key)
        self._memory.forget([key])
        return is_old


def read_anew(store: Store, key: str, max_bytes: int | None = None) -> Body | None:
    """Read an object again that turned out to be damaged, if it came from the cache: it may have been repaired.

    `None`: this run has just read it, or it was deleted. The result is never cached, so the next run reads it, too.

    Args:
        store: The store, possibly around a caching one.
        key: The key of the object.
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
