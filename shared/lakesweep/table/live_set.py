"""Every file name that any root refers to, and what of the roots could not be read.

A name counts whatever refers to it: additions and deletions alike, every extra file of every entry, files of
changelogs, index files, statistics, lists and manifests. A reader of changes may still open a file that was deleted
since, and what is counted too much only stays. Names are compared without their folders, since they carry UUIDs and a
computed folder can differ from the real one. Each is kept as a hash of 16 bytes: a clash keeps a file, and takes none.

What a root names and is not there means one of two things. Of a snapshot or tag that should be whole it is damage: the
root may need anything, so nothing that it could need may go. Of others it is normal: expiry takes the lists of a
snapshot that became a changelog, and the changelog list of one that is tagged.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from lakesweep.errors import RefusedError
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.model.roots import BranchListing, Root, RootRef, TableListing
from lakesweep.table.holders import index_names, names_of
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.root_files import plausible_list

Part = Literal["state", "index", "changelog"]
"""What of a root hangs on a list: its data files, its index files, its changelog files."""

Note = Callable[[Iterator[ManifestEntry]], None]
Decode = Callable[[MetadataReader, Iterable[ManifestMeta], Note], Iterable[tuple[str, Unreadable | None]]]
"""Decodes manifests and notes what their entries name, by the function that it is given or by other means; yields the
name of each manifest, and why its content is unknown where it is."""

EarliestOf = Callable[[BranchListing], int | None]
"""Returns what EARLIEST of a branch says, `None` when it says nothing."""


def name_hash(name: str) -> bytes:
    """Return the 16 bytes that stand for a file name."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(slots=True)
class LiveSet:
    """What the roots that were captured refer to. It only grows."""

    names: dict[bytes, bool] = field(default_factory=dict)
    """Hash of a name -> whether a listing has shown a file of that name."""
    captured: dict[str, str] = field(default_factory=dict)
    """Path -> ETag of each root whose names are here."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Path of a root -> why not all that it needs is known."""
    hollow: dict[str, str] = field(default_factory=dict)
    """Path of a root that may be so -> what is not there."""
    manifests: set[str] = field(default_factory=set)
    """Names of the manifests that were read; each is read once, however many roots and branches name it."""
    tagged: set[tuple[str, int]] = field(default_factory=set)
    """Branch and id of each snapshot that some tag is of, or was."""

    def note(self, names: Iterable[str]) -> None:
        """Take names as referred to."""
        names_here = self.names
        for name in names:
            names_here.setdefault(name_hash(name), False)

    def has(self, name: str) -> bool:
        """Tell whether some root refers to a file of this name."""
        return name_hash(name) in self.names

    def saw(self, name: str) -> bool:
        """Note that there is a file of this name, and tell whether some root refers to it."""
        key = name_hash(name)
        if key not in self.names:
            return False
        self.names[key] = True
        return True

    def unseen(self) -> frozenset[bytes]:
        """Return the hashes of names that no listing has shown."""
        return frozenset(key for key, is_seen in self.names.items() if not is_seen)

    def forget(self, gone: Iterable[str]) -> None:
        """Take roots that vanished as not damaged any more. Their names stay."""
        for path in gone:
            self.damaged.pop(path, None)
            self.hollow.pop(path, None)
            self.captured.pop(path, None)


def add_roots(
    live: LiveSet,
    reader: MetadataReader,
    roots: Iterable[Root],
    listing: TableListing,
    earliest: EarliestOf,
    decode: Decode = MetadataReader.scan_manifests,
    *,
    are_new: bool = False,
) -> None:
    """Add all that some roots refer to.

    Args:
        live: Grows.
        reader: Where lists and manifests are read.
        roots: Not captured yet.
        listing: All roots there are, which says how whole each of them has to be.
        earliest: Asked only when something is missing.
        decode: Reads manifests.
        are_new: They have just appeared, so no expiry has left them half done.

    Raises:
        RefusedError: A list or manifest is there and does not parse: what it refers to cannot be known.
        StorageError: A request failed.
    """
    roots = tuple(roots)
    live.tagged |= {(root.ref.branch, root.snapshot.id) for root in roots if root.ref.kind == "tag"}
    _Expansion(live, reader, Wholeness(listing, live.tagged, earliest, are_new=are_new), decode).add(roots)


class Wholeness:
    """Which parts of a root may be missing without damage. Source: Paimon `SnapshotDeletion`, `FileDeletionBase`."""

    def __init__(
        self, listing: TableListing, tagged: Set[tuple[str, int]], earliest: EarliestOf, *, are_new: bool = False
    ) -> None:
        self._are_new = are_new
        self._listing = listing
        self._tagged = tagged
        self._earliest = earliest
        self._runs: dict[str, frozenset[int]] = {}

    def is_strict(self, root: Root, part: Part) -> bool:
        """Tell whether a root is damaged when something of this part is missing."""
        ref = root.ref
        if ref.kind == "changelog":
            return False  # its lists go with its snapshot, or when nobody needs it any more
        if part == "changelog":
            # Expiry takes that of a tagged snapshot; a rollback to the tag, or a branch from it, names it still.
            is_copy = ref.branch != "main" or (ref.branch, root.snapshot.id) in self._tagged
            return ref.kind == "snapshot" and not is_copy and ref.id in self._run(ref.branch)
        return ref.kind == "tag" or self._are_new or ref.id in self._run(ref.branch)

    def _run(self, branch: str) -> frozenset[int]:
        """Return the ids of the snapshots that readers find from EARLIEST on, where it names one of the run."""
        if branch not in self._runs:
            listing = self._listing.branches[branch]
            run = _contiguous(listing.snapshots)
            earliest = self._earliest(listing)
            self._runs[branch] = frozenset(i for i in run if i >= earliest) if earliest in run else run
        return self._runs[branch]


def _contiguous(snapshots: Iterable[RootRef]) -> frozenset[int]:
    """Return the ids that end at the highest without a gap. Those below one were left behind, maybe half expired."""
    ids = sorted((ref.id for ref in snapshots), reverse=True)
    run = list(ids[:1])
    for snapshot_id in ids[1:]:
        if snapshot_id != run[-1] - 1:
            break
        run.append(snapshot_id)
    return frozenset(run)


class _Expansion:
    def __init__(self, live: LiveSet, reader: MetadataReader, wholeness: Wholeness, decode: Decode) -> None:
        self._live = live
        self._reader = reader
        self._wholeness = wholeness
        self._decode = decode
        self._owners: dict[str, list[tuple[Root, Part]]] = {}
        """Manifest -> the roots that name it, and what of them it is about."""

    def add(self, roots: tuple[Root, ...]) -> None:
        lists = self._reader.manifest_lists({name: size for root in roots for name, size, _, _ in _lists_of(root)})
        metas: dict[str, ManifestMeta] = {}
        for root in roots:
            snapshot = root.snapshot
            note = self._live.note
            note(name for name in (snapshot.index_manifest, snapshot.statistics) if name is not None)
            for name, _, rows, part in _lists_of(root):
                note((name,))
                content = plausible_list(name, lists[name], rows)
                if isinstance(content, Unreadable):
                    self._hollow(root, part, content)
                    continue
                owner = root, part  # one object for all manifests of the list: many roots name the same many manifests
                for meta in content:
                    owners = self._owners.setdefault(meta.file_name, [])
                    owners.append(owner)
                    if metas.setdefault(meta.file_name, meta) is not meta or len(owners) == 1:
                        note((meta.file_name, *meta.extra_files))
        self._manifests(metas)
        self._indexes(roots)
        self._live.captured.update({root.ref.path: root.ref.etag for root in roots})

    def _manifests(self, metas: Mapping[str, ManifestMeta]) -> None:
        new = [meta for name, meta in metas.items() if name not in self._live.manifests]
        for name, content in self._decode(self._reader, new, self._note_entries):
            if isinstance(content, Unreadable):
                for root, part in self._owners[name]:
                    self._hollow(root, part, content)
            else:
                self._live.manifests.add(name)

    def _note_entries(self, entries: Iterator[ManifestEntry]) -> None:
        note = self._live.note
        for entry in entries:
            if "$" in entry.file_name or entry.external_path is not None:
                note(names_of(entry))
            else:
                note((entry.file_name, *entry.extra_files))  # the same in less time; there are many

    def _indexes(self, roots: Iterable[Root]) -> None:
        named = {root.snapshot.index_manifest: root for root in roots if root.snapshot.index_manifest is not None}
        for name, content in self._reader.index_manifests(named).items():
            if isinstance(content, Unreadable):
                for root in roots:
                    if root.snapshot.index_manifest == name:
                        self._hollow(root, "index", content)
                continue
            for entry in content:
                self._live.note(index_names(entry))

    def _hollow(self, root: Root, part: Part, content: Unreadable) -> None:
        """Note that something a root names is not there.

        Raises:
            RefusedError: It is there, and cannot be understood.
        """
        path = root.ref.path
        if not content.missing:
            raise RefusedError(
                f"{root.ref}: {content.problem}; what it refers to cannot be known", code="unreadable_root"
            )
        if self._wholeness.is_strict(root, part):
            self._live.damaged.setdefault(path, content.problem)
        else:
            self._live.hollow.setdefault(path, content.problem)


def _lists_of(root: Root) -> Iterator[tuple[str, int | None, int | None, Part]]:
    """Yield name, size and rows, as its document states them, of each list of a root."""
    snapshot = root.snapshot
    total, delta = snapshot.total_record_count, snapshot.delta_record_count
    base_rows = None if total is None or delta is None else total - delta
    yield snapshot.base_manifest_list, snapshot.base_manifest_list_size, base_rows, "state"
    yield snapshot.delta_manifest_list, snapshot.delta_manifest_list_size, delta, "state"
    if snapshot.changelog_manifest_list is not None:
        yield snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size, None, "changelog"
