"""Read a table's metadata files, each once, many at a time.

A missing or damaged file is a value (`Unreadable`), because its meaning depends on the caller. An expiring snapshot
then frees nothing; a remaining root then protects everything. A *request* that fails (no permission, server error) is
always an exception, since nothing can be concluded from it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from lakesweep.errors import FormatError, ObjectNotFoundError, StorageError
from lakesweep.format.keyed_entries import KeyedEntry, read_keyed_entries
from lakesweep.format.manifest import (
    EntryNames,
    IndexEntry,
    ManifestEntry,
    ManifestMeta,
    read_index_manifest,
    read_manifest,
    read_manifest_list,
    read_names,
)
from lakesweep.format.row_entries import RowEntry, read_row_entries
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.remembering import read_anew

T = TypeVar("T")
Entry = TypeVar("Entry", ManifestEntry, EntryNames, RowEntry, KeyedEntry)

MAX_METADATA_BYTES = 256 << 20
"""A larger metadata file is refused, not loaded (manifests aim at 8 MiB)."""
BODY_CACHE_BYTES = 64 << 20
"""Manifests that one run reads twice are cached up to this many bytes."""
KEPT_ENTRIES = 40_000
"""Decoded entries that a reader may keep, some 20 MB."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A metadata file whose content is unknown."""

    path: str
    problem: str
    missing: bool
    """The store says that the file does not exist; otherwise the file is damaged."""


class MetadataReader:
    """Reads manifest lists, manifests and index manifests of one table."""

    def __init__(
        self, store: Store, clear: frozenset[str] = frozenset(), *, again: bool = False, keeps_entries: bool = False
    ) -> None:
        """Build a reader that has read nothing yet.

        Args:
            store: The table's store.
            clear: Manifests that are known to name nothing that the caller needs; they count as empty.
            again: Manifests will be read again, so their bodies are cached, up to a bound.
            keeps_entries: They will be decoded again, so the entries of `scan_manifests` are kept, up to a bound.
        """
        self._store = store
        self._clear = clear
        self._again = again
        self._lists: dict[str, tuple[ManifestMeta, ...] | Unreadable] = {}
        self._index_manifests: dict[str, tuple[IndexEntry, ...] | Unreadable] = {}
        self._metas: dict[str, ManifestMeta] = {}
        self._bodies: dict[str, bytes] = {}
        self._bodies_size = 0
        self._entries: dict[str, tuple[ManifestEntry, ...]] = {}
        self._entries_left = KEPT_ENTRIES if keeps_entries else 0

    @property
    def location(self) -> str:
        """Return the location of the table."""
        return self._store.location

    def manifest_lists(self, wanted: Mapping[str, int | None]) -> Mapping[str, tuple[ManifestMeta, ...] | Unreadable]:
        """Return the content of manifest lists by name.

        Args:
            wanted: Name -> exact size in bytes that its snapshot states, `None` if it states none.
        """
        missing = {name: size for name, size in wanted.items() if name not in self._lists}
        for name, body in self._bodies_of(missing):
            self._lists[name] = self._decoded(name, body, missing[name], self._shared_metas)
        return {name: self._lists[name] for name in wanted}

    def index_manifests(self, names: Iterable[str]) -> Mapping[str, tuple[IndexEntry, ...] | Unreadable]:
        """Return the content of index manifests by name."""
        names = tuple(dict.fromkeys(names))
        for name, body in self._bodies_of({name: None for name in names if name not in self._index_manifests}):
            self._index_manifests[name] = self._decoded(name, body, None, read_index_manifest)
        return {name: self._index_manifests[name] for name in names}

    def scan_manifests(
        self, manifests: Iterable[ManifestMeta], reduce: Callable[[Iterator[ManifestEntry]], T], *, again: bool = False
    ) -> Iterator[tuple[str, T | Unreadable]]:
        """Decode manifests one after another, and yield the result of `reduce` for each.

        Only one manifest's entries exist at a time, so memory does not grow with the table.

        Args:
            manifests: The manifests as lists name them; the sizes and counts of the lists are compared with the file.
            reduce: Consumes the entries of one manifest to the end.
            again: Cache the bodies (up to a bound), because they will be read again.
        """
        if not self._entries_left and not self._entries:
            yield from self._scan(manifests, read_manifest, reduce, again=again)
            return
        metas = {meta.file_name: meta for meta in manifests}
        decoded = {name: self._entries[name] for name in metas if name in self._entries}
        kept: list[tuple[ManifestEntry, ...]] = []

        def keeping(entries: Iterator[ManifestEntry]) -> T:
            kept[:] = [tuple(entries)]
            return reduce(iter(kept[0]))

        missing = (meta for name, meta in metas.items() if name not in decoded)
        for name, found in self._scan(missing, read_manifest, keeping, again=again):
            if not isinstance(found, Unreadable) and len(kept[0]) <= self._entries_left:
                self._entries[name] = kept[0]
                self._entries_left -= len(kept[0])
            yield name, found
        for name, entries in decoded.items():
            yield name, reduce(iter(entries))

    def scan_names(
        self, manifests: Iterable[ManifestMeta], reduce: Callable[[Iterator[EntryNames]], T]
    ) -> Iterator[tuple[str, T | Unreadable]]:
        """Decode only the names in manifests; otherwise like `scan_manifests`."""
        return self._scan(manifests, read_names, reduce, again=False)

    def scan_row_entries(
        self, manifests: Iterable[ManifestMeta], reduce: Callable[[Iterator[RowEntry]], T], *, with_stats: bool
    ) -> Iterator[tuple[str, T | Unreadable]]:
        """Decode entries with what readers of rows need; otherwise like `scan_manifests`."""
        return self._scan(manifests, partial(read_row_entries, with_stats=with_stats), reduce, again=False)

    def scan_keyed_entries(
        self, manifests: Iterable[ManifestMeta], reduce: Callable[[Iterator[KeyedEntry]], T]
    ) -> Iterator[tuple[str, T | Unreadable]]:
        """Decode entries with what a compaction by key needs; otherwise like `scan_manifests`."""
        return self._scan(manifests, read_keyed_entries, reduce, again=False)

    def _scan(
        self,
        manifests: Iterable[ManifestMeta],
        read: Callable[[bytes, str], Iterator[Entry]],
        reduce: Callable[[Iterator[Entry]], T],
        *,
        again: bool,
    ) -> Iterator[tuple[str, T | Unreadable]]:
        metas = {meta.file_name: meta for meta in manifests}
        for name in metas.keys() & self._clear:
            del metas[name]
            yield name, reduce(iter(()))
        cached = {name: self._bodies[name] for name in metas if name in self._bodies}
        missing = {name: meta.file_size for name, meta in metas.items() if name not in cached}
        for name, found in self._bodies_of(missing):
            body, result = found, _reduce(metas[name], found, read, reduce)
            if isinstance(result, Unreadable) and (anew := self._anew(result)) is not None:
                body, result = anew, _reduce(metas[name], anew, read, reduce)
            keep = again or self._again
            if keep and not isinstance(body, Unreadable) and self._bodies_size + len(body) <= BODY_CACHE_BYTES:
                self._bodies[name] = body
                self._bodies_size += len(body)
            yield name, result
        for name, body in cached.items():
            yield name, _reduce(metas[name], body, read, reduce)

    def _bodies_of(self, wanted: Mapping[str, int | None]) -> Iterator[tuple[str, bytes | Unreadable]]:
        """Read files by name. A file that is longer than its stated size is damaged, and is not loaded."""
        keys = [f"manifest/{name}" for name in wanted]
        sizes = {f"manifest/{name}": size for name, size in wanted.items() if size is not None}
        with closing(read_many(self._store, keys, max_bytes=MAX_METADATA_BYTES, sizes=sizes)) as bodies:
            for key, body in bodies:
                name = key.removeprefix("manifest/")
                if isinstance(body, StorageError):
                    yield name, _unreadable_or_raise(key, body)
                else:
                    yield name, body.data

    def _decoded(
        self, name: str, body: bytes | Unreadable, size: int | None, decode: Callable[[bytes, str], T]
    ) -> T | Unreadable:
        result = body if isinstance(body, Unreadable) else _decode(name, body, size, decode)
        if isinstance(result, Unreadable) and (anew := self._anew(result)) is not None:
            return _decode(name, anew, size, decode)
        return result

    def _anew(self, damaged: Unreadable) -> bytes | None:
        """Read a damaged file again if it came from the cache: somebody may have repaired it since."""
        if damaged.missing:
            return None
        try:
            body = read_anew(self._store, damaged.path, MAX_METADATA_BYTES)
        except StorageError as error:
            _unreadable_or_raise(damaged.path, error)
            return None
        return None if body is None else body.data

    def _shared_metas(self, body: bytes, path: str) -> tuple[ManifestMeta, ...]:
        """Decode a list. A manifest that several lists name becomes one object."""
        found = read_manifest_list(body, path)
        return tuple(shared if (shared := self._metas.setdefault(m.file_name, m)) == m else m for m in found)


def _unreadable_or_raise(key: str, error: StorageError) -> Unreadable:
    if isinstance(error, ObjectNotFoundError):
        return Unreadable(key, f"{key} does not exist", missing=True)
    if error.code in ("is_link", "too_large"):
        return Unreadable(key, str(error), missing=False)
    raise error


def _decode(name: str, body: bytes, size: int | None, decode: Callable[[bytes, str], T]) -> T | Unreadable:
    path = f"manifest/{name}"
    if size is not None and size != len(body):
        return Unreadable(path, f"{path}: expected {size} bytes as its root states, found {len(body)}", missing=False)
    try:
        return decode(body, path)
    except FormatError as error:
        return Unreadable(path, str(error), missing=False)


def _reduce(
    meta: ManifestMeta,
    body: bytes | Unreadable,
    read: Callable[[bytes, str], Iterator[Entry]],
    reduce: Callable[[Iterator[Entry]], T],
) -> T | Unreadable:
    if isinstance(body, Unreadable):
        return body
    path = f"manifest/{meta.file_name}"
    if len(body) != meta.file_size:
        return Unreadable(
            path, f"{path}: expected {meta.file_size} bytes as its list states, found {len(body)}", missing=False
        )
    added = deleted = 0

    def counted() -> Iterator[Entry]:
        nonlocal added, deleted
        for entry in read(body, path):
            if entry.is_add:
                added += 1
            else:
                deleted += 1
            yield entry

    try:
        result = reduce(counted())
    except FormatError as error:
        return Unreadable(path, str(error), missing=False)
    if (added, deleted) != (meta.added_count, meta.deleted_count):
        return Unreadable(
            path,
            f"{path}: expected {meta.added_count} added and {meta.deleted_count} deleted files as its list states, "
            f"found {added} and {deleted}",
            missing=False,
        )
    return result
