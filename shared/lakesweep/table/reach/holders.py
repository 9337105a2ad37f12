"""The visitor: it reads everything that some roots name, and says which of these roots hold each file.

A root *needs* a file if its readers open the file. A root merely *names* a file in three cases:

- Its manifests have deleted the file since.
- The file is the changelog of a tag.
- The file is an index or list that a changelog document still names.

Each list is read once. A document that cannot be read adds no file, and becomes a value in `Holders.gaps`, or an error
if the caller asks for that. Only `references` and `freed` walk roots with code of their own, since each must be able to
contradict the other.

A set of roots is a number with one bit for each root. Manifests are read one after another, first for deletions, then
for additions. So memory grows only with the files that some manifest deletes, by a few hundred bytes each.
"""

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import TypeVar

from lakesweep.errors import MaintenanceError
from lakesweep.format.manifest import COMPACT, ManifestEntry, ManifestMeta
from lakesweep.model.roots import Part, Root
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.held import ManifestHolders, Mention, Named, NamedIndex, NamedKind, Unread
from lakesweep.table.reach.root_files import ListContent, RootList, lists_of, plausible_list

T = TypeVar("T")


class Holders:
    """The files that some roots of a table need or name."""

    def __init__(
        self,
        reader: MetadataReader,
        roots: Iterable[Root],
        lists: Callable[[Root], Iterable[RootList]] = lists_of,
        refuse: Callable[[Unreadable], MaintenanceError] | None = None,
    ) -> None:
        """Read the roots' lists.

        Args:
            reader: Where to read. Lists that it has already read cost nothing.
            roots: Bit n of a set stands for the n-th root.
            lists: The lists of a root that the caller asks about; by default all.
            refuse: Makes the error that the first unreadable document raises; by default it becomes one of `gaps`.

        Raises:
            StorageError: A read failed.
        """
        self.roots = tuple(roots)
        self._gaps: dict[tuple[str, Part, str], Unread] = {}
        self._reader = reader
        self._refuse = refuse
        self._named: dict[tuple[NamedKind, str], tuple[int | None, int, int]] = {}
        self._manifests: dict[str, ManifestHolders] = {}
        self._sets: dict[int, int] = {}
        self._gone: dict[bytes, int] = {}
        self._gone_names: set[int] = set()
        wanted = [tuple(lists(root)) for root in self.roots]
        contents = reader.manifest_lists({each.name: each.size for found in wanted for each in found})
        for number, (root, found) in enumerate(zip(self.roots, wanted, strict=True)):
            for each in found:
                self._add_list(root, 1 << number, each, plausible_list(each.name, contents[each.name], each.rows))
            snapshot, is_needed = root.snapshot, root.ref.kind != "changelog"
            if snapshot.index_manifest is not None:
                self._note("index_manifest", snapshot.index_manifest, None, 1 << number, is_needed)
            if snapshot.statistics is not None:
                self._note("statistics", snapshot.statistics, None, 1 << number, is_needed)

    def _add_list(self, root: Root, bit: int, each: RootList, content: ListContent) -> None:
        self._note("manifest_list", each.name, each.size, bit, each.is_needed)
        if isinstance(content, Unreadable):
            self.note_gap(bit, each.part, content)
            return
        for meta in content:
            for extra in meta.extra_files:
                self._note("manifest", extra, None, bit, each.is_needed)
            manifest = self._manifests.get(meta.file_name)
            if manifest is None:
                manifest = self._manifests[meta.file_name] = ManifestHolders(meta)
            manifest.add(root, bit, each)

    def _note(self, kind: NamedKind, name: str, size: int | None, bit: int, is_needed: bool) -> None:
        _, named, needed = self._named.get((kind, name), (None, 0, 0))
        needed = needed | bit if is_needed else needed
        self._named[kind, name] = size, self.shared(named | bit), self.shared(needed)

    def shared(self, roots: int) -> int:
        """Return one object for equal sets; a set of a thousand roots takes more memory than a name."""
        return self._sets.setdefault(roots, roots)

    def note_gap(self, roots: int, part: Part, content: Unreadable) -> None:
        """Note that a document cannot be read, which this part of these roots needs."""
        if roots and self._refuse is not None:
            raise self._refuse(content)
        for root in self.roots_in(roots):
            self._gaps.setdefault((root.ref.path, part, content.path), Unread(root, part, content))

    @property
    def gaps(self) -> tuple[Unread, ...]:
        """Return what could not be read so far: first the lists, by root."""
        return tuple(self._gaps.values())

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Return each document of `gaps` once."""
        return tuple({gap.content.path: gap.content for gap in self._gaps.values()}.values())

    def roots_in(self, roots: int) -> list[Root]:
        """Return the roots of a set."""
        return [root for number, root in enumerate(self.roots) if roots >> number & 1]

    def manifests(self) -> Iterable[tuple[str, ManifestHolders]]:
        """Return every manifest with the roots that hold it, in the order of roots and lists."""
        return self._manifests.items()

    def named(self) -> Iterator[Named]:
        """Yield every list, manifest, index manifest and statistics file once."""
        for (kind, name), found in self._named.items():
            yield Named(kind, name, *found)
        for name, each in self._manifests.items():
            yield Named("manifest", name, each.meta.file_size, each.named, each.needed)

    def indexes(self, *, only_needed: bool = False) -> Iterator[NamedIndex]:
        """Yield the entries of every index manifest. A file that several of them name is yielded several times.

        Args:
            only_needed: Leave out index manifests that only changelogs name, since their readers open none.

        Raises:
            StorageError: A read failed.
        """
        named = [each for each in self.named() if each.kind == "index_manifest" and (each.needed_by or not only_needed)]
        contents = self._reader.index_manifests(each.name for each in named)
        for each in named:
            content = contents[each.name]
            if isinstance(content, Unreadable):
                self.note_gap(each.named_by, "index", content)
            else:
                yield from (NamedIndex(entry, each.named_by, each.needed_by) for entry in content)

    def mentions(
        self,
        wanted: Callable[[ManifestEntry], bool] | None = None,
        among: Callable[[str], bool] | None = None,
    ) -> Iterator[Mention]:
        """Yield entries with the roots that need their files. Each manifest is read once, with deletions twice.

        Args:
            wanted: Tells which entries to yield; by default all. It must decide by names alone, since an entry shares
                these with the entry that deletes it.
            among: Tells by the name of a manifest whether to read it; by default all are read.

        Raises:
            StorageError: A read failed.
        """
        yield from self.deletions(wanted, among)
        yield from self.additions(wanted, among)

    def deletions(
        self,
        wanted: Callable[[ManifestEntry], bool] | None = None,
        among: Callable[[str], bool] | None = None,
        *,
        reads_all: bool = False,
    ) -> Iterator[Mention]:
        """Yield the entries that delete files. `additions` goes by those that this has yielded.

        Args:
            wanted: As for `mentions`.
            among: As for `mentions`.
            reads_all: Also read the manifests that delete nothing, so that `gaps` are complete.
        """
        self._gone.clear()
        self._gone_names.clear()
        chosen = _chosen(wanted, is_add=False)
        for each, deleted in self.scan(chosen, among, lambda meta: reads_all or meta.deleted_count, again=True):
            for entry in deleted:
                key = _identity_hash(entry)
                self._gone[key] = self.shared(self._gone.get(key, 0) | each.state)
                self._gone_names.add(hash(entry.file_name))
                yield Mention(entry, each.named, 0, manifest=each.meta.file_name)

    def additions(
        self, wanted: Callable[[ManifestEntry], bool] | None = None, among: Callable[[str], bool] | None = None
    ) -> Iterator[Mention]:
        """Yield the entries that add files, once `deletions` has ended. The arguments are those of `mentions`."""
        for each, added in self.scan(_chosen(wanted, is_add=True), among, lambda meta: meta.added_count):
            named, is_change, name = each.named, bool(each.in_changelog), each.meta.file_name
            for entry in added:
                needed = each.state
                if hash(entry.file_name) in self._gone_names:
                    needed &= ~self._gone.get(_identity_hash(entry), 0)
                needed |= each.changes
                if entry.file_source != COMPACT:
                    needed |= each.replay
                yield Mention(entry, named, needed, is_change, name)

    def scan(
        self,
        reduce: Callable[[Iterator[ManifestEntry]], T],
        among: Callable[[str], bool] | None = None,
        asks: Callable[[ManifestMeta], object] = bool,
        *,
        again: bool = False,
    ) -> Iterator[tuple[ManifestHolders, T]]:
        """Read manifests one after another, and yield the result of `reduce` for each that can be read.

        Args:
            reduce: Consumes the entries of one manifest to the end.
            among: As for `mentions`.
            asks: Tells by the counts of a manifest whether to read it.
            again: The manifests will be read again.
        """
        metas = [each.meta for name, each in self._manifests.items() if among is None or among(name)]
        for name, content in self._reader.scan_manifests(filter(asks, metas), reduce, again=again):
            each = self._manifests[name]
            if isinstance(content, Unreadable):
                self.note_unreadable(each, content)
            else:
                yield each, content

    def note_unreadable(self, each: ManifestHolders, content: Unreadable) -> None:
        """Note that a manifest cannot be read."""
        self.note_gap(each.in_state, "state", content)
        self.note_gap(each.in_changelog, "changelog", content)


def _chosen(
    wanted: Callable[[ManifestEntry], bool] | None, *, is_add: bool
) -> Callable[[Iterator[ManifestEntry]], list[ManifestEntry]]:
    def chosen(entries: Iterator[ManifestEntry]) -> list[ManifestEntry]:
        return [each for each in entries if each.is_add == is_add and (wanted is None or wanted(each))]

    return chosen


def _identity_hash(entry: ManifestEntry) -> bytes:
    """Return 16 bytes that stand for the values that a deletion must match."""
    return blake2b(repr(entry.identity).encode("utf-8", "surrogatepass"), digest_size=16).digest()
