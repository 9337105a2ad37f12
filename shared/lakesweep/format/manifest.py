"""Manifests, the lists that name them, and index manifests.

A *manifest* has the data files that a commit added and deleted. A *manifest list* has the manifests that make up a
snapshot. An *index manifest* has every index file of a snapshot: it is the whole state, not a log, so a commit that
changes an index writes a new one.

Source: Paimon `ManifestEntry`, `DataFileMeta`, `FileEntry`, `ManifestFileMeta`, `IndexManifestEntry`, `IndexFileMeta`.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakesweep.errors import FormatError
from lakesweep.format.avro.projection import Row
from lakesweep.format.manifest_fields import ENTRY, INDEX, MANIFEST, NAMES
from lakesweep.format.metadata_file import check_version, read_rows
from lakesweep.format.values.json_document import check_file_name, describe
from lakesweep.format.values.uri import check_external_path

METADATA_VERSION = 2
"""Of entries in manifests and manifest lists."""
INDEX_VERSION = 1
ADD = 0
DELETE = 1

APPEND = 0
"""The file source of files that are no result of a compaction."""
COMPACT = 1
"""The file source of files that a compaction rewrote. All other files, also of unknown source, come from commits."""

POSTPONE_BUCKET = -2
"""The bucket of files whose real bucket is not decided yet. There are no lower numbers."""

DELETION_VECTORS = "DELETION_VECTORS"
HASH = "HASH"

Identity = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]
VectorRange = tuple[str, int, int, int | None]
"""Data file, offset of the vector's length word, length, number of deleted rows if known."""


class ManifestEntry(NamedTuple):
    """One data file, added or deleted."""

    is_add: bool
    partition: bytes
    """The partition's values as one row. Two partitions are equal if these bytes are equal; see `binary_row`."""
    bucket: int
    level: int
    file_name: str
    file_size: int
    extra_files: tuple[str, ...]
    """Files beside the data file that are deleted together with it."""
    embedded_index: bytes | None
    external_path: str | None
    """The path of a data file outside the table's own folder, exactly as written."""
    file_source: int | None
    """0 written, 1 compacted, None unknown."""
    row_count: int

    @property
    def identity(self) -> Identity:
        """The values that a DELETE must match, byte by byte, to delete an ADD."""
        return (
            self.partition,
            self.bucket,
            self.level,
            self.file_name,
            self.extra_files,
            self.embedded_index,
            self.external_path,
        )


class EntryNames(NamedTuple):
    """The names in one entry."""

    is_add: bool
    file_name: str
    extra_files: tuple[str, ...]
    external_path: str | None


def read_names(body: bytes, path: str) -> Iterator[EntryNames]:
    """Read the names in a manifest, with the checks of `read_manifest`, in two thirds of the time."""
    new = tuple.__new__  # The constructor of a named tuple takes twice as long.
    for version, kind, bucket, file in read_rows(body, path, NAMES, None):
        name, extra_files, external_path, *_ = file
        if version != METADATA_VERSION:
            check_version(version, METADATA_VERSION, path)
        if kind != ADD and kind != DELETE:
            raise FormatError(f"{path}: expected the kind 0 or 1 of {describe(name)}, found {kind}")
        if bucket < POSTPONE_BUCKET:
            raise FormatError(f"{path}: expected a bucket of {describe(name)}, found {bucket}")
        if not 0 < len(name) < 256 or "/" in name or name[0] == "." or not name.isprintable():
            check_file_name(name, path, "_FILE_NAME")
        for extra in extra_files:
            check_file_name(extra, path, "_EXTRA_FILES")
        if external_path is not None:
            check_external_path(external_path, path, "_EXTERNAL_PATH")
        yield new(EntryNames, (kind == ADD, name, extra_files, external_path))


def read_manifest(body: bytes, path: str, *, expected_size: int | None = None) -> Iterator[ManifestEntry]:
    """Read a manifest, in the order of the file.

    The frame is checked before this returns. Entries are decoded block by block, so an error may come after some of
    them; the entries so far are not all.

    Args:
        body: The whole file.
        path: The path for messages.
        expected_size: The `file_size` that the manifest list records.
    """
    return entries_of(read_rows(body, path, ENTRY, expected_size), path)


def live_entries(manifests: Iterable[Iterable[ManifestEntry]]) -> list[ManifestEntry]:
    """Return the ADDs without a matching DELETE, in their order.

    The position of a DELETE does not matter: even an entry that is added again later remains deleted.
    """
    added: list[ManifestEntry] = []
    deleted: set[Identity] = set()
    for manifest in manifests:
        for entry in manifest:
            if entry.is_add:
                added.append(entry)
            else:
                deleted.add(entry.identity)
    return [entry for entry in added if entry.identity not in deleted] if deleted else added


def entries_of(rows: Iterable[Row], path: str) -> Iterator[ManifestEntry]:
    """Check and convert rows that begin with the fields `ENTRY`, one after another."""
    new = tuple.__new__
    for version, kind, partition, bucket, file, *_ in rows:
        level, name, size, extra_files, index, external_path, source, row_count, *_more = file
        if version != METADATA_VERSION:
            check_version(version, METADATA_VERSION, path)
        if kind != ADD and kind != DELETE:
            raise FormatError(f"{path}: expected the kind 0 or 1 of {describe(name)}, found {kind}")
        if bucket < POSTPONE_BUCKET or level < 0 or size < 0 or row_count < 0:
            raise FormatError(
                f"{path}: expected a bucket, level, size and row count of {describe(name)}, "
                f"found {bucket}, {level}, {size} and {row_count}"
            )
        # Nearly every name passes these cheap checks; a name of 255 characters takes at most 1 020 bytes.
        if not 0 < len(name) < 256 or "/" in name or name[0] == "." or not name.isprintable():
            check_file_name(name, path, "_FILE_NAME")
        for extra in extra_files:
            check_file_name(extra, path, "_EXTRA_FILES")
        if external_path is not None:
            check_external_path(external_path, path, "_EXTERNAL_PATH")
        yield new(
            ManifestEntry,
            (kind == ADD, partition, bucket, level, name, size, extra_files, index, external_path, source, row_count),
        )


class ManifestMeta(NamedTuple):
    """One manifest, as a manifest list describes it. Ranges are None if the writer did not record them."""

    file_name: str
    file_size: int
    added_count: int
    deleted_count: int
    schema_id: int
    partition_min: bytes | None
    """The smallest value of each partition key, as one row; see `binary_row`."""
    partition_max: bytes | None
    extra_files: tuple[str, ...]
    """Side files of the manifest, which are deleted together with it."""
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    total_buckets: int | None = None


def read_manifest_list(body: bytes, path: str, *, expected_size: int | None = None) -> tuple[ManifestMeta, ...]:
    """Read a manifest list, in the order of the file, since expiry depends on this order.

    Args:
        body: The whole file.
        path: The path for messages.
        expected_size: The size that the snapshot states (`base_manifest_list_size` and similar fields), if any.
    """
    return tuple(meta_of(row, path) for row in read_rows(body, path, MANIFEST, expected_size))


def meta_of(row: Row, path: str) -> ManifestMeta:
    """Check and convert a row of the fields `MANIFEST`."""
    version, name, size, added, deleted, schema_id, stats, extra_files, *ranges = row
    check_version(version, METADATA_VERSION, path)
    if min(size, added, deleted) < 0:
        raise FormatError(
            f"{path}: expected a size and counts of {describe(name)}, found {size}, {added} and {deleted}"
        )
    partition_min, partition_max = stats or (None, None)
    return ManifestMeta(
        check_file_name(name, path, "_FILE_NAME"),
        size,
        added,
        deleted,
        schema_id,
        partition_min,
        partition_max,
        tuple(check_file_name(extra, path, "_EXTRA_FILES") for extra in extra_files or ()),
        *ranges,
    )


class IndexEntry(NamedTuple):
    """One index file."""

    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    external_path: str | None
    vectors: tuple[VectorRange, ...]
    """The deletion vectors in the file; empty for any other kind of index."""


def read_index_manifest(body: bytes, path: str, *, expected_size: int | None = None) -> tuple[IndexEntry, ...]:
    """Read an index manifest."""
    return tuple(index_entry_of(row, path) for row in read_rows(body, path, INDEX, expected_size))


def index_entry_of(row: Row, path: str) -> IndexEntry:
    """Check and convert a row of the fields `INDEX`."""
    version, kind, partition, bucket, index_type, name, size, row_count, external_path, vectors = row
    check_version(version, INDEX_VERSION, path)
    if kind != 0:
        raise FormatError(f"{path}: expected only additions in an index manifest, found the kind {kind}")
    if size < 0 or row_count < 0:
        raise FormatError(f"{path}: expected a size and row count of {describe(name)}, found {size} and {row_count}")
    check_file_name(name, path, "_FILE_NAME")
    if external_path is not None:
        check_external_path(external_path, path, "_EXTERNAL_PATH")
    for data_file, offset, length, _ in vectors or ():
        check_file_name(data_file, path, "f0")
        if offset < 0 or length < 0:
            found = f"{offset}, {length}"
            raise FormatError(f"{path}: expected the place of the vector of {describe(data_file)}, found {found}")
    return IndexEntry(partition, bucket, index_type, name, size, row_count, external_path, vectors or ())
