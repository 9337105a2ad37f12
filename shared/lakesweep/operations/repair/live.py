"""The files that the newest snapshot names, and those among them that no listing showed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakesweep.errors import RefusedError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.manifest import Identity
from lakesweep.format.raw_entries import RawEntry
from lakesweep.format.snapshot import Snapshot
from lakesweep.model.roots import base_name
from lakesweep.operations.repair.existence import Existence, Unlisted
from lakesweep.operations.repair.loss import entries_of
from lakesweep.table.contents.content import Content
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.live_set import name_hash


@dataclass(frozen=True, slots=True)
class Named:
    """An entry that adds a file. A listing did not show the file, or a file beside it."""

    manifest: str
    place: int
    raw: RawEntry
    path: str
    extras: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """What a snapshot names and what certainly does not exist."""

    files: tuple[Named, ...]
    """Live data files."""
    extra_files: tuple[str, ...]
    """Files beside data files that exist."""
    index_files: tuple[str, ...]
    others: frozenset[str]
    """What else was asked for."""


def statistics_of(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the path of a snapshot's statistics, if it names any. Both repairs leave them out if they are missing."""
    return () if snapshot.statistics is None else (f"statistics/{snapshot.statistics}",)


def missing_of(
    content: Content, index: RawIndex | None, paths: TablePaths, existence: Existence, others: Iterable[str]
) -> tuple[Missing, Unlisted]:
    """Look for all files of a snapshot, and for other paths in the table. Return what the listing did not show, too.

    Raises:
        RefusedError: It is not certain what exists, or a missing file is elsewhere.
        StorageError: A request failed.
    """
    others = tuple(others)
    indexes = () if index is None else tuple(dict.fromkeys(paths.index_file(entry) for _, entry in index.rows))
    unlisted = existence.unlisted(_all_paths(content, paths, (*others, *indexes)))
    live = list(_live(content, paths, unlisted))
    asked = (path for named in live for path in (named.path, *named.extras))
    absent = existence.absent(path for path in (*others, *indexes, *asked) if unlisted.has(path))
    files = tuple(named for named in live if named.path in absent)
    lost = (*(named.path for named in files), *(path for path in others if path in absent))
    _refuse_misplaced(lost, unlisted, existence)
    return Missing(
        files,
        tuple(path for named in live if named.path not in absent for path in named.extras if path in absent),
        tuple(path for path in indexes if path in absent),
        frozenset(path for path in others if path in absent),
    ), unlisted


def _all_paths(content: Content, paths: TablePaths, others: Iterable[str]) -> Iterator[str]:
    """Yield the path of every file that a manifest adds, deleted or not, and other paths."""
    yield from others
    for part in content.parts:
        for _, (_, raw) in entries_of(content, part):
            if raw.is_add:
                yield from paths.files(raw.entry)


def _live(content: Content, paths: TablePaths, unlisted: Unlisted) -> Iterator[Named]:
    """Yield the entries of live files of which something was not listed."""
    added: list[Named] = []
    deleted: set[Identity] = set()
    for part in content.parts:
        for place, (_, raw) in entries_of(content, part):
            path, *extras = paths.files(raw.entry)
            if not any(map(unlisted.has, (path, *extras))):
                continue
            if raw.is_add:
                added.append(Named(part.meta.file_name, place, raw, path, tuple(extras)))
            else:
                deleted.add(raw.entry.identity)
    # As for readers, an entry that is deleted anywhere is deleted.
    yield from (named for named in added if named.raw.entry.identity not in deleted)


def _refuse_misplaced(lost: Iterable[str], unlisted: Unlisted, existence: Existence) -> None:
    for path in lost:
        elsewhere = unlisted.elsewhere.get(name_hash(base_name(path)))
        if elsewhere is not None:
            raise RefusedError(
                f"table {existence.table.ref}: expected {path}, found a file of this name at {elsewhere}; nothing is "
                "given up that exists. Move it back, or restore the option by which readers look for it",
                code="misplaced_files",
            )
