"""Newly orphaned files: files that no root names once some roots are deleted, so that the orphan scan will find them.

A file counts if readers of a deleted root open it and no remaining root names it for any purpose. An orphan scan
follows the same rule. This is a forecast for people. Lakesweep deletes nothing by it, so unreadable documents are
reported and stop nothing.

Manifests that only deleted roots name are read for their additions. The other manifests are read until no candidate is
left. Memory grows with the files that only the former add.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.model.facts import base_name
from lakesweep.model.roots import Root
from lakesweep.runs.view import Draft
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.holders import Holders, data_names, index_names, names_of


@dataclass(frozen=True, slots=True)
class Stranded:
    """The counted files."""

    files: int
    bytes: int
    """Of the files with a known size."""
    by_kind: Mapping[str, int]
    unknown: tuple[str, ...] = ()
    """Sentences about documents that could not be read; the numbers are then not exact."""

    def to_json(self) -> dict[str, object]:
        """Return the finding `stranded`."""
        return {"files": self.files, "bytes": self.bytes, "by_kind": dict(self.by_kind)}


class _File(NamedTuple):
    kind: str
    size_bytes: int | None


def find_stranded(draft: Draft, going: Sequence[Root], coming: Sequence[Root] = ()) -> Stranded:
    """Return the files that only `going` need, compared with all roots of all branches and with `coming`.

    Args:
        draft: The branch to change.
        going: Roots whose documents are deleted.
        coming: Roots whose documents are written.

    Returns:
        No files but the reason, if a remaining root cannot be parsed, since it may name any file.

    Raises:
        StorageError: A request failed.
    """
    if not going:
        return Stranded(0, 0, {})
    try:
        others = draft.other_documents(root.ref.path for root in going)
    except RefusedError as error:
        return Stranded(0, 0, {}, (str(error),))
    search = _Search(MetadataReader(draft.table.store, again=True), going, (*others.roots, *coming))
    files = search.run()
    return Stranded(
        files=len(files),
        bytes=sum(file.size_bytes or 0 for file in files.values()),
        by_kind=dict(sorted(Counter(file.kind for file in files.values()).items())),
        unknown=tuple(dict.fromkeys(search.unknown)),
    )


class _Search:
    def __init__(self, reader: MetadataReader, going: Sequence[Root], staying: Sequence[Root]) -> None:
        self._reader = reader
        self._asked: set[str] = set()
        self._holders = Holders(reader, [*going, *staying], among=self._asked.__contains__)
        self._going = (1 << len(going)) - 1
        self._sizes = {name: size for root in going for name, size in _list_sizes(root)}
        self._metas: dict[str, ManifestMeta] = {}
        self._changes: set[str] = set()
        """Manifests of changelog lists."""
        self._absent: set[str] = set()
        """Lists that no longer exist."""
        self.unknown: list[str] = []
        self._note_lists([*going, *staying])

    def run(self) -> dict[str, _File]:
        """Return name -> file."""
        found = dict(self._named())
        alone = {name for name, each in self._holders.manifests() if not each.named & ~self._going}
        self._asked |= alone
        found |= self._data(alone)
        found |= self._indexes()
        self._drop(found, [meta for name, meta in self._metas.items() if name not in alone])
        return found

    def _note_lists(self, roots: Sequence[Root]) -> None:
        """Note the manifests of every list, and the unreadable lists. The reader has already read the lists.

        A missing list is no problem here: lists of changelogs, and the changelog lists of tags, are often missing.
        """
        changelogs = {root.snapshot.changelog_manifest_list for root in roots}
        names = {name: size for root in roots for name, size in _list_sizes(root)}
        for name, content in self._reader.manifest_lists(names).items():
            if isinstance(content, Unreadable):
                if content.missing:
                    self._absent.add(name)
                else:
                    self.unknown.append(content.problem)
                continue
            for meta in content:
                self._metas[meta.file_name] = meta
                if name in changelogs:
                    self._changes.add(meta.file_name)
                for each in (meta.file_name, *meta.extra_files):
                    self._sizes.setdefault(each, meta.file_size if each == meta.file_name else None)

    def _named(self) -> Iterator[tuple[str, _File]]:
        """Yield lists, manifests, index manifests and statistics."""
        for each in self._holders.named():
            is_alone = each.needed_by & self._going and not each.named_by & ~self._going
            if is_alone and each.name not in self._absent:
                yield each.name, _File(each.kind, self._sizes.get(each.name))

    def _data(self, alone: set[str]) -> dict[str, _File]:
        changes = self._changelog_files(alone)
        found: dict[str, _File] = {}
        for entry, _, needed_by in self._holders.mentions():
            if not needed_by & self._going:
                continue
            kind = "changelog" if entry.file_name in changes else "data"
            # If a file has several names, the last is its name in the store.
            found[tuple(data_names(entry))[-1]] = _File(kind, entry.file_size)
            found |= {name: _File("extra", None) for name in entry.extra_files}
        return found

    def _changelog_files(self, alone: set[str]) -> frozenset[str]:
        """Return the names of changelog files, and note the manifests that cannot be read."""
        found: set[str] = set()
        for name, content in self._reader.scan_manifests([self._metas[each] for each in alone], _file_names):
            if isinstance(content, Unreadable):
                self.unknown.append(content.problem)
            elif name in self._changes:
                found |= content
        return frozenset(found)

    def _indexes(self) -> dict[str, _File]:
        found: dict[str, _File] = {}
        kept: set[str] = set()
        for entry, named_by, needed_by in self._holders.indexes():
            if named_by & ~self._going:
                kept.update(index_names(entry))
            elif needed_by & self._going:
                found[base_name(entry.external_path or entry.file_name)] = _File("index", entry.file_size)
        return {name: file for name, file in found.items() if name not in kept}

    def _drop(self, found: dict[str, _File], others: Sequence[ManifestMeta]) -> None:
        """Drop files that the manifest of a remaining root names."""

        def named(entries: Iterator[ManifestEntry]) -> frozenset[str]:
            return frozenset(name for entry in entries for name in names_of(entry) if name in found)

        for _, content in self._reader.scan_manifests(others, named):
            if isinstance(content, Unreadable):
                self.unknown.append(content.problem)
            else:
                for name in content:
                    found.pop(name, None)


def _file_names(entries: Iterator[ManifestEntry]) -> frozenset[str]:
    return frozenset(entry.file_name for entry in entries)


def _list_sizes(root: Root) -> Iterator[tuple[str, int | None]]:
    snapshot = root.snapshot
    yield snapshot.base_manifest_list, snapshot.base_manifest_list_size
    yield snapshot.delta_manifest_list, snapshot.delta_manifest_list_size
    if snapshot.changelog_manifest_list is not None:
        yield snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size
