"""The files that tags free, before any remaining root is asked.

A tag whose snapshot does not exist any more frees its whole state: every live file and all its metadata except the
changelog list, which was deleted with the snapshot. Other roots still have most of these files, and a tag may hold a
million files. So files that the tag shares with its nearest remaining relative are not even proposed.

Source: Paimon `TagDeletion`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakesweep.errors import FormatError
from lakesweep.format.manifest import Identity, ManifestEntry, ManifestMeta, live_entries
from lakesweep.model.roots import Freed, Root
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.paths import TablePaths
from lakesweep.table.reach.freed import Collector, FreedFiles
from lakesweep.table.reach.root_files import RootFiles


def find_freed_tags(
    reader: MetadataReader, paths: TablePaths, going: Sequence[RootFiles], staying: Sequence[RootFiles]
) -> FreedFiles:
    """Find the files that are freed when tags without a snapshot are dropped.

    If anything of a tag cannot be read, the tag frees nothing at all.

    Args:
        reader: Reads manifests.
        paths: The path rules of the branch.
        going: The tags to delete, with their lists; one tag for each snapshot.
        staying: The remaining roots.
    """
    collector = _TagCollector(reader, paths)
    states = [state for files in going if (state := collector.state_of(files, staying)) is not None]
    asked_again = frozenset(meta.file_name for files in staying for meta in files.manifests())
    found = list(collector.live_files(states, asked_again))
    whole = [files for files, _ in found]
    return collector.collect(
        *(freed for _, freed in found),
        collector.index_files([files.root for files in whole]),
        collector.lists(whole, base_and_delta=True, changelog=False),
        collector.statistics([files.root for files in whole]),
    )


@dataclass(frozen=True, slots=True)
class _TagState:
    """A tag to delete, and its nearest relative: the remaining root that shares most manifests with it."""

    files: RootFiles
    common: frozenset[str]
    """Manifests that the tag and its relative share."""
    later: tuple[ManifestMeta, ...]
    """Manifests that only the relative has."""


class _TagCollector(Collector):
    def state_of(self, files: RootFiles, staying: Sequence[RootFiles]) -> _TagState | None:
        """Return the manifests to read for a tag to delete, `None` if its lists or its index cannot be read."""
        index_manifest = files.root.snapshot.index_manifest
        problem = next(iter(files.unreadable_lists), None)
        if problem is None and index_manifest is not None:
            content = self.reader.index_manifests([index_manifest])[index_manifest]
            problem = content if isinstance(content, Unreadable) else None
        if problem is not None:
            self.warn(files.root, problem)
            return None
        own = {meta.file_name for meta in files.manifests()}
        relatives = [each for each in staying if each.root.ref.kind != "changelog" and not each.unreadable_lists]
        nearest = max(relatives, key=lambda each: sum(m.file_name in own for m in each.manifests()), default=None)
        metas = () if nearest is None else nearest.manifests()
        return _TagState(
            files,
            frozenset(meta.file_name for meta in metas if meta.file_name in own),
            tuple(meta for meta in metas if meta.file_name not in own),
        )

    def live_files(
        self, states: Sequence[_TagState], asked_again: frozenset[str]
    ) -> Iterator[tuple[RootFiles, tuple[Freed, ...]]]:
        """Yield each readable tag with its live files, except for the files that its relative shares.

        A file from a manifest that both name belongs to the relative, too, unless one of the relative's own manifests
        deletes it.

        Args:
            states: The tags.
            asked_again: Manifests of remaining roots. A later step reads these again, to find what the roots need.
        """
        alone = [m for state in states for m in state.files.manifests() if m.file_name not in state.common]
        ours = [meta for meta in alone if meta.file_name not in asked_again]
        shared = [meta for meta in alone if meta.file_name in asked_again]
        scanned = dict(self.reader.scan_manifests(ours, tuple))
        scanned |= self.reader.scan_manifests(shared, tuple, again=True)
        asked = {entry.identity for content in scanned.values() for entry in _entries(content)}
        later = [meta for state in states for meta in state.later if meta.file_name not in scanned]
        for _, content in self.reader.scan_manifests(later, _deleted_identities, again=True):
            asked |= frozenset() if isinstance(content, Unreadable) else content
        common = [m for state in states for m in state.files.manifests() if m.file_name not in scanned]
        scanned |= self.reader.scan_manifests(
            common, lambda entries: tuple(entry for entry in entries if entry.identity in asked), again=True
        )
        for state in states:
            contents = [scanned[meta.file_name] for meta in state.files.manifests()]
            problem = next((content for content in contents if isinstance(content, Unreadable)), None)
            if problem is not None:
                self.warn(state.files.root, problem)
                continue
            found = self._located(state.files.root, live_entries(_entries(content) for content in contents))
            if found is not None:
                yield state.files, found

    def _located(self, tag: Root, entries: Iterable[ManifestEntry]) -> tuple[Freed, ...] | None:
        """Return the files of a tag, `None` if one of them cannot be located."""
        reason = f"held by {tag.ref}, which is deleted"
        found: list[Freed] = []
        try:
            for entry in entries:
                path = self.paths.data_file(entry)
                found.append(Freed("data", path, entry.file_size, reason, entry.file_name))
                for extra in self.paths.extra_files(entry):
                    found.append(Freed("extra", extra, None, reason, entry.file_name))
        except FormatError as error:
            self.warn(tag, Unreadable(tag.ref.path, str(error), missing=False))
            return None
        return tuple(found)


def _entries(content: tuple[ManifestEntry, ...] | Unreadable) -> tuple[ManifestEntry, ...]:
    return () if isinstance(content, Unreadable) else content


def _deleted_identities(entries: Iterator[ManifestEntry]) -> frozenset[Identity]:
    return frozenset(entry.identity for entry in entries if not entry.is_add)
