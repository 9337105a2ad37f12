"""Find the manifests that the newest snapshot names, and that certainly do not exist.

Nothing tells which files such a manifest named. So what its list says of it is all that a report can say, and three
things follow:

- The files that it added, and that no other manifest adds, belong to no snapshot any more: they become orphans.
- The files that it deleted, and that another manifest adds, are live again, with rows that were replaced or deleted.
- An entry that deletes a file which only the lost manifest added would fail every later commit of Paimon in that
  partition. So it is left out as well.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from lakesweep.commit.base import Base
from lakesweep.errors import FormatError
from lakesweep.format.manifest import DELETION_VECTORS, Identity, ManifestMeta
from lakesweep.format.schema import TableSchema
from lakesweep.model.commits.repair import LostManifest, RepairReport
from lakesweep.operations.repair.existence import Existence, Kept
from lakesweep.operations.repair.files import doubts_of_versions, warnings_of_left
from lakesweep.operations.repair.lists import index_manifest_of, lists_of
from lakesweep.operations.repair.live import missing_of, statistics_of
from lakesweep.operations.repair.loss import MANY, Doubt, Loss, entries_of, paths_of, values_in_words
from lakesweep.operations.repair.vectors import VectorOf, Vectors, warn_of_stuck, without_lost
from lakesweep.table.contents.content import Content
from lakesweep.table.contents.contents import Contents


def look_for_manifests(base: Base, contents: Contents, existence: Existence) -> Loss:
    """Look for the manifests of a snapshot.

    Args:
        base: The snapshot.
        contents: Reads the manifests that exist, without a cache.
        existence: Asks the store.

    Raises:
        RefusedError: It is not certain what exists, a list does not exist, or other metadata is damaged.
        StorageError: A request failed.
    """
    schema, snapshot = base.schema, base.root.snapshot
    metas = {meta.file_name: meta for each in lists_of(snapshot, contents) for meta in each.metas}
    listed = {each.key for each in existence.store.list("manifest/")}
    absent = existence.absent(f"manifest/{name}" for name in metas if f"manifest/{name}" not in listed)
    names = frozenset(path.removeprefix("manifest/") for path in absent)
    contents = replace(contents, passes_over=lambda meta: meta.file_name in names)
    content = contents.read(snapshot)
    index = index_manifest_of(snapshot, contents)
    wanted = {
        (entry.partition, entry.bucket, vector[0])
        for _, entry in (() if index is None else index.rows)
        if entry.index_type == DELETION_VECTORS
        for vector in entry.vectors
    }
    left = _left(content, wanted)
    paths = paths_of(schema, contents)
    vectors = Vectors()
    if names:
        vectors = without_lost(index, lambda vector: vector not in left.with_vectors, schema, paths, existence.store)
    statistics = statistics_of(snapshot)
    missing, _ = missing_of(content, index, paths, existence, (*statistics, *sorted(absent)))
    kept = existence.kept(absent)
    lost = tuple(_manifest(schema, metas[name], f"manifest/{name}" in kept.hidden, contents) for name in sorted(names))
    report = RepairReport(
        manifests=lost,
        statistics=next((path for path in statistics if path in missing.others), None),
        live_files=left.live_files,
        rows_left=left.rows,
        dangling_vectors=vectors.count,
        left_files=tuple(sorted({named.path for named in missing.files})),
        extra_files=missing.extra_files,
        index_files=missing.index_files,
    )
    return Loss(
        content=content,
        report=report,
        removed=left.unmatched if lost else {},
        absent=names,
        lost=tuple(sorted(absent | missing.others)),
        total_record_count=left.rows,
        vectors=vectors,
        warnings=(*_warnings(report), *warnings_of_left(report), *map(warn_of_stuck, vectors.stuck)),
        doubts=tuple(_doubts(report, kept)),
    )


@dataclass(frozen=True, slots=True)
class _Left:
    """What the remaining manifests say."""

    rows: int
    live_files: int
    unmatched: Mapping[str, frozenset[int]]
    """Manifest -> the places of entries that delete what no manifest adds."""
    with_vectors: frozenset[VectorOf]
    """Live files among those with a vector."""


def _left(content: Content, wanted: Collection[VectorOf]) -> _Left:
    deleted: set[Identity] = set()
    deleting = [part for part in content.parts if part.meta.deleted_count]
    for part in deleting:
        deleted.update(raw.entry.identity for _, (_, raw) in entries_of(content, part) if not raw.is_add)
    rows = live_files = 0
    unmatched, with_vectors = set(deleted), set[VectorOf]()
    for part in content.parts:
        for _, (_, raw) in entries_of(content, part):
            entry = raw.entry
            if not raw.is_add:
                continue
            if entry.identity in deleted:
                unmatched.discard(entry.identity)
                continue
            rows += entry.row_count
            live_files += 1
            key = (entry.partition, entry.bucket, entry.file_name)
            if key in wanted:
                with_vectors.add(key)
    places = {
        part.meta.file_name: frozenset(
            place for place, (_, raw) in entries_of(content, part) if not raw.is_add and raw.entry.identity in unmatched
        )
        for part in (deleting if unmatched else ())
    }
    found = {name: each for name, each in places.items() if each}
    return _Left(rows, live_files, found, frozenset(with_vectors))


def _manifest(schema: TableSchema, meta: ManifestMeta, is_restorable: bool, contents: Contents) -> LostManifest:
    def values(row: bytes | None) -> Mapping[str, str | None] | None:
        return None if row is None else values_in_words(schema, contents.values(row))

    try:
        smallest, largest = values(meta.partition_min), values(meta.partition_max)
    except FormatError:
        smallest = largest = None
    return LostManifest(
        f"manifest/{meta.file_name}",
        meta.file_size,
        meta.added_count,
        meta.deleted_count,
        smallest,
        largest,
        is_restorable,
    )


def _warnings(report: RepairReport) -> Iterator[str]:
    if not report.manifests:
        return
    yield (
        "restore a missing manifest if you can: afterwards, files that only it named belong to no snapshot, and "
        "remove-orphan-files deletes them once they are old enough. Without --execute it lists them"
    )
    if any(manifest.deleted for manifest in report.manifests):
        yield (
            "files that it deleted, and that other manifests add, are live again: rows that were replaced or deleted "
            "return, and such a file may be gone (lakesweep remove-unexisting-files TABLE comes next)"
        )


def _doubts(report: RepairReport, kept: Kept) -> Iterator[Doubt]:
    yield from doubts_of_versions(kept)
    added = sum(manifest.added for manifest in report.manifests)
    if added > MANY * (added + report.live_files):
        yield Doubt(
            "large_loss",
            f"{len(report.manifests)} missing manifests added {added} files, and {report.live_files} are left, so most "
            "of the table is lost",
        )
    deleting = [manifest for manifest in report.manifests if manifest.deleted]
    if deleting:
        yield Doubt(
            "rows_return",
            f"{deleting[0].path} deleted {deleting[0].deleted} files, some of which may be live again without it, with "
            "rows that were replaced or deleted",
        )
