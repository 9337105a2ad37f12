"""The buckets of one snapshot: their data files, and the index files with their deletion vectors."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lakesweep.commit.base import Base
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.manifest import IndexEntry
from lakesweep.model.keyed import KeyedFile
from lakesweep.operations.rows.groups import vector_files
from lakesweep.runs.session import Table
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.keyed_files import keyed_files
from lakesweep.table.vectors import locate

Place = tuple[bytes, int]
"""A partition, and the number of a bucket."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of a snapshot."""

    place: Place
    files: tuple[KeyedFile, ...]
    index: tuple[IndexEntry, ...] = ()
    """The index files with its deletion vectors: one, or none."""

    @property
    def lower(self) -> frozenset[KeyedFile]:
        """The files of the levels from 1 on, with the places of their vectors."""
        return frozenset(file for file in self.files if file.level)

    def has_still(self, former: "Bucket", inputs: Iterable[KeyedFile]) -> bool:
        """Tell whether what was merged of the bucket's former state still holds.

        Only files of level 0 may have come, or left. Anything else was another compaction: it may have marked the rows
        that ours marks, or has merged what ours merged.

        Args:
            former: The bucket when it was merged.
            inputs: The files that were merged.
        """
        return self.lower == former.lower and self.index == former.index and frozenset(inputs) <= frozenset(self.files)


def buckets_of(
    table: Table,
    base: Base,
    index: RawIndex | None,
    *,
    has_vectors: bool,
    is_wanted: Callable[[bytes], bool] | None = None,
) -> Mapping[Place, Bucket]:
    """Read the buckets of a snapshot.

    Args:
        table: The table, whose store may cache manifests.
        base: The snapshot, with the latest schema.
        index: Its index manifest; `None`: it names none.
        has_vectors: Readers apply deletion vectors.
        is_wanted: Tells whether the files of a partition are wanted; `None`: all.

    Raises:
        RefusedError: The metadata is damaged.
        StorageError: A request failed.
    """
    entries = vector_files(index)
    located = locate(table.store, entries, TablePaths(base.schema)) if has_vectors else {}
    files: defaultdict[Place, list[KeyedFile]] = defaultdict(list)
    for file in keyed_files(table.store, base.root, base.schema, located, chosen=is_wanted):
        files[file.file.partition, file.file.bucket].append(file)
    indexes: defaultdict[Place, list[IndexEntry]] = defaultdict(list)
    for entry in entries:
        indexes[entry.partition, entry.bucket].append(entry)
    return {place: Bucket(place, tuple(files[place]), tuple(indexes[place])) for place in sorted(files)}
