"""The files and the snapshot of one attempt to take partitions out of a table.

The new base list is the base list of the former snapshot and then its delta list, record by record. The new delta list
names manifests of DELETE entries. Each is a copy of the ADD entry with one byte changed, since an entry that differs in
any byte of its identity deletes nothing.

Source: Paimon `FileStoreCommitImpl#dropPartitions`, `CommitScanner#readOverwriteChanges`,
`IndexManifestFileHandler`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.manifest_options import Manifests
from lakesweep.commit.next_snapshot import Change, next_snapshot
from lakesweep.format.index_manifest_writer import RawIndex, write_index_manifest
from lakesweep.format.manifest import DELETION_VECTORS, POSTPONE_BUCKET, ManifestEntry
from lakesweep.format.manifest_list_writer import write_manifest_list
from lakesweep.format.manifest_writer import write_manifests
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.format.raw_entries import as_delete
from lakesweep.format.schema import TableSchema
from lakesweep.model.partitions.cast import comparable
from lakesweep.table.contents.content import Content
from lakesweep.table.contents.live import Live


@dataclass(slots=True)
class Gone:
    """What one partition loses."""

    files: int = 0
    rows: int = 0
    size_bytes: int = 0

    def add(self, entry: ManifestEntry) -> None:
        """Count a file."""
        self.files += 1
        self.rows += entry.row_count
        self.size_bytes += entry.file_size


@dataclass(frozen=True, slots=True)
class Removed:
    """What one attempt takes out of the table."""

    files: Live
    gone: Mapping[bytes, Gone]
    """Partition -> the files that it loses."""
    index_records: tuple[bytes, ...] | None
    """The records that the new index manifest has; `None`: the index manifest stays."""
    index: RawIndex | None
    dangling_vectors: int
    rows: frozenset[bytes]
    """The partitions that lose files or records. Files that wait for their bucket may stay."""

    @property
    def is_empty(self) -> bool:
        """Nothing is left to take out."""
        return not self.gone and self.index_records is None

    @property
    def file_count(self) -> int:
        """The number of files."""
        return sum(gone.files for gone in self.gone.values())

    @property
    def row_count(self) -> int:
        """The rows of the files."""
        return sum(gone.rows for gone in self.gone.values())

    @property
    def size_bytes(self) -> int:
        """The bytes of the files."""
        return sum(gone.size_bytes for gone in self.gone.values())


def removed_of(
    schema: TableSchema,
    content: Content,
    index: RawIndex | None,
    rows: Collection[bytes],
    note: Callable[[ManifestEntry], None] = lambda entry: None,
) -> Removed:
    """Return what a commit on a snapshot takes out of it.

    Args:
        schema: The newest schema.
        content: Of the snapshot.
        index: Its index manifest.
        rows: The partitions.
        note: Called with each file.

    Raises:
        RefusedError: The metadata of the snapshot cannot be built upon.
    """
    rows = frozenset(rows)
    if index is not None:
        rows |= _in_other_bytes(content, index, rows)
    is_postponed = schema.options.get("bucket", "").strip() == str(POSTPONE_BUCKET)
    files = Live(content, rows, POSTPONE_BUCKET if is_postponed else 0)
    indexed = [] if index is None else [entry for _, entry in index.rows if entry.partition in rows]
    dangling = Counter(
        (entry.partition, entry.bucket, vector[0])
        for entry in indexed
        if entry.index_type == DELETION_VECTORS
        for vector in entry.vectors
    )
    gone: dict[bytes, Gone] = {}
    for _, raw in files:
        entry = raw.entry
        gone.setdefault(entry.partition, Gone()).add(entry)
        dangling.pop((entry.partition, entry.bucket, entry.file_name), None)
        note(entry)
    losing = frozenset((*gone, *(entry.partition for entry in indexed)))
    kept = (
        tuple(record for record, entry in index.rows if entry.partition not in rows)
        if index is not None and indexed
        else None
    )
    return Removed(files, gone, kept, index, dangling.total(), losing)


def _in_other_bytes(content: Content, index: RawIndex, rows: frozenset[bytes]) -> frozenset[bytes]:
    """Return the rows of an index that have the values of some partitions, in other bytes, and no files.

    Writers encode a value in several ways. If such a record stayed, it would name files that are gone, and Paimon
    fails where it meets a deletion vector of such a file.
    """
    others = {entry.partition for _, entry in index.rows} - rows
    if not others:
        return frozenset()
    values = {_comparable(content, row) for row in rows}
    alike = {row for row in others if _comparable(content, row) in values}
    return frozenset(row for row in alike if not content.has(row))


def _comparable(content: Content, row: bytes) -> tuple[object, ...]:
    return tuple(map(comparable, content.source.values(row)))


def prepared(
    attempt: Attempt, content: Content, removed: Removed, manifests: Manifests, statistics: str | None
) -> Prepared:
    """Return the files and the snapshot that take files out of a table.

    Args:
        attempt: The snapshot to build on, and the names to use.
        content: Of this snapshot.
        removed: What to take out.
        manifests: How to write manifests.
        statistics: The statistics file that the new snapshot names.
    """
    base = attempt.base.root.snapshot
    names = MetadataNames(attempt.uuid)
    entries = ((text, raw._replace(record=as_delete(raw.record))) for text, raw in removed.files)
    base_name, delta_name = names.manifest_list(), names.manifest_list()
    # First, since it may fail.
    files = {base_name: write_manifest_list(content.lists, (), codec=manifests.codec, level=manifests.level)}
    found = write_manifests(
        entries,
        names,
        attempt.base.schema.partition_types,
        codec=manifests.codec,
        level=manifests.level,
        target_bytes=manifests.target_bytes,
    )
    written = list(attempt.written(found))
    if sum(each.meta.deleted_count for each in written) != removed.file_count:
        raise content.source.corrupt("a manifest has changed since it was first read")
    files[delta_name] = write_manifest_list((), written, codec=manifests.codec, level=manifests.level)
    index_name = base.index_manifest
    if removed.index is not None and removed.index_records is not None:
        index_name = names.index_manifest()
        files[index_name] = write_index_manifest(
            removed.index, removed.index_records, codec=manifests.codec, level=manifests.level
        )
    total = content.row_count if base.total_record_count is None else base.total_record_count
    return next_snapshot(
        attempt,
        Change(
            kind="OVERWRITE",
            schema_id=attempt.base.schema.id,
            base_list=base_name,
            delta_list=delta_name,
            index_manifest=index_name,
            statistics=statistics,
            total_record_count=total - removed.row_count,
            delta_record_count=-removed.row_count,
            next_row_id=max(base.next_row_id or 0, content.next_row_id),
            files=files,
        ),
    )
