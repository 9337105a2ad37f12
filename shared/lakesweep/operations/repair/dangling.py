"""Deletion vectors of files that are gone, and the index of a snapshot without them.

Readers pass over such a vector. In a table without buckets, Paimon 1.3 to 1.4 refuses every commit that deletes,
compacts or overwrites a file whose vector lies in the same index file. An index file with such vectors alone is left
out of the index manifest. Otherwise a new index file gets copies of the other vectors, byte by byte. Every other record
of the index manifest is copied as it is.

Source: Paimon `ConflictDetection#buildDeltaEntriesWithDV`, `AppendDeleteFileMaintainer`, `BucketedDvMaintainer`.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakesweep.commit.base import Base
from lakesweep.commit.index_files import refuse_external, target_size
from lakesweep.commit.manifest_options import Manifests
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.index_manifest_writer import RawIndex, index_record, write_index_manifest
from lakesweep.format.manifest import DELETION_VECTORS, IndexEntry
from lakesweep.format.manifest_list_writer import RawList
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import decode_row
from lakesweep.model.commits.vectors import DanglingIndexFile
from lakesweep.operations.repair.live_names import LiveNames
from lakesweep.operations.repair.loss import partition_in_words
from lakesweep.operations.repair.vectors import Kept, Put, kept_of, path_within
from lakesweep.runs.committing.size import check_entries
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.storage.together import waits
from lakesweep.table.contents.index import index_of
from lakesweep.table.contents.strict import StrictMetadata
from lakesweep.table.metadata import MAX_METADATA_BYTES
from lakesweep.table.paths import TablePaths
from lakesweep.table.vectors import CORRUPT_VECTORS, locate

OPERATION = "clean-deletion-vectors"
_AT_ONCE = 8

Key = tuple[int, bytes, frozenset[str]]
"""What a rewritten index file depends on: the id of the schema, the record of the former one, and the files that are
gone."""
Rewritten = Mapping[Key, tuple[IndexEntry, ...]]


@dataclass(frozen=True, slots=True)
class Dangling:
    """The deletion vectors of one snapshot whose data files are gone."""

    index: RawIndex
    lists: tuple[RawList, RawList]
    schema: TableSchema
    paths: TablePaths
    gone: Mapping[int, frozenset[str]]
    """Place of a record -> those data files of its index file that are gone, if any are."""
    files: tuple[DanglingIndexFile, ...]
    """What a report says of these index files."""

    @property
    def rewritten(self) -> Sequence[tuple[Key, IndexEntry]]:
        """The index files that also have vectors of live files."""
        return [
            ((self.schema.id, record, gone), entry)
            for place, gone in self.gone.items()
            for record, entry in (self.index.rows[place],)
            if not gone.issuperset(each[0] for each in entry.vectors)
        ]

    @property
    def all_index_files(self) -> int:
        """The number of index files with deletion vectors."""
        return len(_of_vectors(self.index))

    def index_manifest(self, rewritten: Rewritten, manifests: Manifests) -> bytes:
        """Return the new index manifest.

        Args:
            rewritten: New index files for all of `self.rewritten`.
            manifests: How to write it.
        """
        records, made = list[bytes](), list[bytes]()
        for place, (record, _) in enumerate(self.index.rows):
            if place not in self.gone:
                records.append(record)
                continue
            entries = rewritten.get((self.schema.id, record, self.gone[place]), ())
            new = [index_record(self.index, entry) for entry in entries]
            records += new
            made += new
        return write_index_manifest(self.index, records, codec=manifests.codec, level=manifests.level, made=made)


def look_for_dangling(table: Table, base: Base, live: LiveNames) -> Dangling | None:
    """Look for deletion vectors whose data files are gone; `None`: the snapshot has no deletion vectors.

    Args:
        table: For the size that this process has time for, and for messages.
        base: The snapshot.
        live: Reads its metadata.

    Raises:
        RefusedError: Metadata are missing or damaged, or vectors contradict each other (`corrupt_vectors`).
        StorageError: A request failed.
    """
    metadata, schema, snapshot = live.metadata, base.schema, base.root.snapshot
    index = index_of(metadata.store, snapshot, metadata.corrupt)
    found = _of_vectors(index)
    names = frozenset(each[0] for entry in found.values() for each in entry.vectors)
    if index is None or not names:
        return None
    paths = _paths_of(schema, metadata.table)
    lists = metadata.lists(snapshot)
    metas = [meta for each in lists for meta in each.metas]
    check_entries(table, OPERATION, len(metas), sum(meta.added_count + meta.deleted_count for meta in metas))
    alive = live.among(names, metas)
    with metadata.refusing():
        locate(metadata.store, (_only(entry, alive) for entry in found.values()), paths)
    of_entries = {place: frozenset(each[0] for each in entry.vectors) - alive for place, entry in found.items()}
    gone = {place: names for place, names in of_entries.items() if names}
    with metadata.refusing():
        files = tuple(_file(found[place], names, schema, paths) for place, names in gone.items())
    dangling = Dangling(index, lists, schema, paths, gone, files)
    if dangling.rewritten and target_size(schema) is None:
        _check_buckets(table, dangling, found.values())
    return dangling


def count_vectors(base: Base, metadata: StrictMetadata) -> int:
    """Return how many deletion vectors the index of a snapshot has.

    Raises:
        RefusedError: The index manifest is missing or damaged.
        StorageError: The request failed.
    """
    index = index_of(metadata.store, base.root.snapshot, metadata.corrupt)
    return sum(len(entry.vectors) for entry in _of_vectors(index).values())


def _of_vectors(index: RawIndex | None) -> Mapping[int, IndexEntry]:
    """Return the index files with deletion vectors, by the place of their record."""
    rows = () if index is None else index.rows
    return {place: entry for place, (_, entry) in enumerate(rows) if entry.index_type == DELETION_VECTORS}


def _file(entry: IndexEntry, gone: frozenset[str], schema: TableSchema, paths: TablePaths) -> DanglingIndexFile:
    path = paths.index_file(entry)
    return DanglingIndexFile(
        path=path,
        partition=partition_in_words(schema, decode_row(entry.partition, schema.partition_types, path)),
        bucket=entry.bucket,
        bytes=entry.file_size,
        vectors=len(entry.vectors),
        data_files=tuple(each[0] for each in entry.vectors if each[0] in gone),
    )


def _only(entry: IndexEntry, names: frozenset[str]) -> IndexEntry:
    return entry._replace(vectors=tuple(each for each in entry.vectors if each[0] in names))


def _paths_of(schema: TableSchema, table: str) -> TablePaths:
    try:
        return TablePaths(schema)
    except FormatError as error:
        raise RefusedError(f"table {table}: {error}", code="bad_option") from error


def _check_buckets(table: Table, dangling: Dangling, entries: Collection[IndexEntry]) -> None:
    """Make sure that a bucket whose vectors are written anew has one index file, as its writers expect."""
    counts = Counter((entry.partition, entry.bucket) for entry in entries)
    for _, entry in dangling.rewritten:
        if (count := counts[entry.partition, entry.bucket]) > 1:
            raise _corrupt(
                table, f"expected one index file of deletion vectors for bucket {entry.bucket}, found {count}, among "
                f"them {dangling.paths.index_file(entry)}"
            )  # fmt: skip


def rewrite(table: Table, store: Store, dangling: Dangling, put: Put, former: Rewritten) -> Rewritten:
    """Copy the vectors of live files into new index files, several at a time.

    Args:
        table: For messages.
        store: The table's store.
        dangling: What stays, and what does not.
        put: Writes new index files. It may raise.
        former: What an earlier attempt has rewritten, and this one may use.

    Raises:
        RefusedError: An index file is missing or damaged (`corrupt_vectors`), lies outside the table, or would have to
            (`external_paths`).
        StorageError: A request failed. Some new files may exist; they are orphans.
    """
    due = [(key, entry) for key, entry in dangling.rewritten if key not in former]
    if due:
        refuse_external(store, dangling.schema)

    def one(key: Key, entry: IndexEntry) -> tuple[IndexEntry, ...]:
        return put(_read(table, store, dangling, entry, key[2]))

    if len(due) < 2 or not waits(store):
        return {**former, **{key: one(key, entry) for key, entry in due}}
    # No file depends on another one: until the snapshot exists, all of them are orphans.
    with ThreadPoolExecutor(min(_AT_ONCE, len(due)), thread_name_prefix="vectors") as pool:
        made = pool.map(one, *zip(*due, strict=True))
        return {**former, **dict(zip((key for key, _ in due), made, strict=True))}


def _read(table: Table, store: Store, dangling: Dangling, entry: IndexEntry, gone: frozenset[str]) -> Kept:
    path = path_within(entry, dangling.paths)
    try:
        return kept_of(dangling.index, entry, gone, store.read(path, MAX_METADATA_BYTES).data, path)
    except ObjectNotFoundError as error:
        raise _corrupt(table, f"{path} does not exist, and vectors of live files lie in it") from error
    except FormatError as error:
        raise _corrupt(table, str(error)) from error


def _corrupt(table: Table, problem: str) -> RefusedError:
    return RefusedError(
        f"table {table.ref}: {problem}; nothing is committed, since deleted rows could return. lakesweep check "
        "TABLE says more",
        code=CORRUPT_VECTORS,
    )
