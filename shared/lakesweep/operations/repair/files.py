"""Find the data files that the newest snapshot names, and that certainly do not exist."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from lakesweep.commit.base import Base
from lakesweep.errors import ObjectNotFoundError, RefusedError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.manifest import Identity
from lakesweep.format.raw_entries import RawEntry
from lakesweep.format.schema import TableSchema
from lakesweep.model.commits.repair import LostFile, RepairReport
from lakesweep.model.roots import base_name
from lakesweep.operations.repair.existence import Existence, Unlisted
from lakesweep.operations.repair.lists import index_manifest_of, lists_of
from lakesweep.operations.repair.loss import MANY, Loss, by_partition, entries_of, partition_in_words, paths_of
from lakesweep.operations.repair.vectors import warn_of_stuck, without_lost
from lakesweep.table.contents.content import Content
from lakesweep.table.contents.contents import Contents
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.live_set import name_hash


@dataclass(frozen=True, slots=True)
class _Named:
    """An entry that adds a file. A listing did not show the file, or a file beside it."""

    manifest: str
    place: int
    raw: RawEntry
    path: str
    extras: tuple[str, ...]


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
    statistics = () if snapshot.statistics is None else (f"statistics/{snapshot.statistics}",)
    unlisted = existence.unlisted(chain(statistics, _paths(content, index, paths)))
    live = list(_live(content, paths, unlisted))
    indexes = () if index is None else tuple(paths.index_file(entry) for _, entry in index.rows)
    asked = (path for named in live for path in (named.path, *named.extras))
    absent = existence.absent(path for path in chain(statistics, indexes, asked) if unlisted.has(path))
    lost = [named for named in live if named.path in absent]
    _refuse_misplaced(lost, unlisted, contents)
    gone = {(named.raw.entry.partition, named.raw.entry.bucket, named.raw.entry.file_name) for named in lost}
    vectors = without_lost(index, gone.__contains__, schema, paths, existence.store)
    rows = sum(named.raw.entry.row_count for named in lost)
    total = content.row_count if snapshot.total_record_count is None else snapshot.total_record_count
    report = RepairReport(
        partitions=by_partition(schema, content, [named.raw.entry for named in lost]),
        files=_files(schema, content, lost, existence.restorable([named.path for named in lost])),
        statistics=next((path for path in statistics if path in absent), None),
        live_files=content.file_count,
        rows_left=total - rows,
        dangling_vectors=vectors.count,
        extra_files=tuple(
            path for named in live if named.path not in absent for path in named.extras if path in absent
        ),
        index_files=tuple(dict.fromkeys(path for path in indexes if path in absent)),
    )
    removed: dict[str, set[int]] = {}
    for named in lost:
        removed.setdefault(named.manifest, set()).add(named.place)
    return Loss(
        content=content,
        report=report,
        removed={name: frozenset(places) for name, places in removed.items()},
        absent=frozenset(),
        lost=(*(path for path in statistics if path in absent), *(file.path for file in report.files)),
        total_record_count=total - rows,
        vectors=vectors,
        warnings=tuple(_warnings(schema, report, vectors.stuck)),
        needs=tuple(_needs(contents.table, report)),
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


def _paths(content: Content, index: RawIndex | None, paths: TablePaths) -> Iterator[str]:
    """Yield the path of every file that a manifest adds, deleted or not, and of every index file."""
    for part in content.parts:
        for _, (_, raw) in entries_of(content, part):
            if raw.is_add:
                yield from paths.files(raw.entry)
    for _, entry in index.rows if index is not None else ():
        yield paths.index_file(entry)


def _live(content: Content, paths: TablePaths, unlisted: Unlisted) -> Iterator[_Named]:
    """Yield the entries of live files of which something was not listed."""
    added: list[_Named] = []
    deleted: set[Identity] = set()
    for part in content.parts:
        for place, (_, raw) in entries_of(content, part):
            path, *extras = paths.files(raw.entry)
            if not any(map(unlisted.has, (path, *extras))):
                continue
            if raw.is_add:
                added.append(_Named(part.meta.file_name, place, raw, path, tuple(extras)))
            else:
                deleted.add(raw.entry.identity)
    # As for readers, an entry that is deleted anywhere is deleted.
    yield from (named for named in added if named.raw.entry.identity not in deleted)


def _refuse_misplaced(lost: Iterable[_Named], unlisted: Unlisted, contents: Contents) -> None:
    for named in lost:
        elsewhere = unlisted.elsewhere.get(name_hash(base_name(named.path)))
        if elsewhere is not None:
            raise RefusedError(
                f"table {contents.table}: expected {named.path}, found a file of this name at {elsewhere}; nothing is "
                "given up that exists. Move it back, or restore the option by which readers look for it",
                code="misplaced_files",
            )


def _files(
    schema: TableSchema, content: Content, lost: Iterable[_Named], restorable: frozenset[str]
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
    if report.extra_files:
        yield (
            f"{_counted(len(report.extra_files), 'side file')} of data files that exist cannot be found; the first is "
            f"{report.extra_files[0]}. No repair leaves them out; an engine can write indexes anew (CALL "
            "sys.rewrite_file_index)"
        )
    if report.index_files:
        yield (
            f"{_counted(len(report.index_files), 'index file')} cannot be found; the first is {report.index_files[0]}. "
            "Readers need it to leave out deleted rows, so no repair does without it; restore it, or roll back"
        )
    yield from map(warn_of_stuck, stuck)


def _needs(table: str, report: RepairReport) -> Iterator[RefusedError]:
    restorable = sum(file.is_restorable for file in report.files)
    if restorable:
        yield RefusedError(
            f"table {table}: the bucket's versions still have {restorable} of {len(report.files)} lost files; restore "
            "them (lakesweep explain TABLE FILE), or state accept_loss",
            code="restorable",
        )
    if len(report.files) > MANY * report.live_files:
        yield RefusedError(
            f"table {table}: {len(report.files)} of {report.live_files} files are lost, more than half of the table; "
            "state accept_loss if this is so",
            code="large_loss",
        )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
