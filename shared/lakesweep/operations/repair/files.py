"""Find the data files that the newest snapshot names, and that certainly do not exist."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakesweep.commit.base import Base
from lakesweep.errors import ObjectNotFoundError, RefusedError, some_of
from lakesweep.format.schema import TableSchema
from lakesweep.model.commits.repair import LostFile, RepairReport
from lakesweep.model.paths.allowed import is_external
from lakesweep.operations.repair.existence import Existence, Kept, Unlisted
from lakesweep.operations.repair.lists import index_manifest_of, lists_of
from lakesweep.operations.repair.live import Named, missing_of, statistics_of
from lakesweep.operations.repair.loss import MANY, Doubt, Loss, by_partition, counted, partition_in_words, paths_of
from lakesweep.operations.repair.vectors import warn_of_stuck, without_lost
from lakesweep.table.contents.content import Content
from lakesweep.table.contents.contents import Contents

_SHOWN = 5
"""Partitions that a doubt names."""
_LOOKS_SO = "a wrong path, a lost mount or a missing permission looks the same"


def look_for_files(base: Base, contents: Contents, existence: Existence) -> Loss:
    """Look for the files of a snapshot.

    Args:
        base: The snapshot.
        contents: Reads its manifests, without a cache.
        existence: Asks the stores.

    Raises:
        RefusedError: It is not certain what exists, or metadata is missing or damaged.
        StorageError: A request failed.
    """
    schema, snapshot = base.schema, base.root.snapshot
    content = _content(base, contents)
    index = index_manifest_of(snapshot, contents)
    paths = paths_of(schema, contents)
    missing, unlisted = missing_of(content, index, paths, existence, statistics_of(snapshot))
    lost = missing.files
    gone = {(named.raw.entry.partition, named.raw.entry.bucket, named.raw.entry.file_name) for named in lost}
    vectors = without_lost(index, gone.__contains__, schema, paths, existence.store)
    rows = sum(named.raw.entry.row_count for named in lost)
    total = content.row_count if snapshot.total_record_count is None else snapshot.total_record_count
    kept = existence.kept([named.path for named in lost])
    report = RepairReport(
        partitions=by_partition(schema, content, [named.raw.entry for named in lost]),
        files=_files(schema, content, lost, kept.hidden),
        statistics=next(iter(missing.others), None),
        live_files=content.file_count,
        rows_left=total - rows,
        dangling_vectors=vectors.count,
        extra_files=missing.extra_files,
        index_files=missing.index_files,
    )
    removed: dict[str, set[int]] = {}
    for named in lost:
        removed.setdefault(named.manifest, set()).add(named.place)
    return Loss(
        content=content,
        report=report,
        removed={name: frozenset(places) for name, places in removed.items()},
        absent=frozenset(),
        lost=(*missing.others, *(file.path for file in report.files)),
        total_record_count=total - rows,
        vectors=vectors,
        warnings=tuple(_warnings(schema, report, vectors.stuck)),
        doubts=tuple(_doubts(schema, content, lost, report, kept, _roots_without(existence, lost, unlisted))),
    )


def _content(base: Base, contents: Contents) -> Content:
    try:
        return contents.read(base.root.snapshot, whole=True)
    except RefusedError as error:
        if not isinstance(error.__cause__, ObjectNotFoundError):
            raise
        lists_of(base.root.snapshot, contents)  # a list that does not exist is another matter
        raise RefusedError(
            f"{error}; lakesweep remove-unexisting-manifests TABLE comes before missing files", code=error.code
        ) from error.__cause__


def _files(
    schema: TableSchema, content: Content, lost: Iterable[Named], restorable: frozenset[str]
) -> tuple[LostFile, ...]:
    found: Mapping[str, LostFile] = {
        named.path: LostFile(
            named.path,
            partition_in_words(schema, content.source.values(named.raw.entry.partition)),
            named.raw.entry.bucket,
            named.raw.entry.level,
            named.raw.entry.row_count,
            named.raw.entry.file_size,
            named.raw.creation_time_ms,
            named.path in restorable,
        )
        for named in lost
    }
    return tuple(file for _, file in sorted(found.items()))


def _warnings(schema: TableSchema, report: RepairReport, stuck: Iterable[str]) -> Iterator[str]:
    if report.files and schema.primary_keys:
        yield (
            "this table has a primary key: where an older version of a lost row lies in another file, that version "
            "shows again, also of rows that were deleted since"
        )
    yield from warnings_of_left(report)
    yield from map(warn_of_stuck, stuck)


def warnings_of_left(report: RepairReport) -> Iterator[str]:
    """Yield a warning for each kind of files that are missing and that the repair does not leave out."""
    if report.left_files:
        yield (
            f"{counted(len(report.left_files), 'data file')} cannot be found either; the first is "
            f"{report.left_files[0]}. Restore it, or lakesweep remove-unexisting-files TABLE leaves it out"
        )
    if report.extra_files:
        yield (
            f"{counted(len(report.extra_files), 'side file')} of data files that exist cannot be found; the first is "
            f"{report.extra_files[0]}. No repair leaves them out; an engine can write indexes anew (CALL "
            "sys.rewrite_file_index)"
        )
    if report.index_files:
        yield (
            f"{counted(len(report.index_files), 'index file')} cannot be found; the first is {report.index_files[0]}. "
            "Readers need it to leave out deleted rows, so no repair does without it; restore it, or roll back"
        )


def doubts_of_versions(kept: Kept) -> Iterator[Doubt]:
    """Yield the doubts about files that the bucket may still have."""
    if kept.hidden:
        yield Doubt(
            "restorable",
            f"the bucket's versions still have {len(kept.hidden)} of them, such as {min(kept.hidden)}; lakesweep "
            "explain TABLE FILE says how to restore it",
            is_of_versions=True,
        )
    if kept.doubtful:
        yield Doubt(
            "maybe_restorable",
            f"the bucket may still have {len(kept.doubtful)} of them in some version, such as {min(kept.doubtful)}; "
            "it does not say, or it has more than one deletion of that file",
            is_of_versions=True,
        )


def _doubts(
    schema: TableSchema,
    content: Content,
    lost: Sequence[Named],
    report: RepairReport,
    kept: Kept,
    roots: Sequence[str],
) -> Iterator[Doubt]:
    yield from doubts_of_versions(kept)
    if len(report.files) > MANY * report.live_files:
        yield Doubt("large_loss", f"{len(report.files)} of {report.live_files} files are lost, most of the table")
    partitions = _whole_partitions(schema, content, lost)
    if partitions:
        yield Doubt("whole_partition", f"all files of {some_of(partitions, _SHOWN)} are lost; {_LOOKS_SO}")
    if roots:
        yield Doubt("whole_root", f"no file below {some_of(roots, _SHOWN)} is there; {_LOOKS_SO}")


def _whole_partitions(schema: TableSchema, content: Content, lost: Iterable[Named]) -> tuple[str, ...]:
    """Return the partitions of which no live file is left."""
    if not schema.partition_keys:
        return ()
    gone: dict[bytes, int] = {}
    for named in lost:
        gone[named.raw.entry.partition] = gone.get(named.raw.entry.partition, 0) + 1
    there = dict.fromkeys(gone, 0)
    for part in content.parts:
        for row in there.keys() & part.tallies.keys():
            there[row] += part.tallies[row].files
    whole = (row for row, count in gone.items() if count >= there[row])
    return tuple(sorted(partition_in_words(schema, content.source.values(row)) for row in whole))


def _roots_without(existence: Existence, lost: Iterable[Named], unlisted: Unlisted) -> tuple[str, ...]:
    """Return the external roots of lost files below which nothing is there that a manifest names."""
    roots = {existence.stores().root_of(named.path) for named in lost if is_external(named.path)}
    return tuple(root for root in unlisted.empty_roots if root in roots)
