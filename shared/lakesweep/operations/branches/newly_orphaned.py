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
from lakesweep.model.roots import Root, base_name
from lakesweep.runs.view import TableView
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.named_entries import data_names, index_names, names_of


@dataclass(frozen=True, slots=True)
class NewlyOrphaned:
    """The counted files."""

    files: int
    bytes: int
    """Of the files with a known size."""
    by_kind: Mapping[str, int]
    unknown: tuple[str, ...] = ()
    """Sentences about documents that could not be read; the numbers are then not exact."""

    def warnings(self) -> tuple[str, ...]:
        """Return the sentences for a plan that names the numbers."""
        return tuple(f"the number of newly orphaned files is not known exactly: {each}" for each in self.unknown)

    def to_json(self) -> dict[str, object]:
        """Return the finding `newly_orphaned`."""
        return {"files": self.files, "bytes": self.bytes, "by_kind": dict(self.by_kind)}


class _File(NamedTuple):
    kind: str
    size_bytes: int | None


def find_newly_orphaned(view: TableView, going: Sequence[Root], coming: Sequence[Root] = ()) -> NewlyOrphaned:
    """Return the files that only `going` need, compared with all roots of all branches and with `coming`.

    Args:
        view: The branch to change.
        going: Roots whose documents are deleted.
        coming: Roots whose documents are written.

    Returns:
        No files but the reason, if a remaining root cannot be parsed, since it may name any file.

    Raises:
        StorageError: A request failed.
    """
    if not going:
        return NewlyOrphaned(0, 0, {})
    try:
        others = view.other_documents(root.ref.path for root in going)
    except RefusedError as error:
        return NewlyOrphaned(0, 0, {}, (str(error),))
    holders = Holders(MetadataReader(view.table.store, again=True), [*going, *others.roots, *coming])
    files = _alone(holders, (1 << len(going)) - 1)
    return NewlyOrphaned(
        files=len(files),
        bytes=sum(file.size_bytes or 0 for file in files.values()),
        by_kind=dict(sorted(Counter(file.kind for file in files.values()).items())),
        unknown=tuple(dict.fromkeys(_unknown(holders))),
    )


def _unknown(holders: Holders) -> Iterator[str]:
    """Yield the problems of unreadable documents.

    A missing list is no problem here: lists of changelogs, and the changelog lists of tags, are often missing.
    """
    manifests = dict(holders.manifests())
    for each in holders.unreadable:
        if not each.missing or base_name(each.path) in manifests:
            yield each.problem


def _alone(holders: Holders, going: int) -> dict[str, _File]:
    """Return name -> file, for the files that some root of `going` needs and that no other root names."""
    absent = {gap.content.path for gap in holders.gaps if gap.content.missing}
    found: dict[str, _File] = {}
    for named in holders.named():
        if named.needed_by & going and not named.named_by & ~going and named.path not in absent:
            found[named.name] = _File(named.kind, named.size_bytes)
    alone = {name for name, each in holders.manifests() if not each.named & ~going}
    for entry, _, needed_by, is_change, _ in holders.mentions(among=alone.__contains__):
        if needed_by & going:
            # If a file has several names, the last is its name in the store.
            *_, name = data_names(entry)
            is_known_change = name in found and found[name].kind == "changelog"
            found[name] = _File("changelog" if is_change or is_known_change else "data", entry.file_size)
            found |= {extra: _File("extra", None) for extra in entry.extra_files}
    indexes = tuple(holders.indexes())
    kept = {name for index in indexes if index.named_by & ~going for name in index_names(index.entry)}
    for index in indexes:
        name = base_name(index.entry.external_path or index.entry.file_name)
        if index.needed_by & going and not index.named_by & ~going and name not in kept:
            found[name] = _File("index", index.entry.file_size)

    def named_by_others(entries: Iterator[ManifestEntry]) -> frozenset[str]:
        return frozenset(name for entry in entries for name in names_of(entry) if name in found)

    for _, names in holders.scan(named_by_others, lambda name: name not in alone):
        for name in names:
            found.pop(name, None)
    return found
