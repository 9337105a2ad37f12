"""One compaction: copy the entries of live files into new manifests, record by record.

The files of a snapshot are the ADD entries without a DELETE of the same identity, wherever that stands. So a first pass
reads the identities of the DELETEs, from those manifests alone that have any. A second pass copies the other ADDs, and
no DELETE. Neither keeps entries in memory: the identities are digests, and a new manifest is written once it is full.

A DELETE is left out only if its ADD was found and left out, too. A table where an ADD is missing is refused: the DELETE
may be all that keeps a file deleted which a manifest names that was not read.

A manifest that would be copied without a change stays. So does one that is large enough and has no DELETE, unless one
of its files is deleted; where its statistics miss each partition with a deleted file, it is not read.

Source: Paimon `ManifestFileMerger#tryFullCompaction`, `ManifestFileBlockMerger`, `RollingFileWriterImpl`.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from lakesweep.commit.manifest_options import Manifests
from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.avro.projection import Row
from lakesweep.format.identity_digests import Digests, identity_digest
from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.manifest_writer import ManifestWriter, WrittenManifest
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.format.raw_entries import RawManifest, read_raw_manifest
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataType
from lakesweep.model.partitions.ranges import may_hold, ranges_of
from lakesweep.operations.manifests.rules.choice import must_change
from lakesweep.table.contents.strict import StrictMetadata, unmatched

_MOST_PARTITIONS = 1000
"""With deleted files in more partitions, every manifest is read; to compare them all would take longer."""
_CHECKED = 1000
"""The size of a manifest is looked at after so many entries, so that manifests end where Paimon ends them."""
_OPEN_BYTES = 64 << 20
"""The most bytes of all new manifests that are not full: one for each schema of a writer."""

Write = Callable[[str, bytes], None]


@dataclass(frozen=True, slots=True)
class Compacted:
    """What came out."""

    inputs: frozenset[str]
    """The manifests of the snapshot."""
    kept: frozenset[str]
    """Those that stay."""
    written: tuple[WrittenManifest, ...]
    """The new ones, without their bodies."""
    deleted: Digests
    """The files that DELETE entries named, all of which are left out."""

    @property
    def is_empty(self) -> bool:
        """Nothing has changed."""
        return not self.written and self.kept == self.inputs


@dataclass(slots=True)
class _Output:
    """A new manifest that is not full yet."""

    writer: ManifestWriter
    copy_of: ManifestMeta | None
    """It has exactly the entries of this manifest, so it need not be written."""


@dataclass(slots=True)
class Compaction:
    """The compaction of one snapshot."""

    metadata: StrictMetadata
    types: Sequence[DataType]
    """Of the partition keys."""
    manifests: Manifests
    """How to write."""
    names: MetadataNames
    write: Write
    """Takes the name and the body of each new manifest."""
    _deleted: Digests = field(default_factory=Digests)
    _partitions: set[bytes] = field(default_factory=set)
    """Those with deleted files."""
    _outputs: dict[bytes, _Output] = field(default_factory=dict)
    """By the text of the writer's schema, since the records of a file have one schema."""
    _kept: set[str] = field(default_factory=set)
    _written: list[WrittenManifest] = field(default_factory=list)

    def run(self, metas: Sequence[ManifestMeta]) -> Compacted:
        """Compact the manifests of a snapshot, in their order.

        Raises:
            RefusedError: With code `corrupt_manifests`: the snapshot cannot be built upon.
            UnsupportedFormatError: A manifest is intact, and its records cannot be copied.
            StorageError: A request failed.
        """
        inputs = frozenset(meta.file_name for meta in metas)
        with closing(self._deletes(metas)) as deletes:
            self._note(deletes)
        may_change = self._may_change()
        read = [meta for meta in metas if may_change(meta)]
        self._kept |= inputs - {meta.file_name for meta in read}
        with closing(self._read(read)) as found, self.metadata.refusing():
            for meta, manifest in found:
                if not must_change(meta, self.manifests.target_bytes) and not self._loses(manifest):
                    self._kept.add(meta.file_name)
                else:
                    self._copy(meta, manifest)
        if self._deleted.unmatched:
            raise self.metadata.corrupt(unmatched(self._unmatched(metas), self._deleted.unmatched))
        with self.metadata.refusing():
            while self._outputs:
                self._finish(next(iter(self._outputs)))
        compacted = Compacted(inputs, frozenset(self._kept), tuple(self._written), self._deleted)
        _check(compacted, metas)
        return compacted

    def _read(self, metas: Sequence[ManifestMeta]) -> Generator[tuple[ManifestMeta, RawManifest], None, None]:
        by_name = {meta.file_name: meta for meta in metas}
        sizes = {name: meta.file_size for name, meta in by_name.items()}
        for name, body in self.metadata.bodies(sizes, sizes):
            with self.metadata.refusing():
                manifest = read_raw_manifest(body, f"manifest/{name}", expected_size=sizes[name])
            yield by_name[name], manifest

    def _deletes(self, metas: Sequence[ManifestMeta]) -> Generator[Row, None, None]:
        """Yield the DELETEs of those manifests that have any."""
        with closing(self._read([meta for meta in metas if meta.deleted_count])) as found, self.metadata.refusing():
            for _, manifest in found:
                for _, deletes in manifest.copies(identified=True):
                    yield from deletes

    def _note(self, deletes: Iterable[Row]) -> None:
        for row in deletes:
            if not self._deleted.add(identity_digest(row)):
                raise self.metadata.corrupt(f"{_name(row)} is deleted twice")
            self._partitions.add(row[0])

    def _may_change(self) -> Callable[[ManifestMeta], bool]:
        """Return what tells whether a manifest has to be read."""
        values = []
        if len(self._partitions) <= _MOST_PARTITIONS:
            with self.metadata.refusing():
                values = [decode_row(row, self.types, "a partition") for row in self._partitions]

        def may_change(meta: ManifestMeta) -> bool:
            if must_change(meta, self.manifests.target_bytes) or len(self._partitions) > _MOST_PARTITIONS:
                return True
            ranges = ranges_of(meta, self.types)
            return any(may_hold(ranges, each) for each in values)

        return may_change

    def _loses(self, manifest: RawManifest) -> bool:
        """Tell whether one of a manifest's files is deleted."""
        return any(
            row[0] in self._partitions and identity_digest(row) in self._deleted
            for adds, _ in manifest.copies(identified=True)
            for row in adds
        )

    def _live(self, adds: list[Row]) -> list[Row]:
        """Return the ADDs whose files are not deleted."""
        live = []
        for row in adds:
            if row[0] in self._partitions:
                found = self._deleted.match(identity_digest(row))
                if found is False:
                    raise self.metadata.corrupt(f"{_name(row)} is added twice, and deleted")
                if found:
                    continue
            live.append(row)
        return live

    def _copy(self, meta: ManifestMeta, manifest: RawManifest) -> None:
        """Copy the live files of one manifest."""
        has_deleted = bool(self._deleted.count)
        text = manifest.schema_text
        counts = (0, 0)
        copied = 0
        for adds, deletes in manifest.copies(identified=has_deleted):
            counts = (counts[0] + len(adds), counts[1] + len(deletes))
            live = self._live(adds) if has_deleted else adds
            while live:
                output = self._outputs.get(text)
                if output is not None and (self._is_full(output.writer) or not output.writer.has_room(live[0][3])):
                    if copied:
                        output.copy_of = None
                    self._finish(text)
                    output = None
                if output is None:
                    output = self._begin(text, None if copied else meta)
                elif not copied:
                    output.copy_of = None
                added = output.writer.add_copies(live[: _CHECKED - output.writer.count % _CHECKED])
                live = live[added:]
                copied += added
        if counts != (meta.added_count, meta.deleted_count):
            raise FormatError(
                f"manifest/{meta.file_name}: expected {meta.added_count} added and {meta.deleted_count} deleted files, "
                f"as its list states, found {counts[0]} and {counts[1]}"
            )
        if copied and copied < sum(counts):
            self._outputs[text].copy_of = None
        if sum(output.writer.size for output in self._outputs.values()) > _OPEN_BYTES:
            self._finish(max(self._outputs, key=lambda each: self._outputs[each].writer.size))

    def _is_full(self, writer: ManifestWriter) -> bool:
        return writer.count % _CHECKED == 0 and writer.size >= self.manifests.target_bytes

    def _begin(self, text: bytes, copy_of: ManifestMeta | None) -> _Output:
        how = self.manifests
        writer = ManifestWriter(text, self.names.manifest(), self.types, how.codec, how.level)
        output = self._outputs[text] = _Output(writer, copy_of)
        return output

    def _finish(self, text: bytes) -> None:
        output = self._outputs.pop(text)
        if output.copy_of is not None:
            self._kept.add(output.copy_of.file_name)
            return
        written = output.writer.finish()
        self.write(written.meta.file_name, written.body)
        self._written.append(written._replace(body=b""))

    def _unmatched(self, metas: Sequence[ManifestMeta]) -> str:
        """Return the name of a file that is deleted, and that no manifest adds."""
        with closing(self._deletes(metas)) as deletes:
            return next(_name(row) for row in deletes if not self._deleted.is_matched(identity_digest(row)))


def _check(compacted: Compacted, metas: Sequence[ManifestMeta]) -> None:
    """Make sure that as many files are named as were live."""
    live = sum(meta.added_count - meta.deleted_count for meta in metas)
    kept = sum(meta.added_count for meta in metas if meta.file_name in compacted.kept)
    found = kept + sum(each.meta.added_count for each in compacted.written)
    if found != live:
        raise RefusedError(
            f"expected new manifests with all {live} live files, made some with {found}", code="bad_snapshot"
        )


def _name(row: Row) -> str:
    return str(row[2][4])
