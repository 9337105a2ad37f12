"""Rows that Lakesweep has marked, and that are visible again.

A writer that compacts beside Lakesweep has its own view of a bucket's deletion vectors. Its next commit replaces the
bucket's index file without a word, and rows that Lakesweep has marked are visible again, beside the newer ones. Paimon
has no check for that. So a run looks at the last snapshot that Lakesweep committed: what was marked there has to be
marked now, as long as the data file is there. What is not marked any more is marked again, unless somebody went back to
an older version since then, of which these rows are.

Source: Paimon `IndexManifestFileHandler` (`BucketedCombiner`), `BucketedDvMaintainer`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakesweep.commit.base import Base
from lakesweep.control.area import ControlArea
from lakesweep.control.lease import read_lease
from lakesweep.control.state import read_states
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.snapshot import Snapshot, parse_snapshot
from lakesweep.format.vectors.combined import without
from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.model.roots import branch_dir
from lakesweep.model.vectors import LocatedVector
from lakesweep.operations.compaction.buckets.bucket import Bucket, Place
from lakesweep.operations.rows.groups import vector_files
from lakesweep.runs.session import Table
from lakesweep.table.contents.index import index_of
from lakesweep.table.contents.strict import StrictMetadata
from lakesweep.table.documents import MAX_DOCUMENT_BYTES
from lakesweep.table.fence import FenceRules
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores
from lakesweep.table.vectors import locate, read_vectors

_WRITES = ("APPEND", "COMPACT", "ANALYZE")


@dataclass(frozen=True, slots=True)
class Lost:
    """Rows of one bucket that are visible again."""

    snapshot_id: int
    """The snapshot of Lakesweep that had them marked."""
    positions: Mapping[str, bytes]
    """Name of a data file -> the rows, as the bytes of a vector."""
    rows: int


def lost_marks(table: Table, area: ControlArea, base: Base, buckets: Mapping[Place, Bucket]) -> Mapping[Place, Lost]:
    """Return the buckets in which rows are visible again that Lakesweep has marked.

    Args:
        table: The table.
        area: Its documents.
        base: The newest snapshot.
        buckets: Its buckets.

    Raises:
        RefusedError: An index file is missing or damaged.
        StorageError: A request failed.
    """
    former = _last_of_ours(table, area, base)
    if former is None or former.index_manifest in (None, base.root.snapshot.index_manifest):
        return {}
    index = index_of(table.store, former, StrictMetadata(table.store, str(table.ref)).corrupt)
    entries = [
        entry
        for entry in vector_files(index)
        if (bucket := buckets.get((entry.partition, entry.bucket))) is not None and entry not in bucket.index
    ]
    lower = {(*place, file.name): file.file for place, bucket in buckets.items() for file in bucket.lower}
    stores = TableStores(table.store, FenceRules(()), table.open_store)
    found: dict[Place, Lost] = {}
    for (partition, number, name), vector in locate(table.store, entries, TablePaths(base.schema)).items():
        file = lower.get((partition, number, name))
        lost = None if file is None else _lost(stores, vector, file.vector)
        if lost is not None:
            before = found.get((partition, number), Lost(former.id, {}, 0))
            positions = {**before.positions, name: bytes(lost.blob)}
            found[partition, number] = Lost(former.id, positions, before.rows + lost.cardinality)
    return found if found and _only_written_since(table, former, base) else {}


def _only_written_since(table: Table, former: Snapshot, base: Base) -> bool:
    """Tell whether all commits since a snapshot wrote or compacted.

    An OVERWRITE may be a rollback that is committed as the newest version. Its rows are right as they are.
    """
    if base.root.snapshot.commit_kind not in _WRITES:
        return False
    for snapshot_id in range(former.id + 1, base.id):
        found = _snapshot(table, snapshot_id)
        if found is None or found.commit_kind not in _WRITES:
            return False
    return True


def _lost(stores: TableStores, former: LocatedVector, now: LocatedVector | None) -> DeletionVector | None:
    """Return the rows that a vector marks and the present one does not; `None`: there are none."""
    (before,) = read_vectors(stores, [former])
    if now is None:
        return before if before.cardinality else None
    (after,) = read_vectors(stores, [now])
    return without(before, after)


def _last_of_ours(table: Table, area: ControlArea, base: Base) -> Snapshot | None:
    """Return the newest snapshot of Lakesweep that still exists as it was committed; `None`: none is known."""
    for snapshot_id, uuid in sorted(set(_committed(area, table.ref.branch)), reverse=True):
        if snapshot_id == base.id:
            return base.root.snapshot if base.root.snapshot.uuid == uuid else None
        found = _snapshot(table, snapshot_id)  # none: it expired, or the branch was rolled back
        if found is not None and found.uuid == uuid:
            return found
    return None


def _snapshot(table: Table, snapshot_id: int) -> Snapshot | None:
    path = f"{branch_dir(table.ref.branch)}snapshot/snapshot-{snapshot_id}"
    try:
        return parse_snapshot(table.store.read(path, MAX_DOCUMENT_BYTES).data, path)
    except ObjectNotFoundError:
        return None


def _committed(area: ControlArea, branch: str) -> Iterator[tuple[int, str]]:
    """Yield id and uuid of the last snapshots that Lakesweep committed to a branch."""
    record = read_lease(area).commits.get(branch)
    if record is not None:
        yield record.id, record.uuid
    try:
        state = read_states(area).get(branch)
    except FormatError:
        return
    if state is not None:
        yield from ((each.id, each.uuid) for each in state.newest if each.is_ours and each.uuid)
