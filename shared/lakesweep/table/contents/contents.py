"""Read the manifests of snapshots, and again those with partitions that a commit may delete.

A manifest is never changed, so each is added up once, however often a commit is planned anew. The entries of a large
table do not fit into memory. So they are decoded again for each use, of manifests that are kept as they were read.

A commit is built on what this reads, so nothing is passed over: a list, manifest or count that is not as recorded
refuses the commit.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.avro.projection import Row
from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.manifest_list_writer import RawList, read_raw_list
from lakesweep.format.raw_entries import MAX_ROW_ID, RawManifest, read_raw_manifest
from lakesweep.format.snapshot import Snapshot
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataType
from lakesweep.storage.store import Store
from lakesweep.table.contents.content import Content, Part, Tally, TextEntry, Values
from lakesweep.table.contents.strict import StrictMetadata, sizes_of

KEPT_BODY_BYTES = 128 << 20
"""Manifests that are decoded a second time are kept up to this many bytes, else they are read again."""


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
    _metadata: StrictMetadata = field(init=False)
    _lists: dict[str, RawList] = field(default_factory=dict)
    _parts: dict[str, Part] = field(default_factory=dict)
    _bodies: dict[str, bytes] = field(default_factory=dict)
    _kept_bytes: int = 0
    _values: dict[bytes, Values] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._metadata = StrictMetadata(self.store, self.table)

    def read(self, snapshot: Snapshot, *, whole: bool = False) -> Content:
        """Read what this has not read before.

        Args:
            snapshot: A snapshot of the branch.
            whole: Pass over no manifest.

        Raises:
            RefusedError: With code `corrupt_manifests`: a list or manifest is missing, damaged, named twice, or
                not as recorded.
            UnsupportedFormatError: It is intact, and no commit can be built on it.
            StorageError: A request failed.
        """
        self.fetch((snapshot,), whole=whole)
        lists = (self._lists[snapshot.base_manifest_list], self._lists[snapshot.delta_manifest_list])
        self._metadata.check_names(snapshot, lists)
        metas = self._needed(lists, whole=whole)
        for meta in metas:
            if self._parts[meta.file_name].meta[:4] != meta[:4]:
                raise self.corrupt(f"two lists name {meta.file_name} with different sizes or counts")
        return Content(lists, tuple(self._parts[meta.file_name] for meta in metas), self)

    def fetch(self, snapshots: Iterable[Snapshot], *, whole: bool = False) -> None:
        """Read what snapshots need and this has not read before, many files at a time; see `read`."""
        sizes: dict[str, int | None] = {}
        for snapshot in snapshots:
            sizes |= sizes_of(snapshot)
        for name, body in self._read(sizes, [name for name in sizes if name not in self._lists]):
            self._lists[name] = self._metadata.decoded(body, name, partial(read_raw_list, expected_size=sizes[name]))
        metas = self._needed((self._lists[name] for name in sizes), whole=whole)
        missing = {meta.file_name: meta for meta in metas if meta.file_name not in self._parts}
        for name, body in self._read({name: meta.file_size for name, meta in missing.items()}, missing):
            self._parts[name] = self._part(missing[name], body)

    def _needed(self, lists: Iterable[RawList], *, whole: bool) -> list[ManifestMeta]:
        return [meta for each in lists for meta in each.metas if whole or not self.passes_over(meta)]

    def remember(self, files: Mapping[str, bytes]) -> None:
        """Keep files that need not be read again, as long as there is room for them."""
        for name, body in files.items():
            if self._kept_bytes + len(body) <= KEPT_BODY_BYTES and name not in self._bodies:
                self._bodies[name] = body
                self._kept_bytes += len(body)

    def values(self, row: bytes) -> Values:
        """Return the values of a partition.

        Raises:
            RefusedError: They are not those of a partition of this table.
        """
        try:
            return self._decoded_row(row)
        except FormatError as error:
            raise self.corrupt(str(error)) from error

    def _decoded_row(self, row: bytes) -> Values:
        found = self._values.get(row)
        if found is None:
            found = self._values[row] = decode_row(row, self.types, "a partition")
        return found

    def may_ask(self, row: bytes) -> bool:
        """Tell whether the entries of a partition may be asked for."""
        return self.may_drop is None or self.may_drop(self.values(row))

    def entries_of(self, parts: Sequence[Part], rows: frozenset[bytes]) -> Iterator[TextEntry]:
        """Yield the entries of some partitions in some manifests, many of which are read at a time."""
        for manifest in self._again(parts):
            with self._metadata.refusing():
                for raw in manifest.entries():
                    if raw.entry.partition in rows:
                        yield manifest.schema_text, raw

    def deletes_of(self, parts: Sequence[Part], rows: frozenset[bytes]) -> Iterator[Row]:
        """Yield the DELETEs of some partitions in some manifests; see `RawManifest.copies`."""
        for manifest in self._again(parts):
            with self._metadata.refusing():
                for _, deletes in manifest.copies(identified=True):
                    yield from (row for row in deletes if row[0] in rows)

    def _again(self, parts: Sequence[Part]) -> Iterator[RawManifest]:
        sizes = {part.meta.file_name: part.meta.file_size for part in parts}
        for name, body in self._read(sizes, sizes):
            yield self._metadata.decoded(body, name, read_raw_manifest)

    def corrupt(self, problem: str) -> RefusedError:
        """Return the error of a table on which nothing can be built."""
        return self._metadata.corrupt(problem)

    def _read(self, sizes: Mapping[str, int | None], names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        names = list(names)
        yield from ((name, self._bodies[name]) for name in names if name in self._bodies)
        yield from self._metadata.bodies(sizes, [name for name in names if name not in self._bodies])

    def _part(self, meta: ManifestMeta, body: bytes) -> Part:
        def decode(data: bytes, path: str) -> Part:
            return self._tallied(meta, read_raw_manifest(data, path, expected_size=meta.file_size))

        part = self._metadata.decoded(body, meta.file_name, decode)
        if any(map(self.may_ask, part.tallies)):
            self.remember({meta.file_name: body})
        return part

    def _tallied(self, meta: ManifestMeta, manifest: RawManifest) -> Part:
        """Add up a manifest."""
        tallies: dict[bytes, Tally] = {}
        added = deleted = next_row_id = 0
        for is_add, row, size, row_count, created_ms, first_row_id in manifest.facts(dated=self.may_drop is None):
            tally = tallies.get(row)
            if tally is None:
                tally = tallies[row] = Tally()
            if is_add:
                added += 1
                tally.files += 1
                tally.rows += row_count
                tally.size_bytes += size
            else:
                deleted += 1
                tally.files -= 1
                tally.rows -= row_count
                tally.size_bytes -= size
            if created_ms is None:
                tally.is_undated = True
            elif tally.newest_ms is None or created_ms > tally.newest_ms:
                tally.newest_ms = created_ms
            if first_row_id is not None:
                next_row_id = max(next_row_id, first_row_id + row_count)
        if (added, deleted) != (meta.added_count, meta.deleted_count):
            raise FormatError(
                f"{manifest.path}: expected {meta.added_count} added and {meta.deleted_count} deleted files as its "
                f"list states, found {added} and {deleted}"
            )
        if next_row_id > MAX_ROW_ID:
            raise FormatError(f"{manifest.path}: expected row ids of 64 bits, found {next_row_id}")
        for row in tallies:
            self._decoded_row(row)
        return Part(meta, tallies, next_row_id)
