"""Which data files do roots need beyond the files of one version, and how many are there?

The question behind this: what does a tag cost? Most roots share most files with the newest snapshot, so Lakesweep
distinguishes only the other files, and only by the roots that need them. Files are told apart by name, which contains a
UUID. So a file that compaction moved to another level counts once.

A set of roots is a number with one bit for each root. Thousands of files have the same set, so files are counted by
set.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce as fold
from operator import or_
from typing import NamedTuple, TypeVar

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import Identity, ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.model.roots import Root
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.root_files import RootFiles, read_root_files

T = TypeVar("T")


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
        return _sum(amount for roots, amount in self.amounts.items() if roots & holders and not roots & others)

    def _set(self, paths: Iterable[str]) -> int:
        return fold(or_, (self.bits[path] for path in paths), 0)


class _Added(NamedTuple):
    """A file that a manifest adds."""

    name: str
    size_bytes: int
    rows: int
    identity: Identity | None
    """`None`: no manifest deletes a file of this name."""


def files_beyond(store: Store, version: Root, roots: Sequence[Root]) -> FilesBeyond:
    """Count the data files of `version`, and the files that each of `roots` needs and `version` does not have.

    A changelog document without a changelog list needs the files that its own commit added.

    Raises:
        RefusedError: A list or manifest of one of them cannot be read.
        StorageError: A read failed.
    """
    reader = MetadataReader(store)
    lists = read_root_files(reader, [version, *roots], lambda _: False)
    for files in lists.values():
        for unreadable in files.unreadable_lists:
            raise _incomplete(store, unreadable)
    return _Search(reader, store, version, lists).run()


class _Search:
    """Reads manifests one after another, first for their deletions, then for their additions."""

    def __init__(self, reader: MetadataReader, store: Store, version: Root, lists: Mapping[str, RootFiles]) -> None:
        self._reader = reader
        self._store = store
        self._bits = {path: 1 << number for number, path in enumerate(lists)}
        self._version = self._bits[version.ref.path]
        self._metas: dict[str, ManifestMeta] = {}
        self._added_in: dict[str, int] = {}
        self._deleted_in: dict[str, int] = {}
        for path, files in lists.items():
            is_changelog = files.root.ref.kind == "changelog"
            for meta in _manifests_of(files):
                name = meta.file_name
                self._metas[name] = meta
                self._added_in[name] = self._added_in.get(name, 0) | self._bits[path]
                # A reader of changes needs the files that a commit added, even if the same commit deleted them again.
                self._deleted_in[name] = self._deleted_in.get(name, 0) | (0 if is_changelog else self._bits[path])
        self._gone: dict[Identity, int] = {}
        self._gone_names: set[str] = set()
        self._known: set[str] = set()
        self._beyond: dict[str, tuple[int, int, int]] = {}  # name -> roots, size, rows
        self._sets: dict[int, int] = {}

    def run(self) -> FilesBeyond:
        # Deletions first, so that additions later need no merging.
        for name, deleted in self._scan([meta for meta in self._metas.values() if meta.deleted_count], _deleted):
            for identity in deleted:
                self._gone[identity] = self._gone.get(identity, 0) | self._deleted_in[name]
        self._gone_names = {identity[3] for identity in self._gone}
        # The version's own manifests next: of its files, only the names have to be remembered.
        version = _sum(self._version_files())
        others = [meta for name, meta in self._metas.items() if not self._added_in[name] & self._version]
        for name, found in self._scan(others, self._added):
            self._note(name, found)
        amounts: dict[int, Amount] = {}
        for name, (roots, size_bytes, rows) in self._beyond.items():
            if name not in self._known:  # Known names were deleted here, and added again at another level.
                amounts[roots] = amounts.get(roots, Amount()).plus(Amount(1, size_bytes, rows))
        return FilesBeyond(version, self._bits, amounts)

    def _version_files(self) -> Iterator[Amount]:
        own = [meta for name, meta in self._metas.items() if self._added_in[name] & self._version]
        for name, (amount, names, others) in self._scan(own, self._split):
            self._known |= names
            self._note(name, others)
            yield amount

    def _split(self, entries: Iterator[ManifestEntry]) -> tuple[Amount, set[str], list[_Added]]:
        """Return the amount of the version's files in a manifest, their names, and the files that the version lacks."""
        names: set[str] = set()
        others: list[_Added] = []
        count = size_bytes = rows = 0
        for entry in entries:
            if not entry.is_add:
                continue
            if entry.file_name in self._gone_names and self._gone.get(entry.identity, 0) & self._version:
                others.append(self._addition(entry))
                continue
            names.add(entry.file_name)
            count += 1
            size_bytes += entry.file_size
            rows += entry.row_count
        return Amount(count, size_bytes, rows), names, others

    def _added(self, entries: Iterator[ManifestEntry]) -> list[_Added]:
        known = self._known
        return [self._addition(entry) for entry in entries if entry.is_add and entry.file_name not in known]

    def _addition(self, entry: ManifestEntry) -> _Added:
        identity = entry.identity if entry.file_name in self._gone_names else None
        return _Added(entry.file_name, entry.file_size, entry.row_count, identity)

    def _note(self, manifest: str, found: Iterable[_Added]) -> None:
        """Note which roots need the files that a manifest adds."""
        for name, size_bytes, rows, identity in found:
            roots = self._added_in[manifest]
            if identity is not None:
                roots &= ~self._gone.get(identity, 0)
            before = self._beyond.get(name)
            if before is None:
                self._beyond[name] = self._shared(roots), size_bytes, rows
            elif before[0] | roots != before[0]:
                self._beyond[name] = self._shared(before[0] | roots), *before[1:]

    def _shared(self, roots: int) -> int:
        """Return one object for equal sets; a set of a thousand roots takes more memory than a file's name."""
        return self._sets.setdefault(roots, roots)

    def _scan(
        self, metas: Iterable[ManifestMeta], reduce: Callable[[Iterator[ManifestEntry]], T]
    ) -> Iterator[tuple[str, T]]:
        for name, content in self._reader.scan_manifests(metas, reduce):
            if isinstance(content, Unreadable):
                raise _incomplete(self._store, content)
            yield name, content


def _deleted(entries: Iterator[ManifestEntry]) -> list[Identity]:
    return [entry.identity for entry in entries if not entry.is_add]


def _manifests_of(files: RootFiles) -> tuple[ManifestMeta, ...]:
    if files.root.ref.kind == "changelog" and not isinstance(files.delta, Unreadable):
        return files.delta
    return files.manifests()


def _sum(amounts: Iterable[Amount]) -> Amount:
    return fold(Amount.plus, amounts, Amount())


def _incomplete(store: Store, unreadable: Unreadable) -> RefusedError:
    return RefusedError(
        f"table {store.location}: it is unknown which files its roots pin: {unreadable.problem}", code="unreadable_root"
    )
