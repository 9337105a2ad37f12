"""Which data files do roots need beyond those of one version?

The question behind "what does this tag cost": most roots share most files with the newest snapshot, so only the rest is
kept in memory. Files are told apart by name, which carries a UUID, so that a file that compaction moved up a level
counts once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import Identity, ManifestEntry, live_entries
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.model.roots import Root
from lakesweep.storage.store import Store
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.root_files import RootFiles, read_root_files

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LiveNames:
    """Data files by the roots that need them."""

    names: Mapping[str, frozenset[str]]
    """Path of the root -> names of its data files that the version in question has not."""
    size_bytes: Mapping[str, int]
    """By name."""


class _Changes(NamedTuple):
    """What one manifest does to files that the version in question has not."""

    added: frozenset[Identity]
    deleted: frozenset[Identity]


def live_names_beyond(store: Store, version: Root, roots: Sequence[Root]) -> LiveNames:
    """Return the data files that each of `roots` needs and `version` does not.

    A changelog document needs the files that its own commit added, if it has no changelog list.

    Raises:
        RefusedError: A list or manifest of one of them cannot be read.
        StorageError: A read failed.
    """
    reader = MetadataReader(store)
    lists = read_root_files(reader, [version, *roots], lambda _: False)
    for files in lists.values():
        for unreadable in files.unreadable_lists:
            raise _incomplete(store, unreadable)
    own = _scan(reader, store, lists[version.ref.path].manifests(), tuple)
    known = frozenset(entry.file_name for entry in live_entries(own.values()))
    size_bytes: dict[str, int] = {}

    def changes(entries: Iterator[ManifestEntry]) -> _Changes:
        added: set[Identity] = set()
        deleted: set[Identity] = set()
        for entry in entries:
            if entry.file_name not in known:
                (added if entry.is_add else deleted).add(entry.identity)
                size_bytes[entry.file_name] = entry.file_size
        return _Changes(frozenset(added), frozenset(deleted))

    wanted = {meta.file_name: meta for root in roots for meta in _manifests_of(lists[root.ref.path])}
    by_manifest = _scan(reader, store, wanted.values(), changes)
    names = {root.ref.path: _live(lists[root.ref.path], by_manifest) for root in roots}
    return LiveNames(names, size_bytes)


def _scan(
    reader: MetadataReader,
    store: Store,
    metas: Iterable[ManifestMeta],
    reduce: Callable[[Iterator[ManifestEntry]], T],
) -> dict[str, T]:
    found = {}
    for name, content in reader.scan_manifests(metas, reduce):
        if isinstance(content, Unreadable):
            raise _incomplete(store, content)
        found[name] = content
    return found


def _manifests_of(files: RootFiles) -> tuple[ManifestMeta, ...]:
    if files.root.ref.kind == "changelog" and not isinstance(files.delta, Unreadable):
        return files.delta
    return files.manifests()


def _live(files: RootFiles, by_manifest: Mapping[str, _Changes]) -> frozenset[str]:
    changes = [by_manifest[meta.file_name] for meta in _manifests_of(files)]
    added = frozenset[Identity]().union(*(change.added for change in changes))
    deleted = frozenset[Identity]().union(*(change.deleted for change in changes))
    # Of an identity the fourth part is the file's name.
    return frozenset(identity[3] for identity in (added if files.root.ref.kind == "changelog" else added - deleted))


def _incomplete(store: Store, unreadable: Unreadable) -> RefusedError:
    return RefusedError(
        f"table {store.location}: what its roots pin cannot be told: {unreadable.problem}", code="unreadable_root"
    )
