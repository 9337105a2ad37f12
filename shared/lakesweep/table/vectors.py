"""The deletion vectors of a version: where they lie, and their rows.

Index manifests say where each vector lies and how many rows it deletes; only the rows need the index files. A vector
belongs to the data file of its partition, bucket and name. Readers ignore vectors unless the table's options turn them
on (`deletion-vectors.enabled`).

Source: Paimon `SnapshotReaderImpl.scanDvIndex`, `DeletionFile`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.manifest import DELETION_VECTORS, IndexEntry, ManifestEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.options import parse_bool
from lakesweep.format.vectors.index_file import check_apart, end_of, read_at, widths_of
from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.model.roots import Root
from lakesweep.model.vectors import LocatedVector
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MAX_METADATA_BYTES, MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores

_ENABLED = "deletion-vectors.enabled"
CORRUPT_VECTORS = "corrupt_vectors"

VectorKey = tuple[bytes, int, str]
"""Partition, bucket and name of a data file."""


def has_vectors(schema: TableSchema) -> bool:
    """Tell whether readers of a table apply deletion vectors, by its latest schema.

    Raises:
        FormatError: The option does not parse.
    """
    return parse_bool(schema.options.get(_ENABLED, "false"), _ENABLED)


def vector_entries(store: Store, schema: TableSchema, root: Root) -> tuple[IndexEntry, ...]:
    """Return the index files with deletion vectors of a version: none if its readers apply no vectors.

    Args:
        store: The table's store.
        schema: The latest schema of the root's branch.
        root: The version.

    Raises:
        RefusedError: The index manifest is missing or damaged.
        StorageError: The read failed.
    """
    name = root.snapshot.index_manifest
    if name is None or not has_vectors(schema):
        return ()
    content = MetadataReader(store).index_manifests([name])[name]
    if isinstance(content, Unreadable):
        raise RefusedError(
            f"table {store.location}: {root.ref} cannot be read completely: {content.problem}", code="unreadable_root"
        )
    return tuple(entry for entry in content if entry.index_type == DELETION_VECTORS)


def locate(store: Store, entries: Iterable[IndexEntry], paths: TablePaths) -> Mapping[VectorKey, LocatedVector]:
    """Return where the vector of each data file lies.

    Raises:
        RefusedError: With code `corrupt_vectors`: a data file has two vectors, a vector cannot lie in its index file,
            has bytes of another one, or deletes a negative number of rows.
    """
    found: dict[VectorKey, LocatedVector] = {}
    for entry in entries:
        path, widths = paths.index_file(entry), widths_of(entry)
        for place in entry.vectors:
            name, offset, length, cardinality = place
            vector = LocatedVector(path, entry.file_size, name, offset, length, widths.get(offset), cardinality)
            other = found.setdefault((entry.partition, entry.bucket, name), vector)
            if cardinality is not None and cardinality < 0:
                raise _corrupt(store, f"{path}: expected a number of deleted rows of {name}, found {cardinality}")
            try:
                end_of(place, entry.file_size, path)
            except FormatError as error:
                raise _corrupt(store, str(error)) from error
            if other is not vector:
                raise _corrupt(
                    store,
                    f"expected one deletion vector for the data file {name}, found one in {other.index_file} at byte "
                    f"{other.offset} and one in {path} at byte {offset}",
                )
        try:
            check_apart(entry, path)
        except FormatError as error:
            raise _corrupt(store, str(error)) from error
    return found


def check_rows(store: Store, vector: LocatedVector, entry: ManifestEntry) -> None:
    """Make sure that a vector does not delete more rows than its data file has.

    Raises:
        RefusedError: It does (`corrupt_vectors`).
    """
    if vector.cardinality is not None and vector.cardinality > entry.row_count:
        raise _corrupt(
            store,
            f"{vector.index_file}: expected at most {entry.row_count} deleted rows of {entry.file_name}, found "
            f"{vector.cardinality}",
        )


def _corrupt(store: Store, problem: str) -> RefusedError:
    return RefusedError(f"table {store.location}: {problem}", code=CORRUPT_VECTORS)


def read_vectors(stores: TableStores, located: Sequence[LocatedVector]) -> Iterator[DeletionVector]:
    """Yield some vectors of one index file, in the order of `located`, with one request.

    The request asks for the bytes from the first of these vectors to the last. For one vector these are its own bytes,
    and 8 more if the width allows it.

    Args:
        stores: The table's store, and those of its external roots.
        located: Vectors of one index file, at least one.

    Raises:
        FormatError: The bytes are damaged, or are not as the index manifest states.
        RefusedError: The file lies below no declared root, or the vectors are too large to load (`too_large`).
        StorageError: The read failed.
    """
    path, size = located[0].index_file, located[0].index_size
    first = min(vector.offset for vector in located)
    ends = [end_of(vector.place, size, path) for vector in located]
    length = max(ends) - first
    if length > MAX_METADATA_BYTES:
        raise RefusedError(
            f"table {stores.table.location}, {path}: expected at most {MAX_METADATA_BYTES} bytes of deletion vectors, "
            f"found {length}",
            code="too_large",
        )
    store, key = stores.resolve(path)
    data = memoryview(store.read_range(key, first, length).data)
    for vector, end in zip(located, ends, strict=True):
        yield read_at(data[vector.offset - first : end - first], vector.place, path)
