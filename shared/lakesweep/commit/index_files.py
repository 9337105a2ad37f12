"""Write index files with deletion vectors, for an index manifest that is to name them.

Until a snapshot names them, these files are orphans. They lie in `index/`, or in the bucket's folder if the table's
options say so.

Source: Paimon `IndexPathFactory`, `DeletionVectorIndexFileWriter`.
"""

from collections.abc import Callable, Iterable
from uuid import uuid4

from lakesweep.commit.files import write_new
from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.manifest import DELETION_VECTORS, IndexEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.options import parse_memory_bytes
from lakesweep.format.vectors.index_file import write_index_files
from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.storage.store import Store
from lakesweep.table.paths import TablePaths

_TARGET = ("deletion-vector.index-file.target-size", "2 MB")
_EXTERNAL = "data-file.external-paths"


def put_vectors(
    store: Store,
    schema: TableSchema,
    partition: bytes,
    bucket: int,
    found: Iterable[tuple[str, DeletionVector]],
    before_each: Callable[[], None],
) -> tuple[IndexEntry, ...]:
    """Write the vectors of a partition's bucket, and return their entries for the index manifest.

    Args:
        store: The table's store.
        schema: The latest schema of the branch.
        partition: The partition's values as one row.
        bucket: The bucket; 0 for tables without buckets.
        found: Name of the data file -> vector, in the order of the index files.
        before_each: Called before each file; may raise.

    Returns:
        The entries, in the order in which they were written. A bucket has exactly one; without buckets there are
        several if vectors are large, and none without vectors.

    Raises:
        RefusedError: The table's files lie outside of it (`external_paths`), an option does not parse (`bad_option`),
            or a file of a new name exists (`name_taken`).
        StorageError: A request failed. Some files may exist; they are orphans.
    """
    refuse_external(store, schema)
    paths, writer, entries = TablePaths(schema), uuid4(), []
    for number, file in enumerate(write_index_files(found, target_size(schema))):
        name, size = f"index-{writer}-{number}", len(file.body)
        entry = IndexEntry(partition, bucket, DELETION_VECTORS, name, size, len(file.ranges), None, file.ranges)
        before_each()
        write_new(store, paths.index_file(entry), file.body)
        entries.append(entry)
    return tuple(entries)


def refuse_external(store: Store, schema: TableSchema) -> None:
    """Refuse to write index files for a table whose files lie outside of it.

    Raises:
        RefusedError: They do (`external_paths`).
    """
    if schema.options.get(_EXTERNAL, "").strip():
        raise RefusedError(
            f"table {store.location}: expected a table whose files lie within it, found the option {_EXTERNAL}; "
            "Lakesweep writes no index files outside a table",
            code="external_paths",
        )


def target_size(schema: TableSchema) -> int | None:
    """Return the size from which a new index file is begun, `None` if all vectors of a bucket lie in one file.

    Raises:
        RefusedError: The option does not parse.
    """
    if schema.primary_keys or schema.options.get("bucket", "-1") != "-1":
        return None
    try:
        return parse_memory_bytes(schema.options.get(*_TARGET), _TARGET[0])
    except FormatError as error:
        raise RefusedError(str(error), code=error.code) from error
