"""Collect a table's roots until they no longer change. From these roots follows what the table needs.

Writers continue meanwhile. A listing of several pages shows no single moment, and a root may move while it is made: a
snapshot becomes a changelog, a branch becomes main. Three measures answer this. Folders are listed in the order of such
moves, the source before the target. Newer snapshots are looked for after the newest listed one. And Lakesweep lists
again until two listings in a row show nothing new. If a root vanishes before Lakesweep reads it, one more listing
follows.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from lakesweep.errors import ObjectNotFoundError, RefusedError, StalePlanError
from lakesweep.model.roots import BranchListing, Root, RootRef, TableListing, branch_dir
from lakesweep.model.safety import DAMAGE_WAITS_S
from lakesweep.storage.store import Body, Store, StoredObject
from lakesweep.storage.together import both, waits
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_hint, read_roots
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.live_set import Decode, LiveSet, Wholeness, add_roots

SMALL_OBJECTS = 900
"""A table with so many objects has one page, and with more perhaps another one."""
_FOLDERS = ("branch/", "snapshot/", "changelog/", "tag/", "schema/")
MAX_ROUNDS = 12
STABLE_ROUNDS = 2


@dataclass(slots=True)
class Capture:
    """A table's roots, as far as they are known yet."""

    store: Store
    reader: MetadataReader
    sleep: Callable[[float], None]
    live: LiveSet
    highest: dict[str, int]
    """Branch -> the highest snapshot id ever seen."""
    listing: TableListing
    """The last listing."""
    admit: Callable[[TableListing], None]
    """Called with the first listing; refuses a folder that is no table."""
    decode: Decode = MetadataReader.scan_names
    """Decodes manifests."""
    may_be_small: bool = False
    """One page may list the whole table."""
    roots: dict[str, Root] = field(default_factory=dict)
    """Path -> each captured root, without its bytes. Some may be deleted since; `listing` shows which ones exist."""

    def collect(self) -> bool:
        """List all roots once and capture the new ones; return whether there were no new ones.

        Raises:
            RefusedError: The table has no roots at all, or Lakesweep cannot understand a root.
            StorageError: A request failed.
        """
        is_first = not self.listing.branches
        listing = list_small(self.store) if self.may_be_small else None
        if listing is None:
            self.may_be_small, listing = False, list_in_order(self.store)
        self.listing = listing = _with_newer(self.store, listing, self.highest)
        if is_first:
            self.admit(listing)
        refs = list(listing.roots())
        if not refs:
            raise RefusedError(
                f"table {self.store.location}: expected a snapshot, tag or changelog of some branch, found none; "
                "without roots every file would look like an orphan",
                code="no_roots",
            )
        self.live.forget([path for path in self.live.damaged if path not in {ref.path for ref in refs}])
        return self.take(refs)

    def take(self, refs: Iterable[RootRef]) -> bool:
        """Capture those of some listed roots that are new; return whether none was.

        Raises:
            RefusedError: Lakesweep cannot understand a root.
            StorageError: A request failed.
        """
        new = [ref for ref in refs if self.live.captured.get(ref.path) != ref.etag]
        if not new:
            return True
        documents = read_roots(self.store, new)
        add_roots(self.live, self.reader, documents.roots, self.listing, self.store, self.decode)
        self.roots |= {root.ref.path: replace(root, body=b"") for root in documents.roots}
        return False

    def wholeness(self) -> Wholeness:
        """Return the rules for which parts of a root may be missing without damage."""
        return Wholeness(self.store, self.listing, self.live.tagged)

    def until_stable(self) -> None:
        """Collect until two listings in a row show nothing new.

        Raises:
            StalePlanError: The roots keep changing.
        """
        stable = 0
        for _ in range(MAX_ROUNDS):
            stable = stable + 1 if self.collect() else 0
            if stable == STABLE_ROUNDS:
                return
        raise StalePlanError(
            f"table {self.store.location}: its roots changed in each of {MAX_ROUNDS} listings; expected two equal "
            "listings in a row, try again",
            code="roots_keep_changing",
        )


def capture(
    store: Store,
    sleep: Callable[[float], None],
    admit: Callable[[TableListing], None],
    live: LiveSet | None = None,
    decode: Decode = MetadataReader.scan_names,
    *,
    may_be_small: bool = False,
) -> Capture:
    """Capture all roots of a table. Wait a while for damaged roots, since an expiry may be deleting them.

    Args:
        store: The table's store.
        sleep: Waits for the given seconds.
        admit: Called with the first listing, before any root is read; refuses a folder that is no table.
        live: Receives the names; a new set by default.
        decode: Decodes manifests.
        may_be_small: One page may list the whole table. If it does not, it was one request too many.

    Raises:
        RefusedError: There are no roots, or Lakesweep cannot understand one.
        StalePlanError: The roots keep changing.
        StorageError: A request failed.
    """
    reader = MetadataReader(store)
    found = Capture(store, reader, sleep, live or LiveSet(), {}, TableListing({}), admit, decode, may_be_small)
    found.until_stable()
    for wait_s in DAMAGE_WAITS_S:
        if not found.live.damaged:
            break
        sleep(wait_s)
        found.live.forget(list(found.live.damaged))
        found.reader = MetadataReader(store)  # A new reader does not remember that something was missing.
        found.until_stable()
    return found


def list_in_order(store: Store) -> TableListing:
    """List all roots of all branches: branches before main, snapshots before changelogs before tags.

    Raises:
        RefusedError: A symbolic link stands where roots live.
        StorageError: A listing failed.
    """
    # A schema is no root and never moves. It was written before the first snapshot with it, so a listing that shows no
    # new root has every schema that the roots of the listing before need.
    at_once = waits(store)
    roots, schemas = both(lambda: _roots_in_order(store), lambda: list(store.list("schema/")), at_once=at_once)
    return sort_listing(store.location, [*roots, *schemas])


def list_small(store: Store) -> TableListing | None:
    """List all roots of all branches of a table whose objects fit into one page; `None` if they do not fit.

    One page shows no single moment either, and its folders are in another order. So there are two of them, like those
    of the branches: a root that moved while the first was made has its new place in the second.
    """
    entries: dict[str, StoredObject] = {}
    for _ in range(2):
        pages = store.list_range("")
        page = next(pages, ())
        # A page of S3 may have fewer objects than there are keys, since it also has the markers of folders.
        if len(page) > SMALL_OBJECTS or next(pages, None) is not None:
            return None
        entries |= {entry.key: entry for entry in page if entry.key.startswith(_FOLDERS)}
    return sort_listing(store.location, entries.values())


def _roots_in_order(store: Store) -> list[StoredObject]:
    entries: dict[str, StoredObject] = {}
    # By key, the changelogs of a branch come before its snapshots. So Lakesweep lists the branches twice.
    for _ in range(2):
        of_branches = {entry.key: entry for entry in store.list("branch/")}
        entries |= of_branches
        if not of_branches:
            break
    for folder in ("snapshot/", "changelog/", "tag/"):
        entries |= {entry.key: entry for entry in store.list(folder)}
    return list(entries.values())


def _with_newer(store: Store, listing: TableListing, highest: dict[str, int]) -> TableListing:
    """Add the snapshots after the highest one of each branch, which the listing may have missed."""
    branches = {}
    for name, branch in listing.branches.items():
        newer = tuple(_newer(store, branch, highest))
        branches[name] = branch if not newer else _joined(branch, newer)
    return TableListing(branches)


def _joined(branch: BranchListing, newer: tuple[RootRef, ...]) -> BranchListing:
    return replace(branch, snapshots=tuple(sorted((*branch.snapshots, *newer), key=lambda ref: ref.id)))


def _newer(store: Store, branch: BranchListing, highest: dict[str, int]) -> Iterator[RootRef]:
    """Yield the snapshots after the highest snapshot id that was ever seen of a branch."""
    listed = {ref.id for ref in branch.snapshots}
    known = listed | ({highest[branch.name]} if branch.name in highest else set())
    if not known:
        document = branch.hints.get("snapshot/LATEST")
        hint = None if document is None else read_hint(store, document.path)
        if hint is None:
            return
        known = {hint - 1}
    snapshot_id = max(known)
    while (body := _read(store, path := f"{branch_dir(branch.name)}snapshot/snapshot-{snapshot_id + 1}")) is not None:
        snapshot_id += 1
        yield RootRef(branch.name, "snapshot", str(snapshot_id), path, body.etag, len(body.data))
    highest[branch.name] = snapshot_id


def _read(store: Store, path: str) -> Body | None:
    try:
        return store.read(path, MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return None
