"""The files and the snapshot of one attempt to delete rows.

The new index manifest has the records of the former one but for index files that are left out, and the new ones. The
delta list is empty unless data files leave the table. Then it names manifests of DELETE entries: copies of the ADD
entries with one byte changed.

Source: Paimon `PaimonSparkWriter#persistDeletionVectors`, `FileStoreCommitImpl#tryOverwritePartition`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from lakesweep.commit.base import Base
from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.manifest_options import Manifests
from lakesweep.commit.next_snapshot import Change, next_snapshot
from lakesweep.format.index_manifest_schema import first_index
from lakesweep.format.index_manifest_writer import RawIndex, index_record, write_index_manifest
from lakesweep.format.manifest_list_writer import RawList, write_manifest_list
from lakesweep.format.manifest_writer import write_manifests
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.format.raw_entries import as_delete
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.rows.groups import Group
from lakesweep.operations.rows.writing import WrittenGroup
from lakesweep.runs.session import Table
from lakesweep.storage.clock import Stopwatch
from lakesweep.table.contents.content import TextEntry
from lakesweep.table.contents.contents import Contents
from lakesweep.table.contents.index import index_of
from lakesweep.table.contents.live import Live
from lakesweep.table.contents.strict import StrictMetadata


@dataclass(frozen=True, slots=True)
class NewIndex:
    """How the index of a snapshot changes."""

    index: RawIndex | None
    """The former index manifest; `None`: the snapshot has none."""
    groups: Sequence[Group] = ()
    written: Sequence[WrittenGroup] = ()
    """Of each group."""

    def manifest(self, manifests: Manifests) -> bytes | None:
        """Return the new index manifest; `None`: the former one stays."""
        if not self.groups:
            return None
        index = self.index or first_index()
        left_out = {entry for group in self.groups for entry in group.former}
        made = [index_record(index, entry) for each in self.written for entry in each.entries]
        kept = [record for record, entry in index.rows if entry not in left_out]
        return write_index_manifest(index, [*kept, *made], codec=manifests.codec, level=manifests.level, made=made)


@dataclass(frozen=True, slots=True)
class Leaving:
    """The data files that leave the table, and the lists of the snapshot."""

    lists: tuple[RawList, RawList]
    entries: tuple[TextEntry, ...] = ()
    next_row_id: int = 0
    row_count: int | None = None
    """The rows of all files of the snapshot; `None`: nobody counted."""

    @property
    def rows(self) -> int:
        """The rows of the files, with deleted ones."""
        return sum(raw.entry.row_count for _, raw in self.entries)


def index_at(table: Table, base: Base) -> RawIndex | None:
    """Return the index manifest of a snapshot, `None` if it names none.

    Raises:
        RefusedError: It is missing or damaged (`corrupt_manifests`).
        StorageError: The request failed.
    """
    return index_of(table.store, base.root.snapshot, StrictMetadata(table.store, str(table.ref)).corrupt)


def leaving_of(attempt: Attempt, table: Table, files: Iterable[ReadFile]) -> Leaving:
    """Look up the entries of data files that leave the table.

    Args:
        attempt: The snapshot to build on.
        table: The table, whose store may cache.
        files: Live data files of this snapshot.

    Raises:
        RefusedError: The metadata of the snapshot cannot be built upon (`corrupt_manifests`).
        StorageError: A request failed.
    """
    snapshot = attempt.base.root.snapshot
    names = {(file.partition, file.bucket, file.path.rpartition("/")[2]) for file in files}
    if not names:
        return Leaving(StrictMetadata(table.store, str(table.ref)).lists(snapshot))
    partitions = frozenset(partition for partition, _, _ in names)
    contents = Contents(table.store, str(table.ref), attempt.base.schema.partition_types)
    content = contents.read(snapshot, whole=True)

    def leaving() -> Iterator[TextEntry]:
        for text, raw in Live(content, partitions):
            if (raw.entry.partition, raw.entry.bucket, raw.entry.file_name) in names:
                yield text, raw

    entries = tuple(leaving())
    if len(entries) != len(names):
        raise content.source.corrupt(f"expected entries of {len(names)} data files, found {len(entries)}")
    return Leaving(content.lists, entries, content.next_row_id, content.row_count)


def prepared(
    attempt: Attempt,
    index: NewIndex,
    leaving: Leaving,
    manifests: Manifests,
    statistics: str | None,
    since: Stopwatch | None,
    *,
    kind: Literal["OVERWRITE", "COMPACT"] = "OVERWRITE",
    added: Sequence[TextEntry] = (),
) -> Prepared:
    """Return the files and the snapshot that delete rows, or compact data files.

    Args:
        attempt: The snapshot to build on, and the names to use.
        index: How the index changes.
        leaving: The data files that leave.
        manifests: How to write manifests.
        statistics: The statistics file that the new snapshot names.
        since: Counts from before the first new file was written.
        kind: A compaction changes no row.
        added: The entries of new data files.

    Raises:
        UnsupportedFormatError: The index manifest cannot have a new entry.
    """
    base, names = attempt.base.root.snapshot, MetadataNames(attempt.uuid)
    base_list, delta_list = names.manifest_list(), names.manifest_list()
    body = index.manifest(manifests)
    files = {base_list: write_manifest_list(leaving.lists, (), codec=manifests.codec, level=manifests.level)}
    deletes = ((text, raw._replace(record=as_delete(raw.record))) for text, raw in leaving.entries)
    found = write_manifests(
        chain(deletes, added),
        names,
        attempt.base.schema.partition_types,
        codec=manifests.codec,
        level=manifests.level,
        target_bytes=manifests.target_bytes,
    )
    written = list(attempt.written(found))
    change = sum(raw.entry.row_count for _, raw in added) - leaving.rows
    files[delta_list] = write_manifest_list((), written, codec=manifests.codec, level=manifests.level)
    index_manifest = base.index_manifest
    if body is not None:
        index_manifest = names.index_manifest()
        files[index_manifest] = body
    total = leaving.row_count if base.total_record_count is None else base.total_record_count
    return next_snapshot(
        attempt,
        Change(
            kind=kind,
            schema_id=attempt.base.schema.id,
            base_list=base_list,
            delta_list=delta_list,
            index_manifest=index_manifest,
            statistics=statistics,
            total_record_count=None if total is None else total + change,
            delta_record_count=change,
            next_row_id=max(base.next_row_id, leaving.next_row_id) if base.next_row_id is not None else None,
            files=files,
            keeps_properties=kind == "COMPACT",
            since=since,
        ),
    )
