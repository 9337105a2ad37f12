"""Recheck the roots right before deleting.

A plan was made from the roots of one moment. Since then a writer may have committed, somebody may have tagged an
expiring snapshot, made a branch, reset a consumer, or begun a rollback. A recheck lists all roots again. It returns
what must now be kept as well. If the table changed in a way that the plan does not allow, it reports the plan as stale.

Roots that vanish below the plan's end are normal: this run removes them.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from lakesweep.errors import StalePlanError
from lakesweep.model.plan import Delete, PlanHeader
from lakesweep.model.roots import (
    BranchListing,
    FileKind,
    Freed,
    References,
    Root,
    RootRef,
    TableListing,
    base_name,
    branch_dir,
)
from lakesweep.model.safety import SETTLE_MS
from lakesweep.storage.store import Store
from lakesweep.table.discover import ROOT_FOLDERS, discover
from lakesweep.table.documents import latest_hint_of, read_consumers, read_roots
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.references import find_references
from lakesweep.table.reach.root_files import read_root_files

_POLL_MS = 500
_MAX_POLLS = 10 * SETTLE_MS // _POLL_MS
NO_REFERENCES = References()


@dataclass(slots=True)
class RootRecheck:
    """Compares a table's roots with the roots that a plan was made from."""

    store: Store
    header: PlanHeader
    known: Store
    """The same store, possibly with a cache of lists and manifests."""
    sleep: Callable[[float], None] = time.sleep
    clear: frozenset[str] = frozenset()
    """Manifests that name no file of the plan: the scan that produced the plan has read them."""
    seen: dict[str, str] = field(default_factory=dict)
    """Path -> ETag of every known root: the run knows what it needs."""
    written: frozenset[str] = frozenset()
    """Paths of the changelogs that the plan writes. The plan deletes nothing that they need."""
    saw_latest: bool = False
    """LATEST existed when the plan was made, or at some recheck. If it is gone now, no rollback removed it: a rollback
    writes LATEST first."""
    listed: frozenset[str] = frozenset()
    """Paths of the roots that the last recheck found. Before the first recheck: of the roots in the plan."""
    etags: Mapping[str, str] = field(default_factory=dict)
    """Path -> ETag of the roots and consumers that the last recheck found."""
    _consumers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seen = {path: etag for path, etag in self.header.roots_seen.items() if path not in self.written}
        self.listed = frozenset(self.header.roots_seen)
        self.saw_latest = f"{branch_dir(self.header.branch)}snapshot/LATEST" in self.header.roots_seen

    def forget(self, paths: Iterable[str]) -> None:
        """Forget roots that this plan has removed: a root that comes back needs its files again."""
        for path in paths:
            self.seen.pop(path, None)

    def trust(self, present: Iterable[str]) -> None:
        """Keep only the roots that are present among the known ones: any other root that returns counts as new."""
        there = frozenset(present)
        self.seen = {path: etag for path, etag in self.seen.items() if path in there}

    def look(self, pending: Sequence[Delete]) -> References:
        """Return what roots that appeared since the last recheck need of `pending`.

        Raises:
            StalePlanError: The plan must stop.
            StorageError: A listing or a read failed.
            RefusedError: A new root cannot be read.
        """
        _, new = self.appeared()
        if not new:
            return NO_REFERENCES
        may_vanish = self.header.end_id is None  # then the plan does not say which snapshots are kept
        gone: set[str] = set()
        references = references_of(
            self.store, self.known, new, pending, self.header.branch, self.clear, may_vanish, gone
        )
        self.account(ref for ref in new if ref.path not in gone)
        return references

    def appeared(self) -> tuple[TableListing, list[RootRef]]:
        """List all roots; return the listing and the roots that are not yet known.

        Raises:
            StalePlanError: The plan must stop.
            StorageError: A listing or a read failed.
        """
        listing = self._settled_listing()
        own = listing.branches.get(self.header.branch) or BranchListing(self.header.branch)
        self.etags = listing.etags() | {ref.path: ref.etag for ref in own.consumers}
        self.listed = frozenset(ref.path for ref in listing.roots())
        self._check_snapshots(own)
        self._check_latest(own)
        self._check_consumers(own)
        new = [ref for ref in listing.roots() if self.seen.get(ref.path) != ref.etag and ref.path not in self.written]
        return listing, new

    def account(self, refs: Iterable[RootRef]) -> None:
        """Mark roots as known: the run knows what they need."""
        self.seen.update({ref.path: ref.etag for ref in refs})

    def _settled_listing(self) -> TableListing:
        still, hint = 0, ""
        for _ in range(_MAX_POLLS):
            listing = discover(self.store, ROOT_FOLDERS)
            own = listing.branches.get(self.header.branch)
            self.saw_latest = self.saw_latest or (own is not None and "snapshot/LATEST" in own.hints)
            if own is None or not own.snapshots:
                if self.header.snapshots.get("latest") is None:
                    return listing  # the branch had none before
                raise self._stale("all its snapshots vanished")
            if not hint_lags(self.store, own):
                return listing
            # The time of LATEST may lie in the future, by another clock. Then only the run's own waiting helps.
            etag = own.hints["snapshot/LATEST"].etag
            still, hint = (still + 1 if etag == hint else 0), etag
            if still > SETTLE_MS // _POLL_MS:
                return listing
            self.sleep(_POLL_MS / 1000)
        raise self._stale("LATEST keeps changing and never names the newest snapshot")

    def _check_snapshots(self, own: BranchListing) -> None:
        end_id = self.header.end_id
        for ref in (*own.snapshots, *own.changelogs):
            if self.seen.get(ref.path, ref.etag) != ref.etag:
                raise self._stale(f"{ref.path} is another document than when the plan was made")
        latest_seen = self.header.snapshots.get("latest")
        present = {ref.id for ref in own.snapshots}
        if end_id is None:
            # The plan does not say which snapshots are kept, so older ones may expire. A lower newest id means a
            # rollback.
            has_gone_back = isinstance(latest_seen, int) and max(present, default=-1) < latest_seen
        else:
            has_gone_back = isinstance(latest_seen, int) and latest_seen not in present and latest_seen >= end_id
        if has_gone_back:
            raise self._stale(f"snapshot {latest_seen}, the newest when the plan was made, vanished")

    def _check_latest(self, own: BranchListing) -> None:
        """Make sure that LATEST does not start to name an expiring snapshot: readers would look for that snapshot.

        If LATEST named such a snapshot when the plan was made, the plan itself corrects it. If it was written since, a
        rollback wrote it, and the plan must stop.
        """
        document, end_id = own.hints.get("snapshot/LATEST"), self.header.end_id
        if document is None or end_id is None or document.etag == self.header.roots_seen.get(document.path):
            return
        hint = latest_hint_of(self.store, own)
        if hint is not None and hint < end_id - 1:
            raise self._stale(f"LATEST now names snapshot {hint}, which the plan deletes")

    def _check_consumers(self, own: BranchListing) -> None:
        if self.header.end_id is None or not self.header.waits_for_consumers:
            return
        changed = [ref for ref in own.consumers if self._consumers.get(ref.path) != ref.etag]
        for name, next_id in read_consumers(self.store, changed).items():
            if next_id < self.header.end_id:
                raise self._stale(f"consumer {name} needs snapshot {next_id}; the plan ends at {self.header.end_id}")
        self._consumers.update({ref.path: ref.etag for ref in changed})

    def _stale(self, what: str) -> StalePlanError:
        return stale(self.header, what)


def stale(header: PlanHeader, what: str, code: str | None = None) -> StalePlanError:
    """Return the error for a plan whose table has changed."""
    return StalePlanError(
        f"table {header.table}, branch {header.branch}: {what}; expected the table as plan {header.plan_id} saw it",
        code=code,
    )


def hint_lags(store: Store, branch: BranchListing) -> bool:
    """Tell whether LATEST names a snapshot below the newest, as at the beginning of a rollback.

    Its target may even be a snapshot that this run has just removed. A hint that is older than `SETTLE_MS` is merely
    behind, and is not read.
    """
    document = branch.hints.get("snapshot/LATEST")
    if document is None or store.now_ms() - document.modified_ms >= SETTLE_MS:
        return False
    hint = latest_hint_of(store, branch)
    return hint is not None and hint < branch.snapshots[-1].id


def references_of(
    store: Store,
    known: Store,
    refs: Sequence[RootRef],
    pending: Sequence[Delete],
    branch: str,
    clear: frozenset[str] = frozenset(),
    may_vanish: bool = False,
    gone: set[str] | None = None,
) -> References:
    """Return what the roots `refs` need of `pending`.

    A root that vanishes between listing and reading needs nothing.

    Args:
        store: Where the documents of the roots are read.
        known: Where their lists and manifests are read.
        refs: Roots of any branch.
        pending: The deletions that are still to come.
        branch: The maintained branch.
        clear: Manifests that name nothing of `pending`.
        may_vanish: Snapshots of the maintained branch may vanish meanwhile, as snapshots of other branches may.
        gone: Receives the paths of roots that vanished: their needs, if they came back, are not known.

    Raises:
        StalePlanError: A snapshot of the maintained branch vanished.
    """
    documents = read_roots(store, refs)
    for ref in documents.vanished:
        if ref.kind == "snapshot" and ref.branch == branch and not may_vanish:
            raise StalePlanError(f"table {store.location}: {ref.path} vanished while it was read; expected it to stay")
    if gone is not None:
        gone.update(ref.path for ref in documents.vanished)
    return references_among(known, documents.roots, pending, branch, clear)


def references_among(
    known: Store, roots: Iterable[Root], pending: Sequence[Delete], branch: str, clear: frozenset[str] = frozenset()
) -> References:
    """Return what some roots need of `pending`; see `references_of`."""
    freed = [_as_freed(delete) for delete in pending if delete.kind in get_args(FileKind)]
    reader = MetadataReader(known, clear)
    # Manifests and lists to delete may belong to changelogs, whether or not a changelog file is deleted as well.
    wants_changelog = any(file.kind in ("changelog", "manifest", "manifest_list") for file in freed)
    files = read_root_files(reader, roots, lambda root: wants_changelog and root.ref.kind != "tag")
    return find_references(reader, files.values(), freed, branch)


def _as_freed(delete: Delete) -> Freed:
    kind: FileKind = delete.kind  # type: ignore[assignment]
    return Freed(kind, delete.path, delete.size_bytes, delete.reason, delete.owner or base_name(delete.path))
