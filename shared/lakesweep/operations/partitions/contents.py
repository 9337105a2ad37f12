"""The files of a snapshot by partition, with the records of those that a commit may delete.

A manifest is never changed, so each is read and decoded once, however often a commit is planned anew. The number of
files of a partition is the number of its ADD entries less that of its DELETE entries, as in Paimon's `PartitionEntry`.
The newest creation time is the maximum over all of them: an entry whose file is gone shows that the partition was in
use.

A commit is built on what this reads, so nothing is passed over: a list, manifest or count that is not as recorded
refuses the commit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, StorageError
from lakesweep.format.manifest import Identity, ManifestMeta
from lakesweep.format.manifest_list_writer import RawList, read_raw_list
from lakesweep.format.raw_entries import RawEntry, RawManifest, read_raw_manifest
from lakesweep.format.snapshot import Snapshot
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataType
from lakesweep.model.partitions.expiry import PartitionFacts
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.remembering import read_anew
from lakesweep.table.metadata import MAX_METADATA_BYTES

KEPT_BODY_BYTES = 256 << 20
"""Manifests that are decoded a second time are kept up to this many bytes, else they are read again."""
CORRUPT = "corrupt_manifests"

T = TypeVar("T")
Values = tuple[object, ...]
TextEntry = tuple[bytes, RawEntry]
"""The text of the writer's schema, and the entry."""


@dataclass(slots=True)
class _Tally:
    """What the entries of one partition add up to."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0
    newest_ms: int | None = None
    is_undated: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """One manifest."""

    meta: ManifestMeta
    tallies: Mapping[bytes, _Tally]
    entries: tuple[TextEntry, ...] | None
    """Of the partitions that may be dropped; `None`: read again for them."""
    next_row_id: int


@dataclass(frozen=True, slots=True)
class Content:
    """The data files of one snapshot."""

    lists: tuple[RawList, RawList]
    """The base and the delta list."""
    parts: tuple[_Part, ...]
    """In the order of the lists."""
    source: "Contents"

    def partitions(self) -> tuple[PartitionFacts, ...]:
        """Return the partitions that the manifests name, also those without files.

        Raises:
            RefusedError: More files were deleted from one than added.
        """
        sums: dict[bytes, _Tally] = {}
        for part in self.parts:
            for row, tally in part.tallies.items():
                total = sums.setdefault(row, _Tally())
                total.files += tally.files
                total.rows += tally.rows
                total.size_bytes += tally.size_bytes
                total.newest_ms = _newest(total.newest_ms, tally.newest_ms)
                total.is_undated |= tally.is_undated
        for row, total in sums.items():
            if total.files < 0:
                raise self.source.corrupt(f"more files of partition {self.source.values(row)} are deleted than added")
        return tuple(
            PartitionFacts(
                row,
                self.source.values(row),
                total.rows,
                total.files,
                total.size_bytes,
                None if total.is_undated else total.newest_ms,
            )
            for row, total in sums.items()
        )

    def live(self, rows: frozenset[bytes]) -> list[TextEntry]:
        """Return the files of some partitions, in the order of the manifests.

        Raises:
            RefusedError: An entry is there twice, or deletes what no other adds; Paimon could not commit either.
        """
        added: dict[Identity, TextEntry] = {}
        deleted: set[Identity] = set()
        for part in self.parts:
            if rows.isdisjoint(part.tallies):
                continue
            for text, raw in self.source.entries_of(part, rows):
                identity = raw.entry.identity
                if identity in (added if raw.entry.is_add else deleted):
                    raise self.source.corrupt(f"{raw.entry.file_name} is {_done(raw)} twice")
                if raw.entry.is_add:
                    added[identity] = (text, raw)
                else:
                    deleted.add(identity)
        for identity in deleted:
            if added.pop(identity, None) is None:
                raise self.source.corrupt(f"{identity[3]} is deleted, and no manifest adds it")
        return list(added.values())

    @property
    def row_count(self) -> int:
        """The rows of all files."""
        return sum(tally.rows for part in self.parts for tally in part.tallies.values())

    @property
    def file_count(self) -> int:
        """The number of all files, as the lists count them."""
        return sum(meta.added_count - meta.deleted_count for each in self.lists for meta in each.metas)

    @property
    def next_row_id(self) -> int:
        """The row id after the largest that a manifest names; 0 if none names any."""
        return max((part.next_row_id for part in self.parts), default=0)


@dataclass(slots=True)
class Contents:
    """Reads the data files of snapshots of one branch."""

    store: Store
    table: str
    """For messages."""
    types: Sequence[DataType]
    """Of the partition keys."""
    may_drop: Callable[[Values], bool] | None = None
    """Tells whether the files of a partition may be asked for; `None`: not known before all partitions are."""
    passes_over: Callable[[ManifestMeta], bool] = lambda meta: False
    """Tells whether a manifest has no partition that may be dropped."""
    _lists: dict[str, RawList] = field(default_factory=dict)
    _parts: dict[str, _Part] = field(default_factory=dict)
    _bodies: dict[str, bytes] = field(default_factory=dict)
    _values: dict[bytes, Values] = field(default_factory=dict)

    def read(self, snapshot: Snapshot, *, whole: bool = False) -> Content:
        """Read what this has not read before.

        Args:
            snapshot: A snapshot of the branch.
            whole: Pass over no manifest.

        Raises:
            RefusedError: With code `corrupt_manifests`: a list or manifest is missing, damaged, or not as recorded.
            UnsupportedFormatError: It is intact, and no commit can be built on it.
            StorageError: A request failed.
        """
        self.fetch((snapshot,), whole=whole)
        lists = (self._lists[snapshot.base_manifest_list], self._lists[snapshot.delta_manifest_list])
        metas = self._needed(lists, whole=whole)
        for meta in metas:
            if self._parts[meta.file_name].meta[:4] != meta[:4]:
                raise self.corrupt(f"two lists name {meta.file_name} with different sizes or counts")
        return Content(lists, tuple(self._parts[meta.file_name] for meta in metas), self)

    def fetch(self, snapshots: Iterable[Snapshot], *, whole: bool = False) -> None:
        """Read what snapshots need and this has not read before, many files at a time; see `read`."""
        sizes: dict[str, int | None] = {}
        for snapshot in snapshots:
            sizes[snapshot.base_manifest_list] = snapshot.base_manifest_list_size
            sizes[snapshot.delta_manifest_list] = snapshot.delta_manifest_list_size
        for name, body in self._read(sizes, [name for name in sizes if name not in self._lists]):
            self._lists[name] = self._decoded(body, name, partial(read_raw_list, expected_size=sizes[name]))
        metas = self._needed((self._lists[name] for name in sizes), whole=whole)
        missing = {meta.file_name: meta for meta in metas if meta.file_name not in self._parts}
        for name, body in self._read({name: meta.file_size for name, meta in missing.items()}, missing):
            self._parts[name] = self._part(missing[name], body)

    def _needed(self, lists: Iterable[RawList], *, whole: bool) -> list[ManifestMeta]:
        return [meta for each in lists for meta in each.metas if whole or not self.passes_over(meta)]

    def remember(self, files: Mapping[str, bytes]) -> None:
        """Keep files that a commit has just written, so that they need not be read."""
        self._bodies |= files

    def values(self, row: bytes) -> Values:
        """Return the values of a partition."""
        found = self._values.get(row)
        if found is None:
            found = self._values[row] = decode_row(row, self.types, f"table {self.table}: a partition")
        return found

    def entries_of(self, part: _Part, rows: frozenset[bytes]) -> Iterator[TextEntry]:
        """Yield the entries of some partitions in one manifest."""
        if part.entries is not None:
            yield from (found for found in part.entries if found[1].entry.partition in rows)
            return
        name = part.meta.file_name
        for _, body in self._read({name: part.meta.file_size}, [name]):
            manifest = self._decoded(body, name, read_raw_manifest)
            for raw in manifest.entries():
                if raw.entry.partition in rows:
                    yield manifest.schema_text, raw

    def corrupt(self, problem: str) -> RefusedError:
        """Return the error of a table on which nothing can be built."""
        return RefusedError(
            f"table {self.table}: {problem}; expected metadata without such a fault, since a commit would carry it on. "
            "lakesweep check TABLE --files says more",
            code=CORRUPT,
        )

    def _read(self, sizes: Mapping[str, int | None], names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        names = list(names)
        yield from ((name, self._bodies[name]) for name in names if name in self._bodies)
        keys = [f"manifest/{name}" for name in names if name not in self._bodies]
        known = {f"manifest/{name}": size for name, size in sizes.items() if size is not None}
        with closing(read_many(self.store, keys, max_bytes=MAX_METADATA_BYTES, sizes=known)) as bodies:
            for key, body in bodies:
                if isinstance(body, ObjectNotFoundError):
                    raise self.corrupt(f"{key} does not exist") from body
                if isinstance(body, StorageError):
                    if body.code == "too_large":
                        raise self.corrupt(f"{key} is longer than its size as recorded") from body
                    raise body
                yield key.removeprefix("manifest/"), body.data

    def _decoded(self, body: bytes, name: str, decode: Callable[[bytes, str], T]) -> T:
        path = f"manifest/{name}"
        try:
            try:
                return decode(body, path)
            except FormatError:
                anew = read_anew(self.store, path, MAX_METADATA_BYTES)
                if anew is None:
                    raise
                return decode(anew.data, path)
        except FormatError as error:
            raise self.corrupt(str(error)) from error

    def _part(self, meta: ManifestMeta, body: bytes) -> _Part:
        def decode(data: bytes, path: str) -> _Part:
            return self._tallied(meta, read_raw_manifest(data, path, expected_size=meta.file_size))

        part = self._decoded(body, meta.file_name, decode)
        if self.may_drop is None and sum(map(len, self._bodies.values())) + len(body) <= KEPT_BODY_BYTES:
            self._bodies[meta.file_name] = body
        return part

    def _tallied(self, meta: ManifestMeta, manifest: RawManifest) -> _Part:
        tallies: dict[bytes, _Tally] = {}
        wanted: dict[bytes, bool] = {}
        entries: list[TextEntry] = []
        added = deleted = next_row_id = 0
        for raw in manifest.entries():
            entry = raw.entry
            row = entry.partition
            tally = tallies.get(row)
            if tally is None:
                tally = tallies[row] = _Tally()
                wanted[row] = self.may_drop is not None and self.may_drop(self.values(row))
            if entry.is_add:
                added += 1
                tally.files += 1
                tally.rows += entry.row_count
                tally.size_bytes += entry.file_size
            else:
                deleted += 1
                tally.files -= 1
                tally.rows -= entry.row_count
                tally.size_bytes -= entry.file_size
            if raw.creation_time_ms is None:
                tally.is_undated = True
            elif tally.newest_ms is None or raw.creation_time_ms > tally.newest_ms:
                tally.newest_ms = raw.creation_time_ms
            if raw.first_row_id is not None:
                next_row_id = max(next_row_id, raw.first_row_id + entry.row_count)
            if wanted[row]:
                entries.append((manifest.schema_text, raw))
        if (added, deleted) != (meta.added_count, meta.deleted_count):
            raise FormatError(
                f"{manifest.path}: expected {meta.added_count} added and {meta.deleted_count} deleted files as its "
                f"list states, found {added} and {deleted}"
            )
        return _Part(meta, tallies, None if self.may_drop is None else tuple(entries), next_row_id)


def _newest(one: int | None, other: int | None) -> int | None:
    return max((ms for ms in (one, other) if ms is not None), default=None)


def _done(raw: RawEntry) -> str:
    return "added" if raw.entry.is_add else "deleted"
