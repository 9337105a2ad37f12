"""What a run of `delete-rows` deleted: the positions that its snapshot deletes and the one before does not.

Both versions must still exist, as snapshots or by a tag. The run's report has the uuid of both: after a rollback,
another snapshot may have such an id, and a tag of a version that was rolled back may be left.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakesweep.commit.base import list_branch
from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.combined import without
from lakesweep.format.vectors.vector import DeletionVector
from lakesweep.model.roots import BranchListing, Root, RootRef
from lakesweep.model.vectors import LocatedVector
from lakesweep.operations.undo.committed import DeletedRows
from lakesweep.runs.session import Table
from lakesweep.storage.together import waits
from lakesweep.table.contents.strict import StrictMetadata
from lakesweep.table.documents import TagDocument, read_roots, read_tags
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores
from lakesweep.table.vectors import CORRUPT_VECTORS, VectorKey, locate, read_vectors, vector_entries

_AT_ONCE = 8
VERSION_GONE = "version_gone"
"""Code of a run whose snapshot, or the one before it, exists no more."""


@dataclass(frozen=True, slots=True)
class DeletedPositions:
    """What a run deleted."""

    positions: Mapping[VectorKey, DeletionVector]
    """Data file -> the positions that the run deleted."""
    places: Mapping[VectorKey, LocatedVector]
    """Data file -> where its vector lies in the run's snapshot."""
    whole: Mapping[VectorKey, int]
    """Data files that the run took out of the table, with the rows that readers saw in them."""
    before: RootRef
    """The version before: a snapshot or a tag."""


def snapshot_of(table: Table, run: DeletedRows) -> tuple[BranchListing, Root]:
    """Return the snapshots and tags of the run's branch, and the snapshot that the run committed, or its tag.

    Raises:
        RefusedError: It was rolled back (`rolled_back`), another snapshot has its id (`id_reused`), or it exists no
            more (`version_gone`).
        StorageError: A request failed.
    """
    listing = list_branch(table.store, run.branch, ("snapshot", "tag"))
    ids = [ref.id for ref in listing.snapshots]
    if run.snapshot_id not in ids and (not ids or ids[0] < run.snapshot_id):
        raise run.refusal(
            "rolled_back", f"snapshot {run.snapshot_id}, which it committed, was rolled back, so nothing is left of it"
        )
    for root in _versions(table, listing, run.snapshot_id):
        if root.snapshot.uuid == run.uuid:
            return listing, root
        if root.ref.kind == "snapshot":
            raise run.refusal(
                "id_reused",
                f"{root.ref.path} is not the snapshot {run.uuid} that it committed; somebody rolled the branch back, "
                "or replaced that snapshot",
            )
    raise _gone(run, run.snapshot_id)


def _before(table: Table, run: DeletedRows, listing: BranchListing) -> Root:
    """Return the version on which the run's snapshot was built, or a tag of it."""
    for root in _versions(table, listing, run.snapshot_id - 1):
        # Writers before Paimon 1.3 give no uuid. Then a tag may be of another version.
        if root.snapshot.uuid == run.base_uuid and (run.base_uuid is not None or root.ref.kind == "snapshot"):
            return root
    raise _gone(run, run.snapshot_id - 1)


def _gone(run: DeletedRows, snapshot_id: int) -> RefusedError:
    return run.refusal(
        VERSION_GONE,
        f"snapshot {snapshot_id} has expired, and no tag holds it, so nobody knows any more which rows were deleted; "
        "if an older snapshot or tag shows the rows, write them into the table from there (VERSION AS OF)",
    )


def _versions(table: Table, listing: BranchListing, snapshot_id: int) -> Iterator[Root]:
    """Yield the snapshot of an id, and the tags that hold one of this id."""
    yield from read_roots(table.store, [ref for ref in listing.snapshots if ref.id == snapshot_id]).roots
    for _, tag in read_tags(table.store, listing.tags):
        if isinstance(tag, TagDocument) and tag.tag.snapshot.id == snapshot_id:
            yield tag.root


def deleted_positions(table: Table, schema: TableSchema, run: DeletedRows) -> DeletedPositions:
    """Return what a run deleted.

    Args:
        table: The branch of the run.
        schema: The latest schema of the branch.
        run: The run.

    Raises:
        RefusedError: As `snapshot_of`, also for the version before. Metadata are missing or damaged, or vectors
            contradict them (`corrupt_vectors`).
        StorageError: A request failed.
    """
    listing, own = snapshot_of(table, run)
    former = _before(table, run, listing)
    paths = TablePaths(schema)
    before, after = (locate(table.store, vector_entries(table.store, schema, root), paths) for root in (former, own))
    changed = {key: place for key, place in after.items() if before.get(key) != place}
    read = read_all(table, [*changed.values(), *(before[key] for key in changed if key in before)])
    positions = {
        key: without(read[place], read[before[key]]) if key in before else read[place] for key, place in changed.items()
    }
    whole = {}
    for entry in _left(table, own):
        key = (entry.partition, entry.bucket, entry.file_name)
        whole[key] = entry.row_count - ((before[key].cardinality or 0) if key in before else 0)
    return DeletedPositions(
        {key: rows for key, rows in positions.items() if rows is not None}, after, whole, former.ref
    )


def _left(table: Table, own: Root) -> Iterator[ManifestEntry]:
    """Yield the data files that the run took out of the table."""
    metadata = StrictMetadata(table.store, str(table.ref))
    _, delta = metadata.lists(own.snapshot)
    for name, found in MetadataReader(table.store).scan_manifests(delta.metas, tuple):
        if isinstance(found, Unreadable):
            raise metadata.corrupt(f"manifest/{name}: {found.problem}")
        yield from (entry for entry in found if not entry.is_add)


def read_all(table: Table, places: Iterable[LocatedVector]) -> dict[LocatedVector, DeletionVector]:
    """Read vectors, with one request for each index file.

    Raises:
        RefusedError: An index file is missing or damaged (`corrupt_vectors`).
        StorageError: A request failed.
    """
    by_file: defaultdict[str, list[LocatedVector]] = defaultdict(list)
    for place in places:
        by_file[place.index_file].append(place)
    stores = TableStores(table.store)

    def read(located: Sequence[LocatedVector]) -> Sequence[DeletionVector]:
        table.check_time(f"the undo of a deletion, {located[0].index_file}")
        return _read(table, stores, located)

    groups = list(by_file.values())
    if len(groups) < 2 or not waits(table.store):
        vectors = list(map(read, groups))
    else:
        with ThreadPoolExecutor(min(_AT_ONCE, len(groups)), thread_name_prefix="vectors") as pool:
            vectors = list(pool.map(read, groups))
    return {place: vector for pair in zip(groups, vectors, strict=True) for place, vector in zip(*pair, strict=True)}


def _read(table: Table, stores: TableStores, located: Sequence[LocatedVector]) -> Sequence[DeletionVector]:
    try:
        return list(read_vectors(stores, located))
    except (FormatError, ObjectNotFoundError) as error:
        raise RefusedError(f"table {table.ref}: {error}", code=CORRUPT_VECTORS) from error
