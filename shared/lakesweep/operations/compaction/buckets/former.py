"""Rows that Lakesweep has marked, and that are visible again.

A writer that compacts beside Lakesweep has its own view of a bucket's deletion vectors. Its next commit replaces the
bucket's index file without a word, and rows that Lakesweep has marked are visible again, beside the newer ones. Paimon
has no check for that. So a run looks at the last snapshot at which Lakesweep compared all vectors: what was marked
there has to be marked now, as long as the data file is there. What is not marked any more is marked again.

A mark may also go rightly: somebody has committed an older version on top, in which the newer row does not exist yet.
Only an overwrite does that. So rows stay visible in a bucket that an overwrite has changed since.

Source: Paimon `IndexManifestFileHandler` (`BucketedCombiner`), `BucketedDvMaintainer`,
`FileStoreCommitImpl#rollbackToAsLatest`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lakesweep.commit.base import Base
from lakesweep.control.area import ControlArea
from lakesweep.control.lease import read_lease
from lakesweep.control.state import read_states
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.snapshot import Snapshot
from lakesweep.format.vectors.combined import without
from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.model.vectors import LocatedVector
from lakesweep.operations.compaction.buckets.bucket import Bucket, Place
from lakesweep.operations.compaction.buckets.overwritten import overwritten, snapshot_at
from lakesweep.operations.compaction.buckets.task import Task
from lakesweep.operations.rows.groups import vector_files
from lakesweep.runs.session import Table
from lakesweep.table.contents.index import index_of
from lakesweep.table.contents.strict import StrictMetadata
from lakesweep.table.fence import FenceRules
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores
from lakesweep.table.vectors import locate, read_vectors


@dataclass(frozen=True, slots=True)
class Lost:
    """Rows of one bucket that are visible again."""

    bucket: Bucket
    """As it is now."""
    snapshot_id: int
    """The snapshot of Lakesweep that had them marked."""
    positions: Mapping[str, bytes]
    """Name of a data file -> the rows, as the bytes of a vector."""
    rows: int
    is_doubtful: bool = False
    """An overwrite may have changed the bucket since, so the rows may be visible rightly."""


def doubtful(found: Mapping[Place, Lost]) -> str:
    """Return a warning of rows that may be visible rightly, empty if there are none."""
    doubted = [lost for lost in found.values() if lost.is_doubtful]
    if not doubted:
        return ""
    return (
        f"{sum(lost.rows for lost in doubted)} rows in {len(doubted)} buckets are visible that snapshot "
        f"{doubted[0].snapshot_id} of Lakesweep had hidden, and stay visible: an overwrite has changed the buckets "
        "since, or the branch was fast-forwarded or lacks snapshots since, so an older version may have come back"
    )


def lost_marks(
    task: Task, area: ControlArea, base: Base, index: RawIndex | None, buckets: Mapping[Place, Bucket]
) -> Mapping[Place, Lost]:
    """Return the buckets in which rows are visible again that Lakesweep has marked, in all partitions.

    Args:
        task: What the call merges.
        area: The table's documents.
        base: The newest snapshot.
        index: Its index manifest.
        buckets: Its buckets that are wanted.

    Raises:
        RefusedError: Metadata is damaged, or an index file of the newest snapshot.
        StorageError: A request failed.
    """
    table = task.table
    former = _reference(table, area, base) if task.rules.has_vectors else None
    if former is None or former.index_manifest in (None, base.root.snapshot.index_manifest):
        return {}
    try:
        before = vector_files(index_of(table.store, former, StrictMetadata(table.store, str(table.ref)).corrupt))
    except RefusedError as error:
        if isinstance(error.__cause__, ObjectNotFoundError):
            return {}  # the snapshot expires just now
        raise
    changed = set(before).difference(vector_files(index))
    every = {**buckets, **task.others(base, index, {entry.partition for entry in changed})}
    entries = [entry for entry in before if entry in changed and (entry.partition, entry.bucket) in every]
    lower = {(*place, file.name): file.file for place, bucket in every.items() for file in bucket.lower}
    stores = TableStores(table.store, FenceRules(()), table.open_store)
    found: dict[Place, Lost] = {}
    for (partition, number, name), vector in locate(table.store, entries, TablePaths(base.schema)).items():
        file, place = lower.get((partition, number, name)), (partition, number)
        if file is None:
            continue
        try:
            marked = _read(stores, vector)
        except ObjectNotFoundError:
            return {}  # the snapshot expires just now
        lost = _lost(stores, marked, file.vector)
        if lost is not None:
            known = found.get(place, Lost(every[place], former.id, {}, 0))
            positions = {**known.positions, name: bytes(lost.blob)}
            found[place] = replace(known, positions=positions, rows=known.rows + lost.cardinality)
    doubted = overwritten(table, area, former, base, found)
    return {place: replace(lost, is_doubtful=place in doubted) for place, lost in found.items()}


def _read(stores: TableStores, vector: LocatedVector) -> DeletionVector:
    (found,) = read_vectors(stores, [vector])
    return found


def _lost(stores: TableStores, before: DeletionVector, now: LocatedVector | None) -> DeletionVector | None:
    """Return the rows that a vector marks and the present one does not; `None`: there are none."""
    if now is None:
        return before if before.cardinality else None
    return without(before, _read(stores, now))


def _reference(table: Table, area: ControlArea, base: Base) -> Snapshot | None:
    """Return the last snapshot to compare with that still exists as it was committed; `None`: none is known."""
    for snapshot_id, uuid in dict.fromkeys(_committed(area, table.ref.branch)):
        if snapshot_id <= base.id:
            found = base.root.snapshot if snapshot_id == base.id else snapshot_at(table, snapshot_id)
            if found is not None and found.uuid == uuid:
                return found
    return None


def _committed(area: ControlArea, branch: str) -> Iterator[tuple[int, str]]:
    """Yield id and uuid of snapshots that Lakesweep committed to a branch: those at which it compared all first."""
    record = read_lease(area).commits.get(branch)
    if record is not None:
        yield from record.marks
        yield record.id, record.uuid
    try:
        state = read_states(area).get(branch)
    except FormatError:
        return
    if state is not None:
        yield from ((each.id, each.uuid) for each in reversed(state.newest) if each.is_ours and each.uuid)
