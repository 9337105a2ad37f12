"""Check whether everything that some roots need exists.

Lakesweep checks this before deleted roots are restored, for the table as it will be then (`ReturningStore`). It checks
again before and after a branch rewrite. An incomplete restored root would be worse than none: readers would find it and
fail.

The entries of a manifest are dropped while it is read, except for entries of missing files. So memory grows with the
number of objects in the table, not with its history.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from lakesweep.errors import FormatError
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.schema import TableSchema
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.roots import Root
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.reach.needs import Needs
from lakesweep.table.reach.root_files import RootFiles, read_root_files
from lakesweep.table.reach.sizes import WrongSize

Entries = tuple[ManifestEntry, ...]
Exists = Callable[[str], bool]
_PAGE = 1000
"""Keys that one request lists."""


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
    reader = MetadataReader(store)
    files = tuple(read_root_files(reader, roots, with_changelog=lambda _: True).values())
    search = _Search(reader, paths, exists, may_lack_changelog, changelogs_need_delta)
    return next(search.problems(files), None)


class _Search:
    def __init__(
        self,
        reader: MetadataReader,
        paths: TablePaths,
        exists: Exists,
        may_lack_changelog: Callable[[Root], bool],
        changelogs_need_delta: bool,
    ) -> None:
        self._reader = reader
        self._paths = paths
        self._exists = exists
        self._may_lack_changelog = may_lack_changelog
        self._changelogs_need_delta = changelogs_need_delta

    def problems(self, files: tuple[RootFiles, ...]) -> Iterator[str]:
        metas = {meta.file_name: meta for each in files for meta in (*each.manifests(), *_metas(each.changelog))}
        absent = dict(self._reader.scan_manifests(metas.values(), self._about_absent))
        for each in files:
            for what in (*self._lists(each), *self._state(each, absent), *self._changelog(each, absent)):
                yield f"{each.root.ref}: {what}"
        yield from self._index(files)

    def _lists(self, files: RootFiles) -> Iterator[str]:
        for content in (files.base, files.delta):
            if isinstance(content, Unreadable) and not (content.missing and self._may_lack(files, content)):
                yield content.problem
        statistics = files.root.snapshot.statistics
        if files.root.ref.kind != "changelog" and statistics is not None:
            yield from self._absent([self._paths.statistics(statistics)])
        for meta in (*files.manifests(), *_metas(files.changelog)):
            yield from self._absent(self._paths.manifest(extra) for extra in meta.extra_files)

    def _may_lack(self, files: RootFiles, content: Unreadable) -> bool:
        is_changelog = files.root.ref.kind == "changelog"
        return is_changelog and (content is files.base or not self._changelogs_need_delta)

    def _state(self, files: RootFiles, absent: Mapping[str, Entries | Unreadable]) -> Iterator[str]:
        """Yield the missing data files: of a snapshot's state, or of the additions in a changelog's delta."""
        is_changelog = files.root.ref.kind == "changelog"
        added: list[ManifestEntry] = []
        gone: set[object] = set()
        for meta in _metas(files.delta) if is_changelog else files.manifests():
            content = absent[meta.file_name]
            if isinstance(content, Unreadable):
                yield content.problem
                continue
            added += [entry for entry in content if entry.is_add]
            gone.update(entry.identity for entry in content if not entry.is_add)
        for entry in added:
            if is_changelog or entry.identity not in gone:
                yield from self._absent(self._files_of(entry))

    def _changelog(self, files: RootFiles, absent: Mapping[str, Entries | Unreadable]) -> Iterator[str]:
        if isinstance(files.changelog, Unreadable):
            if not (files.changelog.missing and self._may_lack_changelog(files.root)):
                yield files.changelog.problem
            return
        for meta in _metas(files.changelog):
            content = absent[meta.file_name]
            if isinstance(content, Unreadable):
                yield content.problem
            else:
                for entry in content:
                    yield from self._absent([self._paths.data_file(entry)] if entry.is_add else ())

    def _index(self, files: tuple[RootFiles, ...]) -> Iterator[str]:
        """Yield the missing index files. Changelogs need none."""
        roots = [each.root for each in files if each.root.ref.kind != "changelog"]
        named = {root.snapshot.index_manifest: root for root in roots if root.snapshot.index_manifest is not None}
        for name, content in self._reader.index_manifests(named).items():
            if isinstance(content, Unreadable):
                yield f"{named[name].ref}: {content.problem}"
            else:
                for path in self._absent(self._paths.index_file(entry) for entry in content):
                    yield f"{named[name].ref}: {path}"

    def _about_absent(self, entries: Iterator[ManifestEntry]) -> Entries:
        return tuple(entry for entry in entries if not all(map(self._exists, self._files_of(entry))))

    def _files_of(self, entry: ManifestEntry) -> tuple[str, ...]:
        return (self._paths.data_file(entry), *self._paths.extra_files(entry))

    def _absent(self, paths: Iterable[str]) -> Iterator[str]:
        return (f"{path} does not exist" for path in paths if not self._exists(path))


def _metas(content: object) -> tuple:  # type: ignore[type-arg]
    return content if isinstance(content, tuple) else ()


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
        needs = Needs(MetadataReader(store, again=True), TablePaths(schema), schema, roots)
        problems = tuple(islice(needs.problems(), limit))
        if problems:
            return problems
        unseen = {name_hash(path) for path in needs.paths() if not is_external(path)}
        sizes = {} if wrong is None else {name_hash(path): size for path, size in needs.files() if size is not None}
        for number, entry in enumerate(store.list("") if unseen else ()):
            if number % _PAGE == 0:
                check()
            key = name_hash(entry.key)
            unseen.discard(key)
            if wrong is not None and sizes.get(key, entry.size_bytes) != entry.size_bytes:
                wrong.append(WrongSize(entry.key, sizes[key], entry.size_bytes))
        lost = (
            path
            for path in needs.paths()
            if ((outside is not None and not outside(path)) if is_external(path) else name_hash(path) in unseen)
        )
        return tuple(islice(dict.fromkeys(lost), limit)) if unseen or outside is not None else ()
    except FormatError as error:
        return (str(error),)
