"""Files that readers of some root need, and that are not there.

A listing tells which names it has not shown. Most of those were deleted and only deletions name them still, so the
manifests are asked which root needs what. What is left is asked for one by one: a file may have appeared since its
folder was listed. At last the roots are listed again, since one that is being expired loses its files before itself.

It costs nothing where every name was seen. Else each manifest is read again (twice, where it deletes something, unless
it is kept from the first time), and `MAX_ASKED` requests ask for files at most. Memory: a few hundred bytes for each
unseen name that some manifest deletes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakesweep.errors import MaintenanceError, ObjectNotFoundError, StorageError
from lakesweep.format.index_manifest import IndexEntry
from lakesweep.format.manifest import ManifestEntry
from lakesweep.model.allowed import is_external
from lakesweep.model.facts import base_name
from lakesweep.model.roots import Root, RootRef, TableListing
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.table.capture import Capture, list_in_order
from lakesweep.table.documents import read_schema
from lakesweep.table.holders import Holders, index_names, names_of
from lakesweep.table.live_set import Wholeness, name_hash
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.paths import TablePaths
from lakesweep.table.stores import TableStores

MAX_ASKED = 1000
"""So many files are asked for; of more, it is only told how many there are."""
SHOWN = 20
SHOWN_ROOTS = 5
EXPIRING = (
    "only the oldest snapshots need it: an expiry of another engine may be under way, which deletes files before their "
    "snapshot, so look again in some minutes"
)
_THERE = frozenset({"too_large"})
"""What a read that may load nothing says of a file that is there."""


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A file that is not there."""

    path: str
    needed_by: tuple[str, ...]
    """The roots that need it, in words."""


@dataclass(frozen=True, slots=True)
class Missing:
    """What is missing of a table."""

    files: tuple[MissingFile, ...] = ()
    """Ascending by path."""
    unknown: int = 0
    """Files that no listing showed and that were not asked for, or gave no answer."""
    may_be_expiring: bool = False
    """Only snapshots need the missing files, the oldest and none that is newest: an expiry may be taking them."""

    def to_json(self) -> dict[str, object]:
        """Return the finding `missing`."""
        return {
            "count": len(self.files),
            "first": [
                {"path": file.path, "needed_by": list(file.needed_by[:SHOWN_ROOTS])} for file in self.files[:SHOWN]
            ],
            "unknown": self.unknown,
        }

    def warnings(self, told: Iterable[str] = ()) -> Iterator[str]:
        """Yield a sentence where something is missing.

        Args:
            told: Sentences about roots that are not whole, which name what of them is missing already.
        """
        told = frozenset(told)
        files = [file for file in self.files if f"{file.path} does not exist" not in told]
        if files:
            first = files[0]
            roots = ", ".join(first.needed_by[:SHOWN_ROOTS])
            count = "1 file is" if len(files) == 1 else f"{len(files)} files are"
            expiring = f"; {EXPIRING}" if self.may_be_expiring else ""
            yield f"{count} missing that readers need; the first is {first.path}, which {roots} needs{expiring}"
        if self.unknown:
            yield f"{self.unknown} files that readers need were in no listing, and whether they are there is not known"


def find_missing(
    store: Store,
    found: Capture,
    stores: Callable[[], TableStores] | None = None,
    *,
    max_asked: int = MAX_ASKED,
    unseen: frozenset[bytes] | None = None,
    among: Callable[[str], bool] | None = None,
) -> Missing:
    """Find what readers of a table's roots need and would not find.

    Args:
        store: The table's store.
        found: All roots, after everything below the table and its external roots was listed.
        stores: Makes what resolves paths outside the table; without it those are unknown.
        max_asked: How many files are asked for at most.
        unseen: Hashes of names that no listing showed, where it is not `found.live` that knows.
        among: Tells by name of a manifest whether it may name any of those; else all are asked.

    Raises:
        StorageError: Metadata could not be read.
        RefusedError: The roots cannot be listed any more.
    """
    unseen = found.live.unseen() if unseen is None else unseen
    if not unseen:
        return Missing()
    listing = found.listing
    wholeness = found.wholeness()
    roots = whole_roots(store, found)
    search = _Search(store, found.reader, listing, roots, wholeness, max_asked, among)
    search.run(unseen)
    absent, unknown = _ask(store, search.candidates, stores)
    if not absent:
        return Missing(unknown=unknown + search.beyond)
    there = list_in_order(store).etags()
    files = []
    needing: dict[str, RootRef] = {}
    for path, needed_by in sorted(absent.items()):
        holders = [root.ref for root in search.holders.roots_in(needed_by) if there.get(root.ref.path) == root.ref.etag]
        if holders:
            files.append(MissingFile(path, tuple(map(str, holders))))
            needing |= {ref.path: ref for ref in holders}
    return Missing(tuple(files), unknown + search.beyond, may_be_expiring(listing, needing.values()))


def may_be_expiring(listing: TableListing, refs: Iterable[RootRef]) -> bool:
    """Tell whether an expiry may be taking what these roots lack.

    Expiry takes the files of the oldest snapshots before these themselves, and never those of the newest, nor any that
    a tag or changelog needs.

    Args:
        listing: All roots.
        refs: The roots that lack something.
    """
    refs = tuple(refs)
    of_branch = {ref.branch: listing.branches[ref.branch].snapshots for ref in refs}
    are_older = all(ref.kind == "snapshot" and ref.path != of_branch[ref.branch][-1].path for ref in refs)
    lacking = {ref.path for ref in refs}
    return bool(refs) and are_older and all(snapshots[0].path in lacking for snapshots in of_branch.values())


def whole_roots(store: Store, found: Capture) -> list[Root]:
    """Return the roots that should find all that they need; see `_whole`.

    Raises:
        StorageError: Metadata could not be read.
    """
    return list(_whole(store, found.listing, found.roots, found.wholeness()))


def _whole(store: Store, listing: TableListing, captured: Mapping[str, Root], wholeness: Wholeness) -> Iterator[Root]:
    """Yield the roots that should find all that they need.

    A snapshot below a gap was left behind by an expiry that did not end. A changelog document without a list of its own
    is read by what its commit wrote, but only where the writer makes no changelog files.
    """
    by_delta: dict[str, bool] = {}
    for ref in listing.roots():
        root = captured.get(ref.path)
        if root is None or root.ref.etag != ref.etag:
            continue
        if ref.kind == "changelog":
            if root.snapshot.changelog_manifest_list is None:
                if ref.branch not in by_delta:
                    by_delta[ref.branch] = _makes_no_changelog(store, listing, ref.branch)
                if not by_delta[ref.branch]:
                    continue
            yield root
        elif wholeness.is_strict(root, "state"):
            yield root


def _makes_no_changelog(store: Store, listing: TableListing, branch: str) -> bool:
    own = listing.branches[branch]
    if not own.schemas:
        return False
    try:
        options = read_schema(store, own).options
    except ObjectNotFoundError:
        return False  # it was replaced just now, and with it may go what is known of these documents
    return options.get("changelog-producer", "none").lower() == "none"


@dataclass(slots=True)
class _Search:
    """Collects files that roots need and no listing showed."""

    store: Store
    reader: MetadataReader
    listing: TableListing
    roots: list[Root]
    wholeness: Wholeness
    max_asked: int
    among: Callable[[str], bool] | None = None
    candidates: dict[str, int] = field(default_factory=dict)
    """Path -> the roots that need it."""
    beyond: int = 0
    _paths: dict[str, TablePaths | None] = field(default_factory=dict)
    _holders: Holders | None = None

    @property
    def holders(self) -> Holders:
        """Return what the roots hold."""
        if self._holders is None:
            self._holders = Holders(self.reader, self.roots, self.among)
        return self._holders

    def run(self, unseen: frozenset[bytes]) -> None:
        """Go through all that the roots name."""

        def is_unseen(name: str) -> bool:
            return name_hash(name) in unseen

        may_lack = _may_lack(self.roots, self.wholeness)
        for named in self.holders.named():
            if named.needed_by and named.name not in may_lack and is_unseen(named.name):
                self._add(named.path, named.needed_by)
        for index in self.holders.indexes():
            if index.needed_by:
                self._locate(index.entry, index.needed_by, is_unseen)
        for mention in self.holders.mentions(lambda entry: any(map(is_unseen, names_of(entry)))):
            if mention.needed_by:
                self._locate(mention.entry, mention.needed_by, is_unseen)

    def _locate(self, entry: ManifestEntry | IndexEntry, needed_by: int, is_unseen: Callable[[str], bool]) -> None:
        """Add those files of an entry that were not seen, where the roots' branches say that they lie."""
        names = index_names(entry) if isinstance(entry, IndexEntry) else names_of(entry)
        if not any(map(is_unseen, names)):
            return
        is_located = False
        for branch in dict.fromkeys(root.ref.branch for root in self.holders.roots_in(needed_by)):
            paths = self._paths_of(branch)
            try:
                found = () if paths is None else _files_of(paths, entry)
            except MaintenanceError:
                continue
            is_located = is_located or bool(found)
            for path in found:
                if is_unseen(base_name(path)):
                    self._add(path, needed_by)
        self.beyond += not is_located

    def _add(self, path: str, needed_by: int) -> None:
        if path in self.candidates:
            self.candidates[path] |= needed_by
        elif len(self.candidates) < self.max_asked:
            self.candidates[path] = needed_by
        else:
            self.beyond += 1

    def _paths_of(self, branch: str) -> TablePaths | None:
        if branch not in self._paths:
            own = self.listing.branches[branch]
            own = own if own.schemas else self.listing.branches["main"]
            try:
                self._paths[branch] = TablePaths(read_schema(self.store, own))
            except MaintenanceError:
                self._paths[branch] = None
        return self._paths[branch]


def _may_lack(roots: Iterable[Root], wholeness: Wholeness) -> frozenset[str | None]:
    """Return the names of lists that no root needs for sure (`Wholeness`)."""
    strict: set[str | None] = set()
    lenient: set[str | None] = set()
    for root in roots:
        snapshot = root.snapshot
        if root.ref.kind == "changelog":
            # Readers of one without a list of its own open its delta alone.
            strict |= {snapshot.changelog_manifest_list or snapshot.delta_manifest_list}
            lenient |= {snapshot.base_manifest_list}
        else:
            strict |= {snapshot.base_manifest_list, snapshot.delta_manifest_list}
            (strict if wholeness.is_strict(root, "changelog") else lenient).add(snapshot.changelog_manifest_list)
    return frozenset(lenient - strict)


def _files_of(paths: TablePaths, entry: ManifestEntry | IndexEntry) -> tuple[str, ...]:
    if isinstance(entry, IndexEntry):
        return (paths.index_file(entry),)
    return (paths.data_file(entry), *paths.extra_files(entry))


def _ask(
    store: Store, candidates: Mapping[str, int], stores: Callable[[], TableStores] | None
) -> tuple[dict[str, int], int]:
    """Ask for each file; return those that do not exist, and how many gave no answer."""
    absent: dict[str, int] = {}
    unknown = 0
    inside = [path for path in candidates if not is_external(path)]
    for path, body in read_many(store, inside, max_bytes=0):
        if isinstance(body, ObjectNotFoundError):
            absent[path] = candidates[path]
        elif isinstance(body, StorageError) and body.code not in _THERE:
            unknown += 1
    outside = [path for path in candidates if is_external(path)]
    if not outside or stores is None:
        return absent, unknown + len(outside)
    resolver = stores()
    for path in outside:
        try:
            place, key = resolver.resolve(path)
            place.read(key, max_bytes=0)
        except ObjectNotFoundError:
            absent[path] = candidates[path]
        except MaintenanceError as error:
            unknown += error.code not in _THERE
    return absent, unknown
