"""Buckets that an overwrite has changed since a snapshot.

Appends and compactions keep the rows that they find. An overwrite may take some out, and a rollback by a commit, which
is one too, brings an older version back. After a fast-forward, the newest snapshot may not descend from an older one:
only snapshots from the first one of the branch on were replaced. All schemas were written anew then.

Source: Paimon `FileStoreCommitImpl#rollbackToAsLatest`, `FileSystemBranchManager#fastForward`.
"""

from collections.abc import Iterable, Set

from lakesweep.commit.base import Base
from lakesweep.control.area import ControlArea
from lakesweep.errors import ObjectNotFoundError
from lakesweep.format.manifest import IndexEntry, ManifestEntry
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.model.roots import branch_dir
from lakesweep.operations.compaction.buckets.bucket import Place
from lakesweep.runs.committing.noted import known_of
from lakesweep.runs.session import Table
from lakesweep.table.documents import MAX_DOCUMENT_BYTES
from lakesweep.table.metadata import MetadataReader, Unreadable

_KEEP_ROWS = ("APPEND", "COMPACT", "ANALYZE")
"""Commits of other kinds may take rows out."""


def overwritten(
    table: Table, area: ControlArea, former: Snapshot, base: Base, places: Iterable[Place]
) -> frozenset[Place]:
    """Return those of some buckets that an overwrite has changed since a snapshot; all of them if nobody knows.

    Args:
        table: The table.
        area: Its documents.
        former: The snapshot.
        base: The newest snapshot.
        places: The buckets. Without any, nothing is read.

    Raises:
        StorageError: A request failed.
    """
    left, found = frozenset(places), set[Place]()
    if left and former.time_ms < max(base.first_schema_ms, known_of(area, table.ref.branch).rewritten_ms):
        return left
    reader, before = MetadataReader(table.store), former
    for snapshot_id in range(former.id + 1, base.id + 1) if left else ():
        snapshot = base.root.snapshot if snapshot_id == base.id else snapshot_at(table, snapshot_id)
        changed = None if snapshot is None else _changed(reader, before, snapshot)
        if snapshot is None or changed is None:
            return left
        found |= changed
        before = snapshot
    return left & found


def _changed(reader: MetadataReader, before: Snapshot, snapshot: Snapshot) -> Set[Place] | None:
    """Return the buckets whose files or vectors an overwrite changed, none if it is another commit; `None`: unknown.

    A rollback by a commit may change vectors alone: a compaction of rows that only delete others has written no file.
    """
    if snapshot.commit_kind in _KEEP_ROWS:
        return frozenset()
    name = snapshot.delta_manifest_list
    metas = reader.manifest_lists({name: snapshot.delta_manifest_list_size})[name]
    if isinstance(metas, Unreadable):
        return None
    found = set[Place]()
    for _, places in reader.scan_manifests(metas, _places):
        if isinstance(places, Unreadable):
            return None
        found |= places
    indexes = []
    for each in (before.index_manifest, snapshot.index_manifest):
        entries = () if each is None else reader.index_manifests([each])[each]
        if isinstance(entries, Unreadable):
            return None
        indexes.append(frozenset(entries))
    return found | _places(indexes[0] ^ indexes[1])


def _places(entries: Iterable[ManifestEntry | IndexEntry]) -> set[Place]:
    return {(entry.partition, entry.bucket) for entry in entries}


def snapshot_at(table: Table, snapshot_id: int) -> Snapshot | None:
    """Return a snapshot, `None` if it expired, or the branch was rolled back."""
    path = f"{branch_dir(table.ref.branch)}snapshot/snapshot-{snapshot_id}"
    try:
        return parse_snapshot(table.store.read(path, MAX_DOCUMENT_BYTES).data, path)
    except ObjectNotFoundError:
        return None
