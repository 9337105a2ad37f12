"""The data files of one version of a table with a primary key, with their keys in an order that Python knows.

Source: Paimon `KeyComparatorSupplier`, `BinaryString#compareTo`.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from lakesweep.errors import FormatError, RefusedError, UnsupportedFormatError
from lakesweep.format.keyed_entries import KeyedEntry
from lakesweep.format.manifest import Identity
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.data_type import DataType
from lakesweep.model.keyed import Key, KeyedFile
from lakesweep.model.reading.plan import ReadFile
from lakesweep.model.roots import Root
from lakesweep.model.vectors import LocatedVector
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.live_files import version_of
from lakesweep.table.vectors import VectorKey, check_rows

CORRUPT_KEYS = "corrupt_keys"


def key_names(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns of the primary key that are no partition keys, in its order.

    Source: Paimon `TableSchema#trimmedPrimaryKeys`.
    """
    return tuple(name for name in schema.primary_keys if name not in schema.partition_keys)


def key_types(schema: TableSchema) -> tuple[DataType, ...]:
    """Return the types of `key_names`."""
    of_columns = {field.name: field.type for field in schema.fields}
    return tuple(of_columns[name] for name in key_names(schema))


def keyed_files(
    store: Store,
    root: Root,
    schema: TableSchema,
    located: Mapping[VectorKey, LocatedVector],
    *,
    chosen: Callable[[bytes], bool] | None = None,
) -> tuple[KeyedFile, ...]:
    """Return the data files of a snapshot or tag, in the order of its manifests.

    Args:
        store: The table's store.
        root: The version.
        schema: The latest schema of the root's branch, which determines paths and the types of keys.
        located: Where the vector of each data file lies; see `locate`.
        chosen: Tells whether the files of a partition are wanted; `None`: all.

    Raises:
        RefusedError: A list or manifest of the root is missing or damaged (`unreadable_root`). Some file has keys that
            are no keys of the schema, or in a wrong order, or is there twice (`corrupt_keys`). A vector deletes more
            rows than its file has (`corrupt_vectors`).
        StorageError: A read failed.
    """
    paths, names = TablePaths(schema), key_names(schema)
    types = key_types(schema)
    found: dict[str, KeyedFile] = {}
    for each, deleted_on in _live(store, root, chosen):
        entry = each.row.entry
        path = paths.data_file(entry)
        vector = located.get((entry.partition, entry.bucket, entry.file_name)) if located else None
        if vector is not None:
            check_rows(store, vector, entry)
        where = f"table {store.location}, {path}"
        low, high = (key_of(row, names, types, f"{where}, {field}") for row, field in _rows(each))
        if low > high:
            raise RefusedError(f"{where}: expected keys up to _MAX_KEY, found a _MIN_KEY above it", code=CORRUPT_KEYS)
        file = KeyedFile(
            file=ReadFile.of(each.row, path, vector),
            low=low,
            high=high,
            max_sequence=each.max_sequence,
            delete_rows=each.row.delete_row_count,
            total_buckets=each.total_buckets,
            deleted_on=deleted_on,
        )
        if (other := found.setdefault(path, file)) is not file:
            levels = f"level {other.level} and on level {file.level}"
            found_on = levels if other.level != file.level else f"level {file.level} twice"
            raise RefusedError(f"{where}: expected each data file once, found it on {found_on}", code=CORRUPT_KEYS)
    return tuple(found.values())


def _live(store: Store, root: Root, chosen: Callable[[bytes], bool] | None) -> list[tuple[KeyedEntry, frozenset[int]]]:
    """Return the live entries, each with the deeper levels on which its file has a DELETE."""
    reader = MetadataReader(store)
    added: list[KeyedEntry] = []
    deleted: set[Identity] = set()
    wanted: dict[bytes, bool] = {}
    metas = [each.meta for _, each in version_of(reader, root).manifests()]
    for _, content in reader.scan_keyed_entries(metas, tuple):
        if isinstance(content, Unreadable):
            raise RefusedError(
                f"table {store.location}: {root.ref} cannot be read completely: {content.problem}",
                code="unreadable_root",
            )
        for each in content:
            partition = each.row.entry.partition
            if chosen is not None and partition not in wanted:
                wanted[partition] = chosen(partition)
            if not wanted.get(partition, True):
                continue
            if each.is_add:
                added.append(each)
            else:
                deleted.add(each.identity)
    levels: defaultdict[tuple[object, ...], set[int]] = defaultdict(set)
    for partition, bucket, level, *rest in deleted:
        levels[partition, bucket, *rest].add(level)

    def deeper(each: KeyedEntry) -> frozenset[int]:
        partition, bucket, own, *rest = each.identity
        return frozenset(level for level in levels.get((partition, bucket, *rest), ()) if level > own)

    return [(each, deeper(each)) for each in added if each.identity not in deleted]


def _rows(each: KeyedEntry) -> tuple[tuple[bytes, str], tuple[bytes, str]]:
    return (each.min_key, "_MIN_KEY"), (each.max_key, "_MAX_KEY")


def key_of(row: bytes, names: Sequence[str], types: Sequence[DataType], where: str) -> Key:
    """Decode a key and make it comparable.

    Args:
        row: The key as one row.
        names: The columns of the key; see `key_names`.
        types: Their types.
        where: Where it stands, for messages.

    Raises:
        RefusedError: The bytes are no key of these types (`corrupt_keys`).
    """
    try:
        values = decode_row(row, types, where)
    except (FormatError, UnsupportedFormatError) as error:
        raise RefusedError(str(error), code=CORRUPT_KEYS) from error
    if None in values:
        name = names[values.index(None)]
        raise RefusedError(f"{where}: expected a value of the key column {name}, found null", code=CORRUPT_KEYS)
    return tuple(value.encode() if isinstance(value, str) else value for value in values)
