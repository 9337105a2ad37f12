"""Deletion vectors of files that are lost: they delete nothing any more.

Readers pass over them. But in a table without buckets, Paimon 1.4 refuses every commit that deletes, compacts or
overwrites a file whose vector lies in the same index file. So there an index entry is left out if it has only vectors
of lost files. Otherwise a new index file has copies of its other vectors. Source: Paimon
`ConflictDetection#buildDeltaEntriesWithDV`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lakesweep.commit.index_files import refuse_external, target_size
from lakesweep.commit.manifest_options import Manifests
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, UnsupportedFormatError
from lakesweep.format.index_manifest_writer import RawIndex, index_record, write_index_manifest
from lakesweep.format.manifest import DELETION_VECTORS, IndexEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.index_file import read_index_file, write_index_files
from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.model.paths.allowed import is_external
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MAX_METADATA_BYTES
from lakesweep.table.paths import TablePaths

VectorOf = tuple[bytes, int, str]
"""Partition, bucket and name of the data file that a vector is of."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays of an index file that also has vectors of lost files. New index files get it."""

    partition: bytes
    bucket: int
    vectors: tuple[tuple[str, DeletionVector], ...]
    """Name of the data file -> vector, in their order."""


Put = Callable[[Kept], tuple[IndexEntry, ...]]
"""Writes new index files, and returns their entries."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """The index of a snapshot without the vectors of lost files."""

    count: int = 0
    """Vectors of lost files."""
    index: RawIndex | None = None
    rows: tuple[bytes | Kept, ...] = ()
    """The records that stay, and what stays of others."""
    stuck: tuple[str, ...] = ()
    """Why entries stay that also have vectors of lost files."""

    @property
    def is_changed(self) -> bool:
        """The index manifest has to be written anew."""
        return self.index is not None and self.rows != tuple(record for record, _ in self.index.rows)

    def written(self, put: Put, manifests: Manifests) -> bytes:
        """Write new index files, and return the new index manifest."""
        assert self.index is not None
        records, made = list[bytes](), list[bytes]()
        for row in self.rows:
            if isinstance(row, bytes):
                records.append(row)
                continue
            new = [index_record(self.index, entry) for entry in put(row)]
            records += new
            made += new
        return write_index_manifest(self.index, records, codec=manifests.codec, level=manifests.level, made=made)


def without_lost(
    index: RawIndex | None, is_lost: Callable[[VectorOf], bool], schema: TableSchema, paths: TablePaths, store: Store
) -> Vectors:
    """Return the index of a snapshot without the vectors of lost files.

    Args:
        index: The index manifest of the snapshot.
        is_lost: Tells whether a data file is lost.
        schema: Of the table.
        paths: Of its files.
        store: Of the table; index files are read that also have other vectors.

    Raises:
        StorageError: A request failed.
    """
    if index is None:
        return Vectors()
    count, rows, stuck = 0, list[bytes | Kept](), list[str]()
    for record, entry in index.rows:
        lost = frozenset[str]()
        if entry.index_type == DELETION_VECTORS:
            lost = frozenset(each[0] for each in entry.vectors if is_lost((entry.partition, entry.bucket, each[0])))
        count += len(lost)
        if not lost or not _has_no_buckets(schema):
            rows.append(record)
            continue
        if all(each[0] in lost for each in entry.vectors):
            continue
        try:
            refuse_external(store, schema)
            target_size(schema)
            rows.append(_kept(index, entry, lost, paths, store))
        except (FormatError, ObjectNotFoundError, RefusedError, UnsupportedFormatError) as error:
            rows.append(record)
            stuck.append(str(error))
    return Vectors(count, index, tuple(rows), tuple(stuck))


def _kept(index: RawIndex, entry: IndexEntry, lost: frozenset[str], paths: TablePaths, store: Store) -> Kept:
    """Read the vectors that stay, and make sure that they can be written."""
    path = path_within(entry, paths)
    return kept_of(index, entry, lost, store.read(path, MAX_METADATA_BYTES).data, path)


def path_within(entry: IndexEntry, paths: TablePaths) -> str:
    """Return where an index file lies.

    Raises:
        UnsupportedFormatError: It lies outside the table (`external_paths`).
    """
    path = paths.index_file(entry)
    if is_external(path):
        raise UnsupportedFormatError(
            f"{path}: expected an index file in the table, found one outside", code="external_paths"
        )
    return path


def kept_of(index: RawIndex, entry: IndexEntry, lost: frozenset[str], body: bytes, path: str) -> Kept:
    """Return the vectors of an index file that stay, and make sure that they can be written.

    Args:
        index: The index manifest.
        entry: Of the index file.
        lost: Names of data files whose vectors do not stay.
        body: The index file.
        path: Its path, for messages.

    Raises:
        FormatError: The index file is damaged.
        UnsupportedFormatError: The index manifest cannot have a new entry.
    """
    named = zip((each[0] for each in entry.vectors), read_index_file(body, entry, path), strict=True)
    vectors = tuple((name, vector) for name, vector in named if name not in lost)
    try:
        (made,) = write_index_files(vectors, None)
    except ValueError as error:
        raise FormatError(f"{path}: {error}") from error
    index_record(index, entry._replace(vectors=made.ranges))  # the manifest's form allows an entry of our own
    return Kept(entry.partition, entry.bucket, vectors)


def _has_no_buckets(schema: TableSchema) -> bool:
    return not schema.primary_keys and schema.options.get("bucket", "-1").strip() == "-1"


def warn_of_stuck(why: str) -> str:
    """Return the warning about an index entry that stays with vectors of lost files."""
    return (
        f"deletion vectors of lost files stay, since their index file cannot be written anew ({why}); Paimon 1.4 "
        "cannot delete, compact or overwrite rows beside them, lakesweep drop-partition can"
    )
