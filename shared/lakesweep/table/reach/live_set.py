"""Every file name that any root refers to, and the parts of roots that could not be read.

Every reference counts: additions and deletions alike, every extra file of every entry, files of changelogs, index
files, statistics, lists and manifests. A reader of changes may still open a file that was deleted since, and a name too
much only keeps a file. Names are compared without their folders: they contain UUIDs, and a computed folder may differ
from the real one. Each name is stored as a hash of 16 bytes: a collision keeps a file, and never deletes one.

A file that a root names may be missing for two reasons. For a snapshot or tag that must be complete, this is damage:
the root may need anything, so no file that it could need may be deleted. For other roots it is normal. Expiry deletes
the lists of a snapshot that became a changelog, and the changelog list of a tagged snapshot.
"""

from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from hashlib import blake2b

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import EntryNames, ManifestEntry, ManifestMeta
from lakesweep.model.roots import Part, Root, RootRef, TableListing
from lakesweep.storage.store import Store
from lakesweep.table.documents import read_hint
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.held import Unread
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.named_entries import index_names, names_of

Note = Callable[[Iterator[ManifestEntry] | Iterator[EntryNames]], None]
Decode = Callable[[MetadataReader, Iterable[ManifestMeta], Note], Iterable[tuple[str, Unreadable | None]]]
"""Decodes manifests and notes the names in their entries, with the given function or by other means. Yields the name
of each manifest; with it the reason if its content is unknown."""


_EMPTY = blake2b(digest_size=16)


def name_hash(name: str) -> bytes:
    """Return the 16 bytes that stand for a file name."""
    state = _EMPTY.copy()  # Copying takes half as long as creating.
    state.update(name.encode("utf-8", "surrogatepass"))
    return state.digest()


@dataclass(slots=True)
class LiveSet:
    """The references of all captured roots. It only grows."""

    names: dict[bytes, bool] = field(default_factory=dict)
    """Hash of a name -> whether a listing has shown a file of that name."""
    captured: dict[str, str] = field(default_factory=dict)
    """Path -> ETag of each root whose names are in the set."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Path of a damaged root -> why some of its needs are unknown."""
    incomplete: dict[str, str] = field(default_factory=dict)
    """Path of a root that may be incomplete -> the missing part."""
    manifests: set[str] = field(default_factory=set)
    """Names of the manifests that were read. Each is read once, however many roots and branches name it."""
    tagged: set[tuple[str, int]] = field(default_factory=set)
    """Branch and id of each snapshot that has, or had, a tag."""

    def note(self, names: Iterable[str]) -> None:
        """Add names that a root refers to."""
        note, empty = self.names.setdefault, _EMPTY
        for name in names:  # There are many; calling `name_hash` would take a third longer.
            state = empty.copy()
            state.update(name.encode("utf-8", "surrogatepass"))
            note(state.digest(), False)

    def has(self, name: str) -> bool:
        """Tell whether a root refers to a file of this name."""
        return name_hash(name) in self.names

    def saw(self, name: str) -> bool:
        """Note that a file of this name exists, and tell whether a root refers to it."""
        key = name_hash(name)
        if key not in self.names:
            return False
        self.names[key] = True
        return True

    def unseen(self) -> frozenset[bytes]:
        """Return the hashes of the names that no listing has shown."""
        return frozenset(key for key, is_seen in self.names.items() if not is_seen)

    def forget(self, gone: Iterable[str]) -> None:
        """Remove vanished roots from the damaged ones. Their names remain."""
        for path in gone:
            self.damaged.pop(path, None)
            self.incomplete.pop(path, None)
            self.captured.pop(path, None)

    def judge(self, gaps: Iterable[Unread], wholeness: "Wholeness") -> None:
        """Note the roots that lack a file.

        Raises:
            RefusedError: The file exists, but cannot be understood.
        """
        for root, part, content in gaps:
            if not content.missing:
                raise RefusedError(
                    f"{root.ref}: {content.problem}; so it is unknown which files it refers to", code="unreadable_root"
                )
            found = self.damaged if wholeness.is_strict(root, part) else self.incomplete
            found.setdefault(root.ref.path, content.problem)


class Wholeness:
    """The rules for parts of a root that may be missing without damage.

    Source: Paimon `SnapshotDeletion`, `FileDeletionBase`.
    """

    def __init__(
        self, store: Store, listing: TableListing, tagged: Set[tuple[str, int]], *, are_new: bool = False
    ) -> None:
        """Take what decides.

        Args:
            store: Asked for EARLIEST of a branch, if one of its snapshots lacks something.
            listing: All existing roots.
            tagged: Branch and id of each snapshot that has, or had, a tag.
            are_new: The roots have just appeared, so no expiry has left them half deleted.
        """
        self._store = store
        self._are_new = are_new
        self._listing = listing
        self._tagged = tagged
        self._runs: dict[str, frozenset[int]] = {}

    def is_strict(self, root: Root, part: Part) -> bool:
        """Tell whether a root is damaged if a file of this part is missing."""
        ref = root.ref
        if ref.kind == "changelog":
            return False  # Its lists are deleted with its snapshot, or when nobody needs them any more.
        if part == "changelog":
            # Expiry deletes the changelog list of a tagged snapshot. A rollback to the tag, or a branch from it, still
            # names the list.
            is_copy = ref.branch != "main" or (ref.branch, root.snapshot.id) in self._tagged
            return ref.kind == "snapshot" and not is_copy and ref.id in self._run(ref.branch)
        return ref.kind == "tag" or self._are_new or ref.id in self._run(ref.branch)

    def _run(self, branch: str) -> frozenset[int]:
        """Return the ids of the newest snapshots without a gap: from EARLIEST on, if it names one of them."""
        if branch not in self._runs:
            listing = self._listing.branches[branch]
            run = _contiguous(listing.snapshots)
            hint = listing.hints.get("snapshot/EARLIEST")
            earliest = None if hint is None else read_hint(self._store, hint.path)
            self._runs[branch] = frozenset(i for i in run if i >= earliest) if earliest in run else run
        return self._runs[branch]


def _contiguous(snapshots: Iterable[RootRef]) -> frozenset[int]:
    """Return the highest id and those right below it, down to the first missing id.

    An expiry may have left lower ids half deleted.
    """
    ids = sorted((ref.id for ref in snapshots), reverse=True)
    run = list(ids[:1])
    for snapshot_id in ids[1:]:
        if snapshot_id != run[-1] - 1:
            break
        run.append(snapshot_id)
    return frozenset(run)


def add_roots(
    live: LiveSet,
    reader: MetadataReader,
    roots: Iterable[Root],
    listing: TableListing,
    store: Store,
    decode: Decode = MetadataReader.scan_names,
    *,
    are_new: bool = False,
) -> None:
    """Add everything that some roots refer to.

    Args:
        live: The set that grows.
        reader: Reads lists and manifests.
        roots: Roots that are not captured yet.
        listing: All existing roots; it determines how complete each root has to be.
        store: Asked for a hint if something is missing.
        decode: Decodes manifests.
        are_new: The roots have just appeared, so no expiry has left them half deleted.

    Raises:
        RefusedError: A list or manifest exists but cannot be parsed, so its references are unknown.
        StorageError: A request failed.
    """
    roots = tuple(roots)
    live.tagged |= {(root.ref.branch, root.snapshot.id) for root in roots if root.ref.kind == "tag"}
    wholeness = Wholeness(store, listing, live.tagged, are_new=are_new)

    def note_entries(entries: Iterator[ManifestEntry] | Iterator[EntryNames]) -> None:
        live.note(_names_in(entries))

    holders = Holders(reader, roots)
    live.judge(holders.gaps, wholeness)
    live.note(named.name for named in holders.named())
    new = {name: each for name, each in holders.manifests() if name not in live.manifests}
    for name, content in decode(reader, [each.meta for each in new.values()], note_entries):
        if not isinstance(content, Unreadable):
            live.manifests.add(name)
            continue
        holders.note_unreadable(new[name], content)
        if not content.missing:
            live.judge(holders.gaps, wholeness)
    for index in holders.indexes():
        live.note(index_names(index.entry))
    live.judge(holders.gaps, wholeness)
    live.captured.update({root.ref.path: root.ref.etag for root in roots})


def _names_in(entries: Iterator[ManifestEntry] | Iterator[EntryNames]) -> Iterator[str]:
    for entry in entries:
        if "$" in entry.file_name or entry.external_path is not None:
            yield from names_of(entry)
            continue
        yield entry.file_name  # The same names in less time; there are many entries.
        if entry.extra_files:
            yield from entry.extra_files
