"""What the expiring snapshots take with them, before any root that stays has its say.

The rules are the engine's:

- A *data file* leaves the table at the snapshot whose delta deletes it. Dropping the snapshots below `end` frees
  everything that deltas up to and including `end`'s delete. The delta of the first present snapshot was handled by the
  run that made it the first.
- Within one delta the order of entries counts: an ADD after a DELETE of the same path is a move between levels and
  keeps the file. If any manifest of a delta is unreadable, an unseen ADD could revoke a DELETE, so that delta frees
  nothing.
- *Changelog files* of a dropped snapshot go with it, without their extra files.
- *Manifests, lists, index files, statistics* that a dropped snapshot names go.

Source: Paimon `FileDeletionBase`, `SnapshotDeletion`, `ExpireSnapshotsImpl`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.model.facts import Freed, base_name
from lakesweep.model.roots import Root
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.root_files import RootFiles


@dataclass(frozen=True, slots=True)
class FreedFiles:
    """Candidates, and sentences about metadata that frees nothing because it could not be read."""

    files: tuple[Freed, ...]
    warnings: tuple[str, ...]


def find_freed(reader: MetadataReader, paths: TablePaths, expiring: Sequence[RootFiles], end: RootFiles) -> FreedFiles:
    """Find what dropping `expiring` frees.

    Args:
        reader: Where to read manifests.
        paths: The branch's path rules.
        expiring: Snapshots that go, ascending by id, with changelog lists.
        end: The first snapshot that stays.
    """
    collector = _Collector(reader, paths)
    files: dict[str, Freed] = {}
    for found in (
        collector.data_files([*expiring[1:], end]),
        collector.changelog_files(expiring),
        collector.index_files([files.root for files in expiring]),
        collector.metadata_files(expiring),
    ):
        for freed in found:
            files.setdefault(freed.path, freed)
    return FreedFiles(tuple(files.values()), tuple(collector.warnings))


class _Collector:
    def __init__(self, reader: MetadataReader, paths: TablePaths) -> None:
        self._reader = reader
        self._paths = paths
        self.warnings: list[str] = []

    def data_files(self, roots: Sequence[RootFiles]) -> Iterator[Freed]:
        """Yield what the deltas of `roots` delete."""
        wanted = [meta for files in roots for meta in _metas(files.delta)]
        scanned = dict(self._reader.scan_manifests(wanted, tuple, again=True))
        for files in roots:
            entries = self._entries_of(files, scanned)
            if entries is not None:
                yield from self._whole(files.root, self._deleted_by(files.root, entries))

    def _entries_of(
        self, files: RootFiles, scanned: dict[str, tuple[ManifestEntry, ...] | Unreadable]
    ) -> list[ManifestEntry] | None:
        if isinstance(files.delta, Unreadable):
            self._warn(files.root, files.delta)
            return None
        entries: list[ManifestEntry] = []
        for meta in files.delta:
            content = scanned[meta.file_name]
            if isinstance(content, Unreadable):
                self._warn(files.root, content)
                return None
            entries.extend(content)
        return entries

    def _deleted_by(self, root: Root, entries: Iterable[ManifestEntry]) -> Iterator[Freed]:
        deleted: dict[str, ManifestEntry] = {}
        for entry in entries:
            path = self._paths.data_file(entry)
            if entry.is_add:
                deleted.pop(path, None)
            else:
                deleted[path] = entry
        reason = f"left the table at snapshot {root.snapshot.id}"
        for path, entry in deleted.items():
            yield Freed("data", path, entry.file_size, reason, entry.file_name)
            for extra in self._paths.extra_files(entry):
                yield Freed("extra", extra, None, f"belongs to {entry.file_name}, which {reason}", entry.file_name)

    def changelog_files(self, roots: Sequence[RootFiles]) -> Iterator[Freed]:
        """Yield the changelog files of `roots`; an unreadable manifest hides only its own."""
        wanted = [meta for files in roots for meta in _metas(files.changelog)]
        scanned = dict(self._reader.scan_manifests(wanted, tuple, again=True))
        for files in roots:
            if isinstance(files.changelog, Unreadable):
                self._warn(files.root, files.changelog)
            for meta in _metas(files.changelog):
                content = scanned[meta.file_name]
                if isinstance(content, Unreadable):
                    self._warn(files.root, content)
                    continue
                yield from self._whole(files.root, self._added_by(files.root, content))

    def _added_by(self, root: Root, entries: Iterable[ManifestEntry]) -> Iterator[Freed]:
        reason = f"changelog of snapshot {root.snapshot.id}, which expires"
        for entry in entries:
            if entry.is_add:
                path = self._paths.data_file(entry)
                yield Freed("changelog", path, entry.file_size, reason, base_name(path))

    def index_files(self, roots: Sequence[Root]) -> Iterator[Freed]:
        """Yield the index files and index manifests that `roots` name."""
        by_name = {root.snapshot.index_manifest: root for root in roots if root.snapshot.index_manifest is not None}
        for name, content in self._reader.index_manifests(by_name).items():
            root = by_name[name]
            reason = f"index of snapshot {root.snapshot.id}, which expires"
            if isinstance(content, Unreadable):
                self._warn(root, content)
                if not content.missing:
                    continue
            else:
                yield from self._whole(
                    root,
                    (
                        Freed("index", self._paths.index_file(entry), entry.file_size, reason, entry.file_name)
                        for entry in content
                    ),
                )
            yield Freed("index_manifest", self._paths.index_manifest(name), None, reason, name)

    def metadata_files(self, roots: Sequence[RootFiles]) -> Iterator[Freed]:
        """Yield manifests, lists and statistics that `roots` name.

        A damaged list stays where it is: nobody knows what it named. A missing one is named again, which is harmless
        and lets a run that died half-way be finished.
        """
        for files in roots:
            snapshot = files.root.snapshot
            reason = f"named by snapshot {snapshot.id}, which expires"
            for name, size, content in (
                (snapshot.base_manifest_list, snapshot.base_manifest_list_size, files.base),
                (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, files.delta),
                (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size, files.changelog),
            ):
                if name is None or content is None:
                    continue
                if isinstance(content, Unreadable):
                    self._warn(files.root, content)
                    if not content.missing:
                        continue
                for meta in _metas(content):
                    yield Freed(
                        "manifest", self._paths.manifest(meta.file_name), meta.file_size, reason, meta.file_name
                    )
                    for extra in meta.extra_files:
                        yield Freed("manifest", self._paths.manifest(extra), None, reason, meta.file_name)
                yield Freed("manifest_list", self._paths.manifest_list(name), size, reason, name)
            if snapshot.statistics is not None:
                path = self._paths.statistics(snapshot.statistics)
                yield Freed("statistics", path, None, reason, snapshot.statistics)

    def _whole(self, root: Root, found: Iterator[Freed]) -> tuple[Freed, ...]:
        """Return all of `found`, or nothing when one of its files cannot be located."""
        try:
            return tuple(found)
        except FormatError as error:
            self._warn(root, Unreadable(root.ref.path, str(error), missing=False))
            return ()

    def _warn(self, root: Root, unreadable: Unreadable) -> None:
        sentence = f"{root.ref} expires and frees less than it could: {unreadable.problem}"
        if sentence not in self.warnings:
            self.warnings.append(sentence)


def _metas(content: tuple[ManifestMeta, ...] | Unreadable | None) -> tuple[ManifestMeta, ...]:
    return content if isinstance(content, tuple) else ()
