"""What new roots need of a plan of files, determined without holding the plan's actions in memory.

A plan of orphans names no file that a root of its time referred to. So only a root that appeared later can need one.
Lakesweep remembers every name that such a root refers to, as hashes. It compares the plan's actions with these names
when they are about to be deleted.

A new snapshot names all files of its table. But a manifest that a root of the plan's time names as well was known at
planning, and need not be read again. Lakesweep reads only the manifests that were written since.
"""

from collections.abc import Callable, Iterable, Iterator

from lakesweep.errors import MaintenanceError
from lakesweep.execute.present import STILL_NEEDED, WantedSet, refuse_live_files
from lakesweep.execute.recheck import RootRecheck
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.model.facts import base_name
from lakesweep.model.plan import Delete
from lakesweep.model.roots import RootRef, TableListing
from lakesweep.table.discover import ROOT_FOLDERS, discover
from lakesweep.table.documents import read_roots
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.live_set import LiveSet, add_roots
from lakesweep.table.reach.root_files import read_root_files

NEEDED = "a root that appeared after planning needs it"
MAX_ROUNDS = 12
"""One recheck lists the roots this many times at most, until a listing shows no new root."""
_TEMP = "temp"


class NewRoots:
    """The new roots, and all names that they refer to. The set of names only grows."""

    def __init__(self, recheck: RootRecheck) -> None:
        """Begin without new roots.

        Args:
            recheck: Knows the roots of the plan's time.
        """
        self._recheck = recheck
        self._live: LiveSet | None = None
        self._why = NEEDED

    def ask_all(
        self,
        deletions: Callable[[], Iterable[Delete]],
        still_ours: Callable[[], None],
        *,
        has_begun: bool,
    ) -> None:
        """Ask every present root what it needs of a plan that this call did not make; see `present.py`.

        Args:
            deletions: Yields what the plan deletes.
            still_ours: Called after each manifest; raises when the run must stop.
            has_begun: An earlier run has begun the plan, so it must be finished.

        Raises:
            StalePlanError: The plan must not be carried out: `names_live_files`.
            RefusedError: A root cannot be understood.
            StorageError: A request failed.
        """
        recheck = self._recheck
        self._live = live = WantedSet.of(_heard(deletions(), still_ours))
        self._why = STILL_NEEDED
        listing = discover(recheck.store, ROOT_FOLDERS)
        documents = read_roots(recheck.store, list(listing.roots()))
        seen = recheck.header.roots_seen
        old = [root for root in documents.roots if seen.get(root.ref.path) == root.ref.etag]

        def decode(
            reader: MetadataReader,
            metas: Iterable[ManifestMeta],
            take: Callable[[Iterator[ManifestEntry]], None],
        ) -> Iterator[tuple[str, Unreadable | None]]:
            for found in reader.scan_manifests(metas, take):
                still_ours()
                yield found

        add_roots(live, MetadataReader(recheck.known), old, listing, recheck.store, decode)
        if live.names and not has_begun:
            refuse_live_files(recheck.header, deletions(), self._is_needed)
        # Incomplete roots of the plan's time are as they were then. The next recheck asks the roots that appeared
        # since.
        live.incomplete.clear()
        recheck.trust(root.ref.path for root in old)

    def look(self) -> None:
        """List the roots, and read the new ones.

        Raises:
            StalePlanError: The plan must stop.
            RefusedError: A new root cannot be understood.
            MaintenanceError: The roots kept changing.
            StorageError: A request failed.
        """
        if self._live is not None:
            # Not everything that these roots need is known yet. A file that was missing may exist by now while the root
            # itself is unchanged to the byte, so they are read again.
            self._doubt([*self._live.damaged, *self._live.incomplete])
        for _ in range(MAX_ROUNDS):
            listing, new = self._recheck.appeared()
            if self._live is not None:
                # A damaged root that vanished: its expiry deletes its files first.
                self._doubt([path for path in self._live.damaged if path not in self._recheck.listed])
            if not new:
                return
            self._add(listing, new)
        raise MaintenanceError(
            f"table {self._recheck.store.location}: new roots appeared in each of {MAX_ROUNDS} listings; expected a "
            "listing without new roots. Try again",
            code="roots_keep_changing",
        )

    def _doubt(self, paths: list[str]) -> None:
        """Treat roots as unknown again. Their names that are already known are kept."""
        if self._live is not None:
            self._live.forget(paths)
            self._recheck.forget(paths)

    def _add(self, listing: TableListing, new: list[RootRef]) -> None:
        store = self._recheck.store
        if self._live is None:
            self._live = LiveSet(manifests=self._known_manifests(listing))
        documents = read_roots(store, new)
        reader = MetadataReader(self._recheck.known)
        add_roots(self._live, reader, documents.roots, listing, store, are_new=True)
        self._recheck.account(root.ref for root in documents.roots)

    def _known_manifests(self, listing: TableListing) -> set[str]:
        """Return the manifests whose names were all known when the plan was made.

        Roots that were incomplete then are left out: a missing file may have come back.
        """
        header = self._recheck.header
        broken = header.steering.incomplete_roots
        if broken is None:
            return set()  # it is not known which roots were complete
        old = [ref for ref in listing.roots() if header.roots_seen.get(ref.path) == ref.etag and ref.path not in broken]
        roots = read_roots(self._recheck.store, old).roots
        files = read_root_files(MetadataReader(self._recheck.known), roots, lambda root: True)
        return {
            meta.file_name
            for each in files.values()
            for content in (each.base, each.delta, each.changelog or ())
            if not isinstance(content, Unreadable)
            for meta in content
        }

    @property
    def are_any(self) -> bool:
        """Tell whether a root appeared, or any root needs a file of the plan."""
        return self._live is not None and bool(self._live.names or self._live.damaged)

    def needed(self, deletes: Iterable[Delete]) -> dict[str, str]:
        """Return path -> reason for each of `deletes` that must be kept because a root needs it."""
        live = self._live
        if live is None:
            return {}
        if live.damaged:  # its needs are not known; no root needs a temporary file
            return {delete.path: self._why for delete in deletes if delete.kind != _TEMP}
        return {delete.path: self._why for delete in deletes if self._is_needed(delete)}

    def _is_needed(self, delete: Delete) -> bool:
        live = self._live
        if live is None:
            return False
        return live.has(base_name(delete.path)) or (delete.owner is not None and live.has(delete.owner))


def _heard(deletes: Iterable[Delete], still_ours: Callable[[], None]) -> Iterator[Delete]:
    for number, delete in enumerate(deletes):
        if number % 1000 == 0:
            still_ours()
        yield delete
