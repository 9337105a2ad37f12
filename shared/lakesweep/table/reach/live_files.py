"""The data files of one version of a table, and how many files roots need beyond it.

The data files of a version are the files that its manifests add and do not delete.

What does a tag cost? Most roots share most files with the newest snapshot, so Lakesweep distinguishes only the other
files, and only by the roots that need them. Files are told apart by name, which contains a UUID. So a file that
compaction moved to another level counts once. A set of roots is a number with one bit for each root. Thousands of files
have the same set, so files are counted by set.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from functools import reduce as fold
from operator import or_
from typing import NamedTuple

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import ManifestEntry, ManifestMeta, live_entries
from lakesweep.format.schema import TableSchema
from lakesweep.model.roots import Root
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.root_files import RootList, state_lists

_VERSION = 1
"""The set of the version alone: it is the first root."""


class LiveFile(NamedTuple):
    """One data file of a version."""

    path: str
    """Relative to the table root, an absolute URI when external."""
    size_bytes: int
    rows: int
    level: int
    bucket: int
    partition: Mapping[str, str | None]
    """Key -> value as Paimon prints it in directories, before escaping; `None` for null."""


@dataclass(frozen=True, slots=True)
class LiveCounts:
    """The number of files of a version, from its manifest lists."""

    files: int
    manifests: int
    base: tuple[ManifestMeta, ...]
    """The manifests of the base list; the others are those of the delta list."""


def live_counts(store: Store, root: Root) -> LiveCounts:
    """Count the data files of a snapshot or tag without reading a manifest.

    Lists say how many files each manifest adds and deletes. The difference is the number of live files, with two
    exceptions: a writer deleted a file that did not exist, or added a file again that it had deleted.

    Raises:
        RefusedError: A list of the root is missing or damaged.
        StorageError: A read failed.
    """
    reader, snapshot = MetadataReader(store), root.snapshot
    metas = [each.meta for _, each in version_of(reader, root).manifests()]
    name = snapshot.base_manifest_list
    base = reader.manifest_lists({name: snapshot.base_manifest_list_size})[name]
    files = sum(meta.added_count - meta.deleted_count for meta in metas)
    return LiveCounts(files, len(metas), () if isinstance(base, Unreadable) else base)


def live_files(store: Store, schema: TableSchema, root: Root) -> tuple[LiveFile, ...]:
    """Return the data files of a snapshot or tag, ascending by path; see `files_and_entries`."""
    return tuple(file for file, _ in files_and_entries(store, schema, root))


def files_and_entries(store: Store, schema: TableSchema, root: Root) -> tuple[tuple[LiveFile, ManifestEntry], ...]:
    """Return the data files of a snapshot or tag with their entries, ascending by path.

    Args:
        store: The table's store.
        schema: The latest schema of the root's branch, which determines paths.
        root: The version.

    Raises:
        RefusedError: A list or manifest of the root is missing or damaged, so some files would be unknown.
        StorageError: A read failed.

    Source: Paimon `FileStoreScan` (base and delta manifests).
    """
    entries = live_entries(entries for _, entries in version_of(MetadataReader(store), root).scan(tuple))
    paths = TablePaths(schema)
    values_of = cache(paths.partition_values)
    found = (
        (
            LiveFile(
                path=paths.data_file(entry),
                size_bytes=entry.file_size,
                rows=entry.row_count,
                level=entry.level,
                bucket=entry.bucket,
                partition=values_of(entry.partition),
            ),
            entry,
        )
        for entry in entries
    )
    return tuple(sorted(found, key=lambda each: each[0].path))


def version_of(reader: MetadataReader, root: Root) -> Holders:
    """Read the lists of a version.

    Raises:
        RefusedError: A list is missing or damaged; later, a manifest.
        StorageError: A read failed.
    """

    def refuse(content: Unreadable) -> RefusedError:
        return RefusedError(
            f"table {reader.location}: {root.ref} cannot be read completely: {content.problem}", code="unreadable_root"
        )

    return Holders(reader, [root], state_lists, refuse)


class Amount(NamedTuple):
    """A number of data files, with their bytes and rows."""

    files: int = 0
    bytes: int = 0
    rows: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum."""
        return Amount(self.files + other.files, self.bytes + other.bytes, self.rows + other.rows)


@dataclass(frozen=True, slots=True)
class FilesBeyond:
    """The data files of a version, and the files that other roots need beyond it."""

    version: Amount
    bits: Mapping[str, int]
    """Path of a root -> its bit."""
    amounts: Mapping[int, Amount]
    """Set of roots -> the files that exactly these roots need, and that the version does not have."""

    def needed_only_by(self, held: Iterable[str], staying: Iterable[str]) -> Amount:
        """Return the files that a root of `held` needs, and that no root of `staying` outside `held` needs.

        Args:
            held: Paths of roots.
            staying: Paths of roots.
        """
        holders = self._set(held)
        others = self._set(staying) & ~holders
        found = (amount for roots, amount in self.amounts.items() if roots & holders and not roots & others)
        return fold(Amount.plus, found, Amount())

    def _set(self, paths: Iterable[str]) -> int:
        return fold(or_, (self.bits[path] for path in paths), 0)


def _lists(root: Root) -> Iterable[RootList]:
    # A changelog document pins the files that its own commit added. Its base list names none of them.
    return (each for each in state_lists(root) if root.ref.kind != "changelog" or each.field == "delta")


def files_beyond(store: Store, version: Root, roots: Sequence[Root]) -> FilesBeyond:
    """Count the data files of `version`, and the files that each of `roots` needs and `version` does not have.

    A changelog document without a changelog list needs the files that its own commit added.

    Raises:
        RefusedError: A list or manifest of one of them cannot be read.
        StorageError: A read failed.
    """

    def refuse(content: Unreadable) -> RefusedError:
        return RefusedError(
            f"table {store.location}: it is unknown which files its roots pin: {content.problem}",
            code="unreadable_root",
        )

    holders = Holders(MetadataReader(store), (version, *roots), _lists, refuse)
    own = frozenset(name for name, each in holders.manifests() if each.state & _VERSION)
    deque(holders.deletions(), maxlen=0)  # Deletions first, so that additions need no merging.
    live, known = Amount(), set[str]()
    beyond: dict[str, tuple[int, int, int]] = {}  # name -> roots, size, rows
    # The version's own manifests next: of its files, only the names have to be remembered.
    for among in (own.__contains__, lambda name: name not in own):
        for entry, _, needed_by, *_ in holders.additions(among=among):
            if needed_by & _VERSION:
                known.add(entry.file_name)
                live = live.plus(Amount(1, entry.file_size, entry.row_count))
            elif needed_by and entry.file_name not in known:
                before, size_bytes, rows = beyond.get(entry.file_name, (0, entry.file_size, entry.row_count))
                beyond[entry.file_name] = holders.shared(before | needed_by), size_bytes, rows
    amounts: dict[int, Amount] = {}
    for name, (needed_by, size_bytes, rows) in beyond.items():
        if name not in known:  # Known names were deleted here, and added again at another level.
            amounts[needed_by] = amounts.get(needed_by, Amount()).plus(Amount(1, size_bytes, rows))
    return FilesBeyond(live, {root.ref.path: 1 << number for number, root in enumerate(holders.roots)}, amounts)
