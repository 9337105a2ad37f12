"""Manifests, written from raw entries: every record is copied, and its list record is computed from the entries.

Source: Paimon `ManifestFile.ManifestEntryWriter`, `RollingFileWriterImpl`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lakesweep.errors import FormatError
from lakesweep.format.avro.container_writer import ContainerWriter
from lakesweep.format.avro.projection import Row
from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.format.partition_stats import PartitionStats
from lakesweep.format.raw_entries import ADD_START, DELETE_START, RawEntry
from lakesweep.format.values.data_type import DataType

TARGET_BYTES = 8 << 20
"""Paimon's default of `manifest.target-file-size`."""


class WrittenManifest(NamedTuple):
    """A new manifest and what its list says about it."""

    body: bytes
    meta: ManifestMeta
    null_counts: tuple[int | None, ...]
    """For each partition key, the entries whose value is null."""


def write_manifests(
    entries: Iterable[tuple[bytes, RawEntry]],
    names: MetadataNames,
    partition_types: Sequence[DataType],
    *,
    codec: str,
    level: int | None = None,
    target_bytes: int = TARGET_BYTES,
) -> Iterator[WrittenManifest]:
    """Write entries into as many manifests as they need, in their order.

    A manifest ends when it has `target_bytes`, when a reader would refuse a larger one, and where the next entry has
    another writer's schema. So a caller whose entries have several schemas groups them, if their order allows it. Only
    one manifest is in memory at a time.

    Args:
        entries: The writer's schema and the entry. The record of an entry is final: it says whether the manifest adds
            or deletes the file.
        names: Names the manifests.
        partition_types: The types of the partition keys.
        codec: Name of an Avro codec; see `codec_of`.
        level: Of the codec, or None for its default.
        target_bytes: The size at which the next manifest begins.

    Raises:
        FormatError: A record does not begin as an entry, or a partition is not a row of the given types.
        UnsupportedFormatError: There is no such codec, or a type is not possible for a partition key.
    """
    manifest: ManifestWriter | None = None
    for schema_text, entry in entries:
        if manifest is not None and (
            manifest.schema_text != schema_text or manifest.size >= target_bytes or not manifest.has_room(entry.record)
        ):
            yield manifest.finish()
            manifest = None
        if manifest is None:
            manifest = ManifestWriter(schema_text, names.manifest(), partition_types, codec, level)
        manifest.add(entry)
    if manifest is not None:
        yield manifest.finish()


class ManifestWriter:
    """A manifest that is being written."""

    def __init__(
        self, schema_text: bytes, name: str, partition_types: Sequence[DataType], codec: str, level: int | None
    ) -> None:
        """Begin a manifest; see `write_manifests`."""
        self.schema_text = schema_text
        self._writer = ContainerWriter(schema_text, codec, level)
        self._name = name
        self._partitions = PartitionStats(partition_types, name)
        self._added = self._deleted = 0
        self._schema_ids: set[int] = set()
        self._buckets: set[int] = set()
        self._levels: set[int] = set()
        self._row_ids: tuple[int, int] | None = None
        self._has_row_ids = True

    @property
    def size(self) -> int:
        """Bytes of the file so far, without the records of the open block."""
        return self._writer.size

    @property
    def count(self) -> int:
        """The number of entries."""
        return self._added + self._deleted

    def has_room(self, record: bytes) -> bool:
        """Tell whether Lakesweep can still read the manifest once it has this record."""
        return self._writer.has_room(record)

    def add(self, raw: RawEntry) -> None:
        """Copy an entry."""
        if raw.record.startswith(ADD_START):
            self._added += 1
        elif raw.record.startswith(DELETE_START):
            self._deleted += 1
        else:
            raise FormatError(f"{self._name}: expected a record that begins as an entry, found {raw.record[:2].hex()}")
        self._writer.add(raw.record)
        entry = raw.entry
        self._partitions.add(entry.partition)
        self._schema_ids.add(raw.schema_id)
        self._buckets.add(entry.bucket)
        self._levels.add(entry.level)
        self._add_row_ids([(raw.first_row_id, entry.row_count)])

    def add_copies(self, rows: Sequence[Row]) -> int:
        """Copy those ADDs that `RawManifest.copies` yields, as many as there is room for, and return how many."""
        for number, row in enumerate(rows):
            if not self._writer.has_room(row[3]):
                rows = rows[:number]
                break
            self._writer.add(row[3])
        self._added += len(rows)
        self._partitions.add_all(row[0] for row in rows)
        self._buckets.update([row[1] for row in rows])
        files = [row[2] for row in rows]
        self._levels.update([file[0] for file in files])
        self._schema_ids.update([file[1] for file in files])
        if self._has_row_ids:
            self._add_row_ids([(file[3], file[2]) for file in files])
        return len(rows)

    def _add_row_ids(self, first_and_count: Iterable[tuple[int | None, int]]) -> None:
        """Widen the range of row ids; without the ids of all entries there is none."""
        for first, count in first_and_count:
            if first is None:
                self._has_row_ids = False
            if not self._has_row_ids or first is None:
                return
            last = first + count - 1
            low, high = self._row_ids or (first, last)
            self._row_ids = min(low, first), max(high, last)

    def finish(self) -> WrittenManifest:
        """Return the manifest."""
        body = self._writer.finish()
        partitions = self._partitions.result()
        min_row_id, max_row_id = (self._row_ids if self._has_row_ids else None) or (None, None)
        meta = ManifestMeta(
            file_name=self._name,
            file_size=len(body),
            added_count=self._added,
            deleted_count=self._deleted,
            schema_id=max(self._schema_ids),
            partition_min=partitions.smallest,
            partition_max=partitions.largest,
            extra_files=(),
            min_bucket=min(self._buckets),
            max_bucket=max(self._buckets),
            min_level=min(self._levels),
            max_level=max(self._levels),
            min_row_id=min_row_id,
            max_row_id=max_row_id,
        )
        return WrittenManifest(body, meta, partitions.null_counts)
