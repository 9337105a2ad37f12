"""Every file that the readers of some roots open.

A snapshot or tag needs the files of its state. Here it does not need its changelog. A changelog document needs its
changes: the files of its changelog list or, if the writer makes none, the files that its commit wrote.
"""

from collections.abc import Iterator, Mapping, Sequence

from lakesweep.format.manifest import COMPACT, Identity, ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.format.schema import TableSchema
from lakesweep.model.roots import Root
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.root_files import RootFiles, read_root_files
from lakesweep.table.reach.sizes import stated_size


class Needs:
    """The files of some roots. Each question reads the manifests again."""

    def __init__(self, reader: MetadataReader, paths: TablePaths, schema: TableSchema, roots: Sequence[Root]) -> None:
        self._reader = reader
        self._paths = paths
        self._roots = roots
        self._by_delta = schema.options.get("changelog-producer", "none").lower() == "none"
        files = read_root_files(reader, roots, with_changelog=lambda root: root.ref.kind == "changelog")
        self._files = tuple(files.values())
        self._metas = {meta.file_name: meta for each in self._files for meta in self._manifests(each)}
        self._replayed = frozenset(
            root.ref.path
            for root in roots
            if root.ref.kind == "changelog" and root.snapshot.changelog_manifest_list is None
        )
        """Changelogs whose changes are the files that a commit wrote. Files of compaction are no changes."""
        self._gone: dict[str, frozenset[Identity]] = {}
        """Root -> the entries that its manifests delete."""
        self._unreadable: dict[str, str] = {}
        self._find_deletions()

    def problems(self) -> Iterator[str]:
        """Yield problems that show without a look at data files: lists and manifests, missing or damaged."""
        found: dict[str, None] = {}
        for each in self._files:
            for content in self._needed_lists(each):
                if isinstance(content, Unreadable):
                    found[content.path if content.missing else content.problem] = None
        found.update(dict.fromkeys(self._unreadable.values()))
        for index in self._reader.index_manifests(self._index_names()).values():
            if isinstance(index, Unreadable):
                found[index.path if index.missing else index.problem] = None
        yield from found

    def paths(self) -> Iterator[str]:
        """Yield the path of every file, some several times.

        Lists and manifests are included, since a caching store may still show deleted ones.
        """
        return (path for path, _ in self.files())

    def files(self) -> Iterator[tuple[str, int | None]]:
        """Yield the path of every file as `paths` does, with its size if an entry states it.

        Lists and manifests come without a size, since their sizes were compared when they were read.
        """
        for each in self._files:
            yield from ((path, None) for path in self._documents(each))
        for meta in self._metas.values():
            yield from ((self._paths.manifest(name), None) for name in (meta.file_name, *meta.extra_files))
        for content in self._reader.index_manifests(self._index_names()).values():
            for index in () if isinstance(content, Unreadable) else content:
                yield self._paths.index_file(index), stated_size(index)
        adding = [meta for meta in self._metas.values() if meta.added_count]
        owners = self._owners()
        for name, added in self._reader.scan_manifests(adding, _added):
            for entry in () if isinstance(added, Unreadable) else added:
                if any(self._has(owner, entry) for owner in owners[name]):
                    yield self._paths.data_file(entry), stated_size(entry)
                    yield from ((path, None) for path in self._paths.extra_files(entry))

    def _has(self, path: str, entry: ManifestEntry) -> bool:
        is_rewritten = entry.file_source == COMPACT and path in self._replayed
        return not is_rewritten and entry.identity not in self._gone[path]

    def _find_deletions(self) -> None:
        deleted: dict[str, frozenset[Identity]] = {}
        for name, content in self._reader.scan_manifests(self._metas.values(), _deleted):
            if isinstance(content, Unreadable):
                self._unreadable[name] = content.path if content.missing else content.problem
            else:
                deleted[name] = content
        for each in self._files:
            is_changelog = each.root.ref.kind == "changelog"  # A file counts even if its own commit deleted it again.
            metas = () if is_changelog else self._manifests(each)
            found = (deleted.get(meta.file_name, frozenset()) for meta in metas)
            self._gone[each.root.ref.path] = frozenset[Identity]().union(*found)

    def _owners(self) -> Mapping[str, list[str]]:
        owners: dict[str, list[str]] = {}
        for each in self._files:
            for meta in self._manifests(each):
                owners.setdefault(meta.file_name, []).append(each.root.ref.path)
        return owners

    def _manifests(self, files: RootFiles) -> tuple[ManifestMeta, ...]:
        return tuple(
            meta for content in self._needed_lists(files) if not isinstance(content, Unreadable) for meta in content
        )

    def _needed_lists(self, files: RootFiles) -> tuple[tuple[ManifestMeta, ...] | Unreadable, ...]:
        if files.root.ref.kind != "changelog":
            return files.base, files.delta
        if files.changelog is not None:
            return (files.changelog,)
        return (files.delta,) if self._by_delta else ()  # Otherwise it was deleted with the snapshot: no changes.

    def _documents(self, files: RootFiles) -> Iterator[str]:
        """Yield the files that the root's own document names."""
        snapshot = files.root.snapshot
        if files.root.ref.kind == "changelog":
            if snapshot.changelog_manifest_list is not None:
                yield self._paths.manifest_list(snapshot.changelog_manifest_list)
            elif self._by_delta:
                yield self._paths.manifest_list(snapshot.delta_manifest_list)
            return
        yield self._paths.manifest_list(snapshot.base_manifest_list)
        yield self._paths.manifest_list(snapshot.delta_manifest_list)
        if snapshot.index_manifest is not None:
            yield self._paths.index_manifest(snapshot.index_manifest)
        if snapshot.statistics is not None:
            yield self._paths.statistics(snapshot.statistics)

    def _index_names(self) -> tuple[str, ...]:
        roots = [root for root in self._roots if root.ref.kind != "changelog"]
        return tuple(root.snapshot.index_manifest for root in roots if root.snapshot.index_manifest is not None)


def _added(entries: Iterator[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    return tuple(entry for entry in entries if entry.is_add)


def _deleted(entries: Iterator[ManifestEntry]) -> frozenset[Identity]:
    return frozenset(entry.identity for entry in entries if not entry.is_add)
