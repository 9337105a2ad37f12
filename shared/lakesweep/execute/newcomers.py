"""What roots need that appeared since a plan of files was made, without the plan's actions at hand.

A plan of orphans names no file that a root of its time referred to. So all that can need one is a root that came later:
everything that such a root names is kept in mind, as hashes, and the plan's actions are held against that when their
turn comes. A new snapshot names all files of its table; but what stands in a manifest that a root of the plan's time
names as well was known then, and need not be read. What is read is what was written since.
"""

from collections.abc import Iterable

from lakesweep.errors import MaintenanceError
from lakesweep.execute.look import Looker
from lakesweep.model.facts import base_name
from lakesweep.model.plan import Delete
from lakesweep.model.roots import BranchListing, RootRef, TableListing
from lakesweep.table.documents import read_hint, read_roots
from lakesweep.table.live_set import LiveSet, add_roots
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.root_files import read_root_files

NEEDED = "a root that appeared after planning needs it"
MAX_ROUNDS = 12
"""So often are the roots listed at one look, until a listing shows nothing that is not known."""
_TEMP = "temp"


class Newcomers:
    """The roots that appeared, and all that they name. It only grows."""

    def __init__(self, looker: Looker) -> None:
        """Know of none yet.

        Args:
            looker: Knows the roots of the plan's time.
        """
        self._looker = looker
        self._live: LiveSet | None = None

    def look(self) -> None:
        """List the roots, and read those that appeared.

        Raises:
            StalePlanError: The plan must not go on.
            RefusedError: A new root cannot be understood.
            MaintenanceError: The roots do not stand still.
            StorageError: A request failed.
        """
        if self._live is not None:
            # Of these nobody has seen all that they need. What was missing may be there by now, while they are the
            # same to the byte, so they are read again.
            self._doubt([*self._live.damaged, *self._live.hollow])
        for _ in range(MAX_ROUNDS):
            listing, new = self._looker.appeared()
            if self._live is not None:
                # A root that was not whole, and went: its expiry takes its files first.
                self._doubt([path for path in self._live.damaged if path not in self._looker.listed])
            if not new:
                return
            self._add(listing, new)
        raise MaintenanceError(
            f"table {self._looker.store.location}: roots appeared in each of {MAX_ROUNDS} listings; expected two in a "
            "row alike, try again",
            code="roots_keep_changing",
        )

    def _doubt(self, paths: list[str]) -> None:
        """Take roots as not known. The names that they are known to need stay."""
        if self._live is not None:
            self._live.forget(paths)
            self._looker.forget(paths)

    def _add(self, listing: TableListing, new: list[RootRef]) -> None:
        store = self._looker.store
        if self._live is None:
            self._live = LiveSet(manifests=self._known_manifests(listing))
        documents = read_roots(store, new)
        reader = MetadataReader(self._looker.known)
        add_roots(self._live, reader, documents.roots, listing, self._earliest, are_new=True)
        self._looker.account(root.ref for root in documents.roots)

    def _known_manifests(self, listing: TableListing) -> set[str]:
        """Return manifests all of whose names were known when the plan was made.

        Roots of which something was missing then are not asked: what was missing may have come back.
        """
        header = self._looker.header
        broken: set[str] = set()
        for kind in ("damaged_roots", "hollow_roots"):
            found = header.findings.get(kind)
            if not isinstance(found, dict):
                return set()  # nobody knows which roots were whole
            broken |= found.keys()
        old = [ref for ref in listing.roots() if header.roots_seen.get(ref.path) == ref.etag and ref.path not in broken]
        roots = read_roots(self._looker.store, old).roots
        files = read_root_files(MetadataReader(self._looker.known), roots, lambda root: True)
        return {
            meta.file_name
            for each in files.values()
            for content in (each.base, each.delta, each.changelog or ())
            if not isinstance(content, Unreadable)
            for meta in content
        }

    def _earliest(self, branch: BranchListing) -> int | None:
        document = branch.hints.get("snapshot/EARLIEST")
        return None if document is None else read_hint(self._looker.store, document.path)

    @property
    def are_any(self) -> bool:
        """Tell whether a root appeared at all."""
        return self._live is not None

    def needed(self, deletes: Iterable[Delete]) -> dict[str, str]:
        """Return path -> why it stays, of those of `deletes` that a new root needs."""
        live = self._live
        if live is None:
            return {}
        if live.damaged:  # nobody knows what it needs; no root needs a temporary file
            return {delete.path: NEEDED for delete in deletes if delete.kind != _TEMP}
        return {
            delete.path: NEEDED
            for delete in deletes
            if live.has(base_name(delete.path)) or (delete.owner is not None and live.has(delete.owner))
        }
