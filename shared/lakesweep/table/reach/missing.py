"""Find files that readers of some root need, and that do not exist.

A listing shows which names have no file. Most of these files were deleted, and only deletions still name them. So the
manifests tell which root needs which file. For each file that a root needs, Lakesweep sends one request, since the file
may have appeared after its folder was listed. At the end it lists the roots again, since an expiry deletes the files of
a root before the root itself.

If every name was seen, this takes no request. Otherwise each manifest is read again (twice if it deletes files and is
not cached), and at most `MAX_ASKED` requests ask for files. Memory: a few hundred bytes for each unseen name that some
manifest deletes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lakesweep.errors import MaintenanceError, ObjectNotFoundError, StorageError
from lakesweep.format.manifest import IndexEntry, ManifestEntry
from lakesweep.model.paths.allowed import is_external
from lakesweep.model.roots import Root, RootRef, TableListing, base_name
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.table.documents import read_schema
from lakesweep.table.paths import PathsOfRoots
from lakesweep.table.reach.capture import Capture, list_in_order
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import Wholeness, name_hash
from lakesweep.table.reach.named_entries import index_names, names_of
from lakesweep.table.reach.root_files import lists_of
from lakesweep.table.stores import TableStores

MAX_ASKED = 1000
"""At most this many files are asked for; the rest is only counted."""
SHOWN = 20
SHOWN_ROOTS = 5
EXPIRING = (
    "only the oldest snapshots need it: an expiry by Paimon, which deletes files before their snapshot, may be under "
    "way; check again in some minutes"
)
_THERE = frozenset({"too_large"})
"""Error codes of a read with a limit of zero bytes that show that the file exists."""


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A file that does not exist."""

    path: str
    needed_by: tuple[str, ...]
    """The roots that need it, in words."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The missing files of a table."""

    files: tuple[MissingFile, ...] = ()
    """Ascending by path."""
    unknown: int = 0
    """Files without an answer: no listing showed them, and they were not asked for or the request failed."""
    may_be_expiring: bool = False
    """Only old snapshots need the missing files, among them the oldest: an expiry may be deleting them now."""

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
        """Yield warnings about missing files.

        Args:
            told: Sentences about incomplete roots that already name some of the files.
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
            yield f"no listing showed {self.unknown} files that readers need, and it is not known whether they exist"


def find_missing(
    store: Store,
    found: Capture,
    stores: Callable[[], TableStores] | None = None,
    *,
    max_asked: int = MAX_ASKED,
    unseen: frozenset[bytes] | None = None,
    among: Callable[[str], bool] | None = None,
) -> Missing:
    """Find the files that readers of a table's roots need and would not find.

    Args:
        store: The table's store.
        found: All roots, after everything below the table and its external roots was listed.
        stores: Builds the resolver for paths outside the table; without it, files outside count as unknown.
        max_asked: At most this many files are asked for.
        unseen: Hashes of names that no listing showed, unless `found.live` knows them.
        among: Tells by the name of a manifest whether it may name one of these files; by default all are read.

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
    search = _Search(PathsOfRoots(store, listing), Holders(found.reader, roots), max_asked)
    search.run(unseen, _may_lack(roots, wholeness), among)
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
    """Tell whether an expiry may be deleting the files that these roots lack.

    Paimon's expiry deletes the files of the oldest snapshots before the snapshots. It never deletes files that the
    newest snapshot, a tag or a changelog needs.

    Args:
        listing: All roots.
        refs: The roots that lack a file.
    """
    refs = tuple(refs)
    of_branch = {ref.branch: listing.branches[ref.branch].snapshots for ref in refs}
    are_older = all(ref.kind == "snapshot" and ref.path != of_branch[ref.branch][-1].path for ref in refs)
    lacking = {ref.path for ref in refs}
    return bool(refs) and are_older and all(snapshots[0].path in lacking for snapshots in of_branch.values())


def whole_roots(store: Store, found: Capture) -> list[Root]:
    """Return the roots that should find all their files; see `_whole`.

    Raises:
        StorageError: Metadata could not be read.
    """
    return list(_whole(store, found.listing, found.roots, found.wholeness()))


def _whole(store: Store, listing: TableListing, captured: Mapping[str, Root], wholeness: Wholeness) -> Iterator[Root]:
    """Yield the roots that should find all their files.

    An unfinished expiry left the snapshots below a gap, so these are not among them. A changelog document without its
    own list is read by the files that its commit wrote, but only if the writer makes no changelog files.
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
        return False  # The schema was replaced just now, so nothing certain is known about these documents.
    return options.get("changelog-producer", "none").lower() == "none"


@dataclass(slots=True)
class _Search:
    """Collects files that roots need and that no listing showed."""

    paths: PathsOfRoots
    holders: Holders
    max_asked: int
    candidates: dict[str, int] = field(default_factory=dict)
    """Path -> the roots that need it."""
    beyond: int = 0

    def run(self, unseen: frozenset[bytes], may_lack: frozenset[str], among: Callable[[str], bool] | None) -> None:
        """Search all names of the roots."""

        def is_unseen(name: str) -> bool:
            return name_hash(name) in unseen

        for named in self.holders.named():
            if named.needed_by and named.name not in may_lack and is_unseen(named.name):
                self._add(named.path, named.needed_by)
        for index in self.holders.indexes():
            if index.needed_by:
                self._locate(index.entry, index.needed_by, is_unseen)
        for mention in self.holders.mentions(lambda entry: any(map(is_unseen, names_of(entry))), among):
            if mention.needed_by:
                self._locate(mention.entry, mention.needed_by, is_unseen)

    def _locate(self, entry: ManifestEntry | IndexEntry, needed_by: int, is_unseen: Callable[[str], bool]) -> None:
        """Add the unseen files of an entry, at the paths that the roots' branches determine."""
        names = index_names(entry) if isinstance(entry, IndexEntry) else names_of(entry)
        if not any(map(is_unseen, names)):
            return
        is_located = False
        for branch in {root.ref.branch: None for root in self.holders.roots_in(needed_by)}:
            try:
                found = self.paths.of_branch(branch).files(entry)
            except MaintenanceError:
                continue
            is_located = True
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


def _may_lack(roots: Iterable[Root], wholeness: Wholeness) -> frozenset[str]:
    """Return the names of lists that may be missing from every root that names them (`Wholeness`)."""
    strict: set[str] = set()
    lenient: set[str] = set()
    for root in roots:
        for each in lists_of(root):
            # Without its own list, readers of a changelog open its delta alone.
            is_strict = each.is_needed and each.field != "base"
            if root.ref.kind != "changelog":
                is_strict = each.part == "state" or wholeness.is_strict(root, each.part)
            (strict if is_strict else lenient).add(each.name)
    return frozenset(lenient - strict)


def _ask(
    store: Store, candidates: Mapping[str, int], stores: Callable[[], TableStores] | None
) -> tuple[dict[str, int], int]:
    """Ask for each file; return the missing ones, and the number of files without an answer."""
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
