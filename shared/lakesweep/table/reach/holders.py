"""Which roots hold a file: the roots whose readers open it, and the roots that only name it.

An orphan scan asks whether any root names a file, for whatever purpose (`live_set`). An explanation of a file must say
more. A root *needs* a file if its readers open the file. A root merely *names* a file in three cases:

- Its manifests have deleted the file since.
- The file is the changelog of a tag.
- The file is an index or list that a changelog document still names.

A set of roots is a number with one bit for each root. Manifests are read one after another, first for deletions, then
for additions. So memory grows only with the files that some manifest deletes, by a few hundred bytes each.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple

from lakesweep.format.index_manifest import IndexEntry
from lakesweep.format.manifest import COMPACT, ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.model.facts import base_name
from lakesweep.model.roots import Root
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import real_name

NamedKind = Literal["manifest_list", "manifest", "index_manifest", "statistics"]
_FOLDERS = {"statistics": "statistics/"}


class Named(NamedTuple):
    """A file that the documents and lists of roots name."""

    kind: NamedKind
    name: str
    named_by: int
    needed_by: int

    @property
    def path(self) -> str:
        """Return its path."""
        return _FOLDERS.get(self.kind, "manifest/") + self.name


class NamedIndex(NamedTuple):
    """An index file that the index manifests of roots name."""

    entry: IndexEntry
    named_by: int
    needed_by: int


class Mention(NamedTuple):
    """One entry of one manifest."""

    entry: ManifestEntry
    named_by: int
    needed_by: int


class ManifestHolders(NamedTuple):
    """The roots that hold a manifest, by the entries that they use; see `_Manifest`."""

    named: int
    state: int
    changes: int
    replay: int


@dataclass(slots=True)
class _Manifest:
    """A manifest, and the entries of it that each naming root uses."""

    meta: ManifestMeta
    named: int = 0
    state: int = 0
    """Roots whose files are the additions of manifests without the deletions."""
    changes: int = 0
    """Roots to which every addition in it is a readable change."""
    replay: int = 0
    """Changelog documents without their own list. Files that a commit wrote count; files of compaction do not."""


class Holders:
    """The files that some roots of a table need or name."""

    def __init__(
        self, reader: MetadataReader, roots: Iterable[Root], among: Callable[[str], bool] | None = None
    ) -> None:
        """Read the roots' lists.

        Args:
            reader: Where to read. Lists that it has already read cost nothing.
            roots: Bit n of a set stands for the n-th root.
            among: Tells by the name of a manifest whether to read it; by default all are read.

        Raises:
            StorageError: A read failed. A missing or damaged file only adds nothing.
        """
        self.roots = tuple(roots)
        self._reader = reader
        self._among = among
        self._named: dict[tuple[NamedKind, str], tuple[int, int]] = {}
        self._manifests: dict[str, _Manifest] = {}
        self._sets: dict[int, int] = {}
        lists = reader.manifest_lists({name: size for root in self.roots for name, size in _sized_lists(root)})
        for number, root in enumerate(self.roots):
            self._add(root, 1 << number, lists.__getitem__)

    def _add(self, root: Root, bit: int, content: Callable[[str], tuple[ManifestMeta, ...] | Unreadable]) -> None:
        snapshot = root.snapshot
        is_changelog = root.ref.kind == "changelog"
        has_state = not is_changelog or snapshot.changelog_manifest_list is None
        for name, field in ((snapshot.base_manifest_list, "base"), (snapshot.delta_manifest_list, "delta")):
            for manifest in self._list(name, bit, has_state, content):
                if not is_changelog:
                    manifest.state |= bit
                elif has_state and field == "delta":
                    manifest.replay |= bit
        if snapshot.changelog_manifest_list is not None:
            is_read = root.ref.kind != "tag"
            for manifest in self._list(snapshot.changelog_manifest_list, bit, is_read, content):
                if is_read:
                    manifest.changes |= bit
        if snapshot.index_manifest is not None:
            self._note("index_manifest", snapshot.index_manifest, bit, not is_changelog)
        if snapshot.statistics is not None:
            self._note("statistics", snapshot.statistics, bit, not is_changelog)

    def _list(
        self, name: str, bit: int, is_needed: bool, content: Callable[[str], tuple[ManifestMeta, ...] | Unreadable]
    ) -> Iterator[_Manifest]:
        self._note("manifest_list", name, bit, is_needed)
        metas = content(name)
        for meta in () if isinstance(metas, Unreadable) else metas:
            for each in (meta.file_name, *meta.extra_files):
                self._note("manifest", each, bit, is_needed)
            manifest = self._manifests.setdefault(meta.file_name, _Manifest(meta))
            manifest.named |= bit
            yield manifest

    def _note(self, kind: NamedKind, name: str, bit: int, is_needed: bool) -> None:
        named, needed = self._named.get((kind, name), (0, 0))
        self._named[kind, name] = self._shared(named | bit), self._shared(needed | bit if is_needed else needed)

    def _shared(self, roots: int) -> int:
        """Return one object for equal sets; a set of a thousand roots takes more memory than a name."""
        return self._sets.setdefault(roots, roots)

    def roots_in(self, roots: int) -> list[Root]:
        """Return the roots of a set."""
        return [root for number, root in enumerate(self.roots) if roots >> number & 1]

    def manifests(self) -> Iterator[tuple[str, ManifestHolders]]:
        """Yield every manifest with the roots that hold it."""
        for name, each in self._manifests.items():
            yield name, ManifestHolders(each.named, each.state, each.changes, each.replay)

    def named(self) -> Iterator[Named]:
        """Yield every list, manifest, index manifest and statistics file once."""
        for (kind, name), (named_by, needed_by) in self._named.items():
            yield Named(kind, name, named_by, needed_by)

    def indexes(self) -> Iterator[NamedIndex]:
        """Yield the entries of every index manifest. A file that several of them name is yielded several times.

        Raises:
            StorageError: A read failed.
        """
        sets = {name: found for (kind, name), found in self._named.items() if kind == "index_manifest"}
        for name, content in self._reader.index_manifests(sets).items():
            for entry in () if isinstance(content, Unreadable) else content:
                yield NamedIndex(entry, *sets[name])

    def mentions(self, wanted: Callable[[ManifestEntry], bool] | None = None) -> Iterator[Mention]:
        """Yield entries with the roots that need their files. Each manifest is read once, with deletions twice.

        Args:
            wanted: Tells which entries to yield; by default all. It must decide by names alone, since an entry shares
                these
                with the entry that deletes it.

        Raises:
            StorageError: A read failed. A missing or damaged manifest only adds nothing.
        """
        gone: dict[bytes, int] = {}
        gone_names: set[int] = set()
        for name, deleted in self._scan(wanted, is_add=False):
            manifest = self._manifests[name]
            for entry in deleted:
                key = _identity_hash(entry)
                gone[key] = self._shared(gone.get(key, 0) | manifest.state)
                gone_names.add(hash(entry.file_name))
                yield Mention(entry, manifest.named, 0)
        for name, added in self._scan(wanted, is_add=True):
            manifest = self._manifests[name]
            for entry in added:
                needed = manifest.state
                if hash(entry.file_name) in gone_names:
                    needed &= ~gone.get(_identity_hash(entry), 0)
                needed |= manifest.changes
                if entry.file_source != COMPACT:
                    needed |= manifest.replay
                yield Mention(entry, manifest.named, needed)

    def _scan(
        self, wanted: Callable[[ManifestEntry], bool] | None, *, is_add: bool
    ) -> Iterator[tuple[str, list[ManifestEntry]]]:
        def chosen(entries: Iterator[ManifestEntry]) -> list[ManifestEntry]:
            return [each for each in entries if each.is_add == is_add and (wanted is None or wanted(each))]

        metas = [each.meta for name, each in self._manifests.items() if self._among is None or self._among(name)]
        asked = [meta for meta in metas if (meta.added_count if is_add else meta.deleted_count)]
        for name, content in self._reader.scan_manifests(asked, chosen, again=not is_add):
            if not isinstance(content, Unreadable):
                yield name, content


def names_of(entry: ManifestEntry) -> Iterator[str]:
    """Yield every file name that an entry refers to. These are the names that `live_set` counts."""
    yield from data_names(entry)
    yield from entry.extra_files


def data_names(entry: ManifestEntry) -> Iterator[str]:
    """Yield the names of an entry's data or changelog file: its name in the entry, and its real name."""
    yield entry.file_name
    if "$" in entry.file_name:
        yield real_name(entry.file_name)
    if entry.external_path is not None:
        name = base_name(entry.external_path)
        yield name
        yield real_name(name)


def index_names(entry: IndexEntry) -> Iterator[str]:
    """Yield the names of an index file."""
    yield entry.file_name
    if entry.external_path is not None:
        name = base_name(entry.external_path)
        yield name
        yield real_name(name)


def _sized_lists(root: Root) -> Iterator[tuple[str, int | None]]:
    snapshot = root.snapshot
    yield snapshot.base_manifest_list, snapshot.base_manifest_list_size
    yield snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    if snapshot.changelog_manifest_list is not None:
        yield snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size


def _identity_hash(entry: ManifestEntry) -> bytes:
    """Return 16 bytes that stand for the values that a deletion must match."""
    return blake2b(repr(entry.identity).encode("utf-8", "surrogatepass"), digest_size=16).digest()
