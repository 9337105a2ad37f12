"""The rows of a version that deletion vectors delete, for `show`. This changes nothing.

The index manifest alone tells the sum for the table. It may count vectors of files that are gone, and it does not know
how many rows a partition has. Manifests tell both.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.format.schema import TableSchema
from lakesweep.model.roots import Root
from lakesweep.model.vectors import LocatedVector
from lakesweep.storage.store import Store
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.live_files import files_and_entries
from lakesweep.table.vectors import check_rows, has_vectors, locate, vector_entries


@dataclass(frozen=True, slots=True)
class DeletedShare:
    """The deleted rows of a partition, or of a table."""

    deleted_rows: int | None
    """`None`: unknown, since the writer of a vector did not count them."""
    rows: int | None
    """With the deleted ones. `None`: the snapshot does not say."""

    @property
    def share(self) -> float | None:
        """The deleted rows as a part of all rows, from 0 to 1.

        `None`: unknown, there are no rows, or vectors of files that are gone delete more rows than there are.
        """
        if self.deleted_rows is None or not self.rows or self.deleted_rows > self.rows:
            return None
        return round(self.deleted_rows / self.rows, 4)

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {"deleted_rows": self.deleted_rows, "rows": self.rows, "share": self.share}


@dataclass(frozen=True, slots=True)
class PartitionShare:
    """A partition with deleted rows."""

    partition: Mapping[str, str | None]
    files: int
    """Data files with a vector."""
    deleted: DeletedShare


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """The deletion vectors of a version, counted."""

    index_files: int
    vectors: int
    dangling: int | None
    """Vectors of files that are gone, which delete no rows. `None`: not counted."""
    deleted: DeletedShare
    partitions: tuple[PartitionShare, ...] | None
    """Those with vectors, the largest share first. `None`: not asked for."""

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            "index_files": self.index_files,
            "vectors": self.vectors,
            "dangling": self.dangling,
            **self.deleted.to_json(),
            "partitions": None
            if self.partitions is None
            else [
                {"partition": dict(each.partition), "files": each.files, **each.deleted.to_json()}
                for each in self.partitions
            ],
        }


def deleted_rows(store: Store, schema: TableSchema, root: Root, *, by_partition: bool) -> DeletedRows | None:
    """Count the rows that deletion vectors delete, `None` if readers apply no vectors.

    Args:
        store: The table's store.
        schema: The latest schema of the root's branch.
        root: The version.
        by_partition: Also by partition, and without vectors of files that are gone. This reads the manifests.

    Raises:
        RefusedError: Metadata cannot be read, or contradict each other.
        StorageError: A read failed.
    """
    if not has_vectors(schema):
        return None
    entries = vector_entries(store, schema, root)
    located = locate(store, entries, TablePaths(schema))
    if not by_partition:
        deleted = DeletedShare(_sum(located.values()), root.snapshot.total_record_count)
        return DeletedRows(len(entries), len(located), None, deleted, None)
    found = files_and_entries(store, schema, root)
    partitions: defaultdict[bytes, _Partition] = defaultdict(_Partition)
    for file, entry in found:
        partition = partitions[entry.partition]
        partition.rows += file.rows
        partition.values = file.partition
        if (vector := located.get((entry.partition, entry.bucket, entry.file_name))) is not None:
            check_rows(store, vector, entry)
            partition.vectors.append(vector)
    shares = [
        PartitionShare(each.values, len(each.vectors), DeletedShare(_sum(each.vectors), each.rows))
        for each in partitions.values()
        if each.vectors
    ]
    live = [vector for each in partitions.values() for vector in each.vectors]
    rows = sum(each.rows for each in partitions.values())
    return DeletedRows(
        len(entries),
        len(located),
        len(located) - len(live),
        DeletedShare(_sum(live), rows),
        tuple(sorted(shares, key=lambda each: -(each.deleted.share or 0))),
    )


@dataclass(slots=True)
class _Partition:
    rows: int = 0
    values: Mapping[str, str | None] = field(default_factory=dict)
    vectors: list[LocatedVector] = field(default_factory=list)


def _sum(vectors: Iterable[LocatedVector]) -> int | None:
    counts: Sequence[int | None] = [vector.cardinality for vector in vectors]
    return None if None in counts else sum(count for count in counts if count is not None)
