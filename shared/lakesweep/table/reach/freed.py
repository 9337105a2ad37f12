"""The files that expiring snapshots free, before any remaining root is asked.

The rules are Paimon's:

- A *data file* leaves the table at the snapshot whose delta deletes it. Dropping the snapshots below `end` frees
  all files that the deltas up to `end` (inclusive) delete. The delta of the first existing snapshot was handled
  by the run that made this snapshot the first.
- Within one delta the order of entries counts: an ADD after a DELETE of the same path is a move between levels and
  keeps the file. If any manifest of a delta is unreadable, an unseen ADD could revoke a DELETE. So this delta frees
  nothing.
- *Changelog files* of a dropped snapshot are deleted with it, without their extra files.
- *Manifests, lists, index files, statistics* that a dropped snapshot names are deleted.

If changelogs outlive snapshots (`Lifecycle`), a dropped snapshot becomes a changelog document. The document keeps the
files that readers of changes need, and frees them when it expires itself.

`freed_tags` finds the files of tags.

Source: Paimon `FileDeletionBase`, `SnapshotDeletion`, `ChangelogDeletion`, `ExpireSnapshotsImpl`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from lakesweep.errors import FormatError
from lakesweep.format.manifest import COMPACT, ManifestEntry, ManifestMeta
from lakesweep.model.roots import Freed, Root, base_name
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.root_files import RootFiles


class Lifecycle(Enum):
    """How long the changes of a snapshot can be read."""

    COUPLED = "coupled"
    """As long as the snapshot exists."""
    BY_CHANGELOG = "by_changelog"
    """Longer; the writer produces changelog files, which hold the changes."""
    BY_DELTA = "by_delta"
    """Longer; there are no changelog files, so the files that a commit appended hold the changes."""


@dataclass(frozen=True, slots=True)
class FreedFiles:
    """Candidates for deletion, and sentences about unreadable metadata that therefore frees nothing."""

    files: tuple[Freed, ...]
    warnings: tuple[str, ...]


def find_freed(
    reader: MetadataReader,
    paths: TablePaths,
    expiring: Sequence[RootFiles],
    end: RootFiles,
    lifecycle: Lifecycle = Lifecycle.COUPLED,
) -> FreedFiles:
    """Find the files that are freed when `expiring` are dropped.

    Args:
        reader: Reads manifests.
        paths: The path rules of the branch.
        expiring: Snapshots to delete, ascending by id, with changelog lists.
        end: The first snapshot to keep.
        lifecycle: Decides what their changelog documents still need.
    """
    collector = Collector(reader, paths)
    coupled, by_delta = lifecycle is Lifecycle.COUPLED, lifecycle is Lifecycle.BY_DELTA
    return collector.collect(
        collector.data_files([*expiring[1:], end], keep_appended=by_delta),
        collector.changelog_files(expiring) if coupled else (),
        collector.index_files([files.root for files in expiring]),
        () if by_delta else collector.lists(expiring, base_and_delta=True, changelog=coupled),
        collector.statistics([files.root for files in expiring]),
    )


def find_freed_changelogs(reader: MetadataReader, paths: TablePaths, expiring: Sequence[RootFiles]) -> FreedFiles:
    """Find the files that are freed when changelog documents are dropped.

    A changelog with its own list frees the files of the list, and the list. A changelog without a list frees the files
    that its own delta deletes: each was added, hence needed as a change, no later than here. A changelog whose lists
    were deleted with its snapshot frees nothing.
    """
    collector = Collector(reader, paths)
    own = [files for files in expiring if files.root.snapshot.changelog_manifest_list is not None]
    by_delta = [
        files for files in expiring if files.root.snapshot.changelog_manifest_list is None and not files.is_bare
    ]
    return collector.collect(
        collector.data_files(by_delta, keep_appended=False),
        collector.changelog_files(own),
        collector.lists(own, base_and_delta=False, changelog=True),
        collector.lists(by_delta, base_and_delta=True, changelog=False),
    )


class Collector:
    """Collects freed files from the lists and manifests of roots."""

    def __init__(self, reader: MetadataReader, paths: TablePaths) -> None:
        self.reader = reader
        self.paths = paths
        self.warnings: list[str] = []

    def collect(self, *found: Iterable[Freed]) -> FreedFiles:
        """Return all freed files, each path once."""
        files: dict[str, Freed] = {}
        for part in found:
            for freed in part:
                files.setdefault(freed.path, freed)
        return FreedFiles(tuple(files.values()), tuple(self.warnings))

    def data_files(self, roots: Sequence[RootFiles], *, keep_appended: bool) -> Iterator[Freed]:
        """Yield the files that the deltas of `roots` delete.

        Args:
            roots: Snapshots or changelogs, ascending by id.
            keep_appended: Leave out files that a commit wrote, since they are changes that readers may still use.
        """
        wanted = [meta for files in roots for meta in _metas(files.delta)]
        scanned = dict(self.reader.scan_manifests(wanted, tuple, again=True))
        for files in roots:
            entries = self._entries_of(files, scanned)
            if entries is not None:
                yield from self._whole(files.root, self._deleted_by(files.root, entries, keep_appended))

    def _entries_of(
        self, files: RootFiles, scanned: dict[str, tuple[ManifestEntry, ...] | Unreadable]
    ) -> list[ManifestEntry] | None:
        if isinstance(files.delta, Unreadable):
            self.warn(files.root, files.delta)
            return None
        entries: list[ManifestEntry] = []
        for meta in files.delta:
            content = scanned[meta.file_name]
            if isinstance(content, Unreadable):
                self.warn(files.root, content)
                return None
            entries.extend(content)
        return entries

    def _deleted_by(self, root: Root, entries: Iterable[ManifestEntry], keep_appended: bool) -> Iterator[Freed]:
        deleted: dict[str, ManifestEntry] = {}
        for entry in entries:
            path = self.paths.data_file(entry)
            if entry.is_add:
                deleted.pop(path, None)
            else:
                deleted[path] = entry
        reason = f"left the table at snapshot {root.snapshot.id}"
        for path, entry in deleted.items():
            if keep_appended and entry.file_source != COMPACT:
                continue
            yield Freed("data", path, entry.file_size, reason, entry.file_name)
            for extra in self.paths.extra_files(entry):
                yield Freed("extra", extra, None, f"belongs to {entry.file_name}, which {reason}", entry.file_name)

    def changelog_files(self, roots: Sequence[RootFiles]) -> Iterator[Freed]:
        """Yield the changelog files of `roots`; an unreadable manifest hides only its own files."""
        wanted = [meta for files in roots for meta in _metas(files.changelog)]
        scanned = dict(self.reader.scan_manifests(wanted, tuple, again=True))
        for files in roots:
            if isinstance(files.changelog, Unreadable):
                self.warn(files.root, files.changelog)
            for meta in _metas(files.changelog):
                content = scanned[meta.file_name]
                if isinstance(content, Unreadable):
                    self.warn(files.root, content)
                    continue
                yield from self._whole(files.root, self._added_by(files.root, content))

    def _added_by(self, root: Root, entries: Iterable[ManifestEntry]) -> Iterator[Freed]:
        reason = f"changelog of snapshot {root.snapshot.id}, which expires"
        for entry in entries:
            if entry.is_add:
                path = self.paths.data_file(entry)
                yield Freed("changelog", path, entry.file_size, reason, base_name(path))

    def index_files(self, roots: Sequence[Root]) -> Iterator[Freed]:
        """Yield the index files and index manifests that `roots` name."""
        by_name = {root.snapshot.index_manifest: root for root in roots if root.snapshot.index_manifest is not None}
        for name, content in self.reader.index_manifests(by_name).items():
            root = by_name[name]
            reason = f"index of {_going(root)}"
            if isinstance(content, Unreadable):
                self.warn(root, content)
                if not content.missing:
                    continue
            else:
                yield from self._whole(
                    root,
                    (
                        Freed("index", self.paths.index_file(entry), entry.file_size, reason, entry.file_name)
                        for entry in content
                    ),
                )
            yield Freed("index_manifest", self.paths.index_manifest(name), None, reason, name)

    def lists(self, roots: Sequence[RootFiles], *, base_and_delta: bool, changelog: bool) -> Iterator[Freed]:
        """Yield manifest lists that `roots` name, and the manifests in them.

        A damaged list is kept, since nobody knows what it named. A missing list is proposed again. This is harmless,
        and lets the next run finish a run that died half-way.
        """
        for files in roots:
            snapshot = files.root.snapshot
            reason = f"named by {_going(files.root)}"
            for wanted, name, size, content in (
                (base_and_delta, snapshot.base_manifest_list, snapshot.base_manifest_list_size, files.base),
                (base_and_delta, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, files.delta),
                (changelog, snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size, files.changelog),
            ):
                if not wanted or name is None or content is None:
                    continue
                if isinstance(content, Unreadable):
                    self.warn(files.root, content)
                    if not content.missing:
                        continue
                for meta in _metas(content):
                    yield Freed("manifest", self.paths.manifest(meta.file_name), meta.file_size, reason, meta.file_name)
                    for extra in meta.extra_files:
                        yield Freed("manifest", self.paths.manifest(extra), None, reason, meta.file_name)
                yield Freed("manifest_list", self.paths.manifest_list(name), size, reason, name)

    def statistics(self, roots: Sequence[Root]) -> Iterator[Freed]:
        """Yield the statistics files that `roots` name."""
        for root in roots:
            name = root.snapshot.statistics
            if name is not None:
                reason = f"statistics of {_going(root)}"
                yield Freed("statistics", self.paths.statistics(name), None, reason, name)

    def _whole(self, root: Root, found: Iterator[Freed]) -> tuple[Freed, ...]:
        """Return all of `found`, or nothing if one of the files cannot be located."""
        try:
            return tuple(found)
        except FormatError as error:
            self.warn(root, Unreadable(root.ref.path, str(error), missing=False))
            return ()

    def warn(self, root: Root, unreadable: Unreadable) -> None:
        """Note that something of a root cannot be read."""
        what = "is deleted and frees nothing" if root.ref.kind == "tag" else "expires and frees less than it could"
        sentence = f"{root.ref} {what}: {unreadable.problem}"
        if sentence not in self.warnings:
            self.warnings.append(sentence)


def _metas(content: tuple[ManifestMeta, ...] | Unreadable | None) -> tuple[ManifestMeta, ...]:
    return content if isinstance(content, tuple) else ()


def _going(root: Root) -> str:
    if root.ref.kind == "tag":
        return f"{root.ref}, which is deleted"
    return f"snapshot {root.snapshot.id}, which expires"
