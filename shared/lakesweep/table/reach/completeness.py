"""Check whether everything that some roots need exists.

Lakesweep checks this before deleted roots are restored, for the table as it will be then (`ReturningStore`). It checks
again before and after a branch rewrite. An incomplete restored root would be worse than none: readers would find it and
fail.

The entries of a manifest are dropped while it is read, except for entries of missing files. So memory grows with the
number of objects in the table, not with its history.

The check also finds files of a wrong size. Paimon states exact sizes in bytes, since readers of formats with a footer
begin at the stated end. One stated size is not the size of a file: for a bucket's share of a compacted changelog, the
entry states the share's size before.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from lakesweep.errors import FormatError
from lakesweep.format.manifest import Identity, IndexEntry, ManifestEntry, ManifestMeta
from lakesweep.format.schema import TableSchema
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.roots import Root, base_name
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import Note, name_hash
from lakesweep.table.reach.root_files import RootList, lists_of

Exists = Callable[[str], bool]
_PAGE = 1000
"""Keys that one request lists."""


@dataclass(frozen=True, slots=True)
class WrongSize:
    """A file whose size differs from the size in the metadata of its roots."""

    path: str
    expected: int
    found: int


def stated_size(entry: ManifestEntry | IndexEntry) -> int | None:
    """Return the size in bytes that the file of an entry must have, `None` if the entry does not state it."""
    return None if "$" in base_name(entry.external_path or entry.file_name) else entry.file_size


@dataclass(slots=True)
class NamedSizes:
    """Notes the stated sizes of files by name, while manifests are decoded for another purpose."""

    sizes: dict[bytes, int | None] = field(default_factory=dict)
    """Hash of a name -> its size; `None` if two entries state different sizes."""

    def decode(
        self, reader: MetadataReader, manifests: Iterable[ManifestMeta], note: Note
    ) -> Iterator[tuple[str, Unreadable | None]]:
        """Decode manifests as a `Decode` does, and note the sizes that they state."""
        return reader.scan_manifests(manifests, lambda entries: note(self._noted(entries)))

    def note(self, entry: ManifestEntry | IndexEntry) -> None:
        """Note the size of one file."""
        size = stated_size(entry)
        if size is not None:
            name = name_hash(base_name(entry.external_path or entry.file_name))
            if self.sizes.setdefault(name, size) != size:
                self.sizes[name] = None

    def differs(self, path: str, size: int) -> bool:
        """Tell whether a file of this name must have another size."""
        stated = self.sizes.get(name_hash(base_name(path)))
        return stated is not None and stated != size

    def _noted(self, entries: Iterator[ManifestEntry]) -> Iterator[ManifestEntry]:
        for entry in entries:
            if entry.is_add:
                self.note(entry)
            yield entry


def first_missing(
    store: Store,
    paths: TablePaths,
    roots: Iterable[Root],
    exists: Exists,
    may_lack_changelog: Callable[[Root], bool],
    changelogs_need_delta: bool,
) -> str | None:
    """Return a sentence about the first file that one of `roots` needs and that is missing or damaged.

    Args:
        store: The store of the metadata.
        paths: The paths of the roots' branch.
        roots: Snapshots, changelogs and tags.
        exists: Tells whether a path exists.
        may_lack_changelog: Tells whether the changelog list of a snapshot may be missing without damage.
        changelogs_need_delta: The writer produces no changelog files, so readers of a changelog document use its delta.
            Otherwise the delta list may be missing, since it was deleted with the snapshot.

    Returns:
        `None` if all roots are complete.
    """
    holders = Holders(MetadataReader(store), roots, _lists_that_may_return)
    order = {root.ref.path: 1 << number for number, root in enumerate(holders.roots)}
    found: list[tuple[int, int, str]] = []
    """The first root that lacks something, the step of the check, and what is missing."""

    def note(step: int, needed_by: int, problem: str) -> None:
        if needed_by:
            found.append((needed_by & -needed_by, step, problem))

    def may_lack(root: Root, path: str) -> bool:
        if path == f"manifest/{root.snapshot.changelog_manifest_list}":
            return may_lack_changelog(root)
        is_base = path == f"manifest/{root.snapshot.base_manifest_list}"
        return root.ref.kind == "changelog" and (is_base or not changelogs_need_delta)

    for root, _, content in holders.gaps:
        if not (content.missing and may_lack(root, content.path)):
            note(0, order[root.ref.path], content.problem)
    _note_absent_entries(holders, paths, exists, note)
    read = dict(holders.manifests())
    for named in holders.named():
        is_extra = named.kind == "manifest" and named.name not in read
        if (is_extra or (named.kind == "statistics" and named.needed_by)) and not exists(named.path):
            note(1, named.named_by if is_extra else named.needed_by, _says_absent(named.path))
    if found:
        first, _, problem = min(found, key=lambda each: each[:2])
        return f"{holders.roots_in(first)[0].ref}: {problem}"
    for index in holders.indexes(only_needed=True):
        if not exists(path := paths.index_file(index.entry)):
            return f"{holders.roots_in(index.needed_by)[-1].ref}: {_says_absent(path)}"
    unread = [f"{root.ref}: {content.problem}" for root, part, content in holders.gaps if part == "index"]
    return unread[-1] if unread else None


def _lists_that_may_return(root: Root) -> Iterator[RootList]:
    """Yield the lists to check: a changelog document with its own list has no others."""
    return (each for each in lists_of(root) if each.is_needed or root.ref.kind == "tag")


def _note_absent_entries(
    holders: Holders, paths: TablePaths, exists: Exists, note: Callable[[int, int, str], None]
) -> None:
    """Note the unreadable manifests, and the absent files of entries that roots need."""

    def about_absent(entries: Iterator[ManifestEntry]) -> tuple[ManifestEntry, ...]:
        return tuple(entry for entry in entries if not all(map(exists, paths.files(entry))))

    kept = {each.meta.file_name: entries for each, entries in holders.scan(about_absent)}
    problems = {content.path: content.problem for content in holders.unreadable}
    gone: dict[Identity, int] = {}
    for name, each in holders.manifests():
        for entry in kept.get(name, ()):
            if not entry.is_add:
                gone[entry.identity] = gone.get(entry.identity, 0) | each.state
    for name, each in holders.manifests():
        if name not in kept:
            note(2, each.state | each.replay, problems[f"manifest/{name}"])
            note(3, each.in_changelog, problems[f"manifest/{name}"])
            continue
        for entry in kept[name]:
            if not entry.is_add:
                continue
            absent = [path for path in paths.files(entry) if not exists(path)]
            for path in absent:
                note(2, each.state & ~gone.get(entry.identity, 0) | each.replay, _says_absent(path))
            if paths.data_file(entry) in absent:
                note(3, each.in_changelog, _says_absent(paths.data_file(entry)))


def _says_absent(path: str) -> str:
    return f"{path} does not exist"


def lost_files(
    store: Store,
    schema: TableSchema,
    roots: Sequence[Root],
    limit: int = 10,
    outside: Callable[[str], bool] | None = None,
    check: Callable[[], None] = lambda: None,
    wrong: list[WrongSize] | None = None,
) -> tuple[str, ...]:
    """Return what readers of `roots` need and would not find, or could not read.

    A snapshot or tag needs the files of its state. It does not need its changelog: expiry deletes the changelog of a
    tagged snapshot, and the table remains complete. A changelog document needs its changes.

    Memory grows by some 100 bytes for each file that the roots need. The check reads the roots' metadata once, and
    lists the table.

    Args:
        store: The table's store.
        schema: The latest schema of the roots' branch, which determines paths.
        roots: Roots of one branch.
        limit: The result names at most this many files.
        outside: Tells whether a file outside the table exists; without it, files outside are not checked.
        check: Called before each page of the listing, which takes minutes for millions of objects; may raise.
        wrong: Receives the files whose listed size differs from the size in metadata; without it, sizes are not
            compared. The comparison takes no request, and twice the memory.

    Returns:
        The path of each missing file, and a sentence for each damaged one; nothing if all files exist.

    Raises:
        StorageError: A request failed.
    """
    if not roots:
        return ()
    try:
        paths, by_delta = TablePaths(schema), schema.options.get("changelog-producer", "none").lower() == "none"
        holders = Holders(
            MetadataReader(store, again=True), roots, lambda root: _lists_of_readers(root, by_delta=by_delta)
        )
        deque(holders.deletions(reads_all=True), maxlen=0)
        deque(holders.indexes(only_needed=True), maxlen=0)
        if holders.unreadable:
            return _problems(holders)[:limit]
        unseen = {name_hash(path) for path, _ in _needed(holders, paths) if not is_external(path)}
        sizes = {}
        if wrong is not None:
            sizes = {name_hash(path): size for path, size in _needed(holders, paths) if size is not None}
        for number, entry in enumerate(store.list("") if unseen else ()):
            if number % _PAGE == 0:
                check()
            key = name_hash(entry.key)
            unseen.discard(key)
            if wrong is not None and sizes.get(key, entry.size_bytes) != entry.size_bytes:
                wrong.append(WrongSize(entry.key, sizes[key], entry.size_bytes))
        lost = (
            path
            for path, _ in _needed(holders, paths)
            if ((outside is not None and not outside(path)) if is_external(path) else name_hash(path) in unseen)
        )
        found = tuple(islice(dict.fromkeys(lost), limit)) if unseen or outside is not None else ()
        return (*_problems(holders), *found)[:limit]  # A manifest may have vanished since it was read first.
    except FormatError as error:
        return (str(error),)


def _lists_of_readers(root: Root, *, by_delta: bool) -> Iterator[RootList]:
    """Yield the lists that readers of a root open; for a snapshot or tag, those of its state.

    Args:
        root: The root.
        by_delta: Readers of changes replay the delta of a changelog document without its own list. Otherwise the delta
            was deleted with the snapshot, and there are no changes.
    """
    for each in lists_of(root):
        if root.ref.kind != "changelog":
            is_read = each.part == "state"
        else:
            is_read = each.is_needed and (each.field == "changelog" or (each.field == "delta" and by_delta))
        if is_read:
            yield each


def _problems(holders: Holders) -> tuple[str, ...]:
    return tuple(each.path if each.missing else each.problem for each in holders.unreadable)


def _needed(holders: Holders, paths: TablePaths) -> Iterator[tuple[str, int | None]]:
    """Yield the path of every file that a root needs, some several times, with its size if an entry states it.

    Lists and manifests come without a size, since their sizes were compared when they were read. They are included,
    since a caching store may still show deleted ones.
    """
    yield from ((named.path, None) for named in holders.named() if named.needed_by)
    for index in holders.indexes(only_needed=True):
        yield paths.index_file(index.entry), stated_size(index.entry)
    for entry, _, needed_by, *_ in holders.additions():
        if needed_by:
            yield paths.data_file(entry), stated_size(entry)
            yield from ((path, None) for path in paths.extra_files(entry))
