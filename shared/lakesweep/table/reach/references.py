"""Find which of some files the remaining roots still need.

This is the one check between a plan and a lost file. It asks every root of every branch, by name. It runs twice: for a
plan, over all remaining roots; and before every batch of deletions, over roots that have appeared since.

A changelog document needs the files that a reader of changes opens. These are its changelog list with manifests and
files. If the writer produces none, they are the lists and manifests of its snapshot, and the files that its delta added
(without files that a compaction rewrote). It does not need index files and statistics, and expiry does not keep them
for it.

Unreadable parts are reported as unknown, by kind of file. An unreadable manifest hides data files; an unreadable list
also hides manifests; an unreadable index manifest hides index files. Two cases are no damage. The changelog list of a
tag, or of a copy of its snapshot, may be missing: expiry deletes it, and they still name it. And the lists of a bare
changelog (`RootFiles.is_bare`) may be missing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from lakesweep.format.manifest import COMPACT, ManifestEntry, ManifestMeta
from lakesweep.model.roots import DATA_KINDS, MAIN, FileKind, Freed, Gap, Part, References, Root, base_name
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import real_name
from lakesweep.table.reach.root_files import RootFiles

Entries = tuple[ManifestEntry, ...]


def find_references(
    reader: MetadataReader,
    roots: Iterable[RootFiles],
    freed: Iterable[Freed],
    branch: str,
) -> References:
    """Find which of `freed` the given roots need.

    Args:
        reader: Where to read.
        roots: The remaining roots, with their lists (also changelog lists if `freed` has changelog files).
        freed: The files in question.
        branch: The branch that is maintained; roots of other branches keep files as `branch`.

    Returns:
        For each needed name the reason, and for each kind of file the roots that could not be read.
    """
    return _Search(reader, tuple(freed), branch).run(tuple(roots))


class _Search:
    def __init__(
        self,
        reader: MetadataReader,
        freed: tuple[Freed, ...],
        branch: str,
    ) -> None:
        self._reader = reader
        self._branch = branch
        self._data_names = frozenset(f.name for f in freed if f.kind in DATA_KINDS)
        self._index_names = frozenset(f.name for f in freed if f.kind == "index")
        self._other_names = frozenset(f.name for f in freed if f.kind not in DATA_KINDS and f.kind != "index")
        self._names: dict[str, str] = {}
        self._unknown: dict[FileKind, list[str]] = defaultdict(list)
        self._unreadable: set[str] = set()
        self._gaps: list[Gap] = []
        self._tagged: set[tuple[str, int]] = set()

    def run(self, roots: tuple[RootFiles, ...]) -> References:
        self._tagged = {
            (files.root.ref.branch, files.root.snapshot.id) for files in roots if files.root.ref.kind == "tag"
        }
        self._documents_and_lists(roots)
        if self._index_names:
            self._index_files(roots)
        if self._data_names:
            self._data_files(roots)
        return References(
            names=self._names,
            unknown={kind: tuple(sentences) for kind, sentences in self._unknown.items()},
            unreadable_roots=frozenset(self._unreadable),
            gaps=tuple(self._gaps),
        )

    def _keep(self, root: Root, names: Iterable[str], wanted: frozenset[str]) -> None:
        for name in names:
            if name in wanted:
                self._names.setdefault(name, self._why(root))

    def _why(self, root: Root) -> str:
        if root.ref.branch != self._branch:
            return "branch"
        return {"snapshot": "live", "tag": "tagged", "changelog": "changelog"}[root.ref.kind]

    def _hidden(self, root: Root, unreadable: Unreadable, *kinds: FileKind) -> None:
        self._unreadable.add(root.ref.path)
        part: Part = "index" if "index" in kinds else "state" if "data" in kinds else "changelog"
        self._gaps.append(Gap(root, part, unreadable.problem, unreadable.missing))
        for kind in kinds:
            self._unknown[kind].append(f"{root.ref} cannot be read completely: {unreadable.problem}")

    def _documents_and_lists(self, roots: tuple[RootFiles, ...]) -> None:
        for files in roots:
            snapshot = files.root.snapshot
            is_changelog = files.root.ref.kind == "changelog"
            named: list[str | None] = []
            if not (is_changelog and snapshot.changelog_manifest_list is not None):
                named += [snapshot.base_manifest_list, snapshot.delta_manifest_list]
            if files.root.ref.kind != "tag":
                named.append(snapshot.changelog_manifest_list)
            if not is_changelog:
                named += [snapshot.index_manifest, snapshot.statistics]
            self._keep(files.root, [name for name in named if name is not None], self._other_names)
            for content in (files.base, files.delta):
                if isinstance(content, Unreadable):
                    if not files.is_bare:
                        self._hidden(files.root, content, "manifest", "data", "extra", "changelog")
                else:
                    self._manifests(files.root, content)
            if isinstance(files.changelog, Unreadable):
                if not (files.changelog.missing and self._may_lack_changelog(files.root)):
                    self._hidden(files.root, files.changelog, "manifest", "changelog")
            elif files.changelog is not None and files.root.ref.kind != "tag":
                self._manifests(files.root, files.changelog)

    def _manifests(self, root: Root, metas: tuple[ManifestMeta, ...]) -> None:
        for meta in metas:
            self._keep(root, (meta.file_name, *meta.extra_files), self._other_names)

    def _may_lack_changelog(self, root: Root) -> bool:
        """Tell whether the changelog list may be missing without damage.

        Expiry deletes the changelog list of a tagged snapshot. A branch, and a table after a rollback to a tag, begin
        with a copy of such a snapshot.
        """
        return root.ref.kind == "tag" or root.ref.branch != MAIN or (root.ref.branch, root.snapshot.id) in self._tagged

    def _index_files(self, roots: tuple[RootFiles, ...]) -> None:
        named: dict[str, list[Root]] = defaultdict(list)
        for files in roots:
            if files.root.snapshot.index_manifest is not None and files.root.ref.kind != "changelog":
                named[files.root.snapshot.index_manifest].append(files.root)
        for name, content in self._reader.index_manifests(named).items():
            for root in named[name]:
                if not isinstance(content, Unreadable):
                    for entry in content:
                        self._keep(root, (entry.file_name, *_outside(entry.external_path)), self._index_names)
                else:
                    self._hidden(root, content, "index")

    def _data_files(self, roots: tuple[RootFiles, ...]) -> None:
        """Merge, for each root, only the entries of its manifests that name the files in question."""
        metas = {meta.file_name: meta for files in roots for meta in _manifests_of(files)}
        found = dict(self._reader.scan_manifests(metas.values(), self._entries_in_question))
        for files in roots:
            self._merge(files, found)

    def _entries_in_question(self, entries: Iterator[ManifestEntry]) -> Entries:
        wanted = self._data_names
        return tuple(
            entry
            for entry in entries
            if entry.file_name in wanted
            or real_name(entry.file_name) in wanted
            or (entry.external_path is not None and _name_outside(entry.external_path) in wanted)
            or any(extra in wanted for extra in entry.extra_files)
        )

    def _merge(self, files: RootFiles, found: dict[str, Entries | Unreadable]) -> None:
        root = files.root
        added: list[ManifestEntry] = []
        gone: set[object] = set()
        for meta in _state_manifests(files):
            content = found[meta.file_name]
            if isinstance(content, Unreadable):
                self._hidden(root, content, "data", "extra", "changelog")
                continue
            for entry in content:
                if entry.is_add:
                    added.append(entry)
                else:
                    gone.add(entry.identity)
        if root.ref.kind == "changelog":
            # A reader of changes replays the delta, so its additions count even if it deleted them again.
            live = [entry for entry in added if entry.file_source != COMPACT]
        else:
            live = [entry for entry in added if entry.identity not in gone]
        if root.ref.kind != "tag":
            live += self._changelog_entries(files, found)
        for entry in live:
            self._keep(root, _names_of(entry), self._data_names)

    def _changelog_entries(self, files: RootFiles, found: dict[str, Entries | Unreadable]) -> Iterator[ManifestEntry]:
        for meta in files.changelog if isinstance(files.changelog, tuple) else ():
            content = found[meta.file_name]
            if isinstance(content, Unreadable):
                self._hidden(files.root, content, "changelog")
            else:
                yield from (entry for entry in content if entry.is_add)


def _names_of(entry: ManifestEntry) -> tuple[str, ...]:
    outside = _outside(entry.external_path)
    return (entry.file_name, real_name(entry.file_name), *outside, *entry.extra_files)


def _outside(external_path: str | None) -> tuple[str, ...]:
    return () if external_path is None else (_name_outside(external_path),)


def _name_outside(external_path: str) -> str:
    """Return the name by which a file outside the table is deleted. Its path says the name, not its entry."""
    return real_name(base_name(external_path))


def _state_manifests(files: RootFiles) -> tuple[ManifestMeta, ...]:
    """Return the manifests whose entries make up a root's data files; for a changelog, only those of its delta."""
    if files.root.ref.kind != "changelog":
        return files.manifests()
    return files.delta if isinstance(files.delta, tuple) else ()


def _manifests_of(files: RootFiles) -> Iterator[ManifestMeta]:
    yield from _state_manifests(files)
    if files.root.ref.kind != "tag" and isinstance(files.changelog, tuple):
        yield from files.changelog
