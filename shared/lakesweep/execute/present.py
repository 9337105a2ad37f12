"""What present roots need of a plan: of one that the call loaded, and of one whose table has new roots.

Somebody could have changed a plan in storage. A matching hash proves that the plan is complete, but not who wrote it.
So before the first deletion, Lakesweep asks every present root of every branch which files it names. Roots that the
plan itself deletes are not asked; Lakesweep compares them with the plan's copy.

A plan as Lakesweep made it names no file that a root of its time needs. A plan that names one is not carried out at
all. If an earlier run has begun the plan, it must be finished, and the files that a root needs are kept.

So only a root that appeared later can need a file of a plan of orphans. Lakesweep remembers every name that such a root
refers to, as hashes. It compares the plan's actions with these names when they are about to be deleted, and never holds
the plan in memory.

A new snapshot names all files of its table. But a manifest that a root of the plan's time names as well was known at
planning, and need not be read again. Lakesweep reads only the manifests that were written since.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lakesweep.errors import MaintenanceError, StalePlanError
from lakesweep.execute.planned_roots import roots_to_write
from lakesweep.execute.recheck import RootRecheck, references_among
from lakesweep.format.manifest import ManifestEntry, ManifestMeta
from lakesweep.model.plan import Action, Delete, PlanHeader, to_bytes
from lakesweep.model.roots import References, RootRef, TableListing, base_name
from lakesweep.table.discover import ROOT_FOLDERS, discover
from lakesweep.table.documents import read_roots
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.live_set import LiveSet, add_roots, name_hash
from lakesweep.table.reach.root_files import read_root_files

NAMES_LIVE_FILES = "names_live_files"
"""Code of a plan that would delete a file which a root of the plan's own time needs."""
STILL_NEEDED = "a present root needs it"
NEEDED = "a root that appeared after planning needs it"
MAX_ROUNDS = 12
"""One recheck lists the roots this many times at most, until a listing shows no new root."""
_TEMP = "temp"


@dataclass(slots=True)
class WantedSet(LiveSet):
    """Which of the plan's names roots refer to. It takes eight bytes for each name of the plan."""

    wanted: "array[int]" = field(default_factory=lambda: array("Q"))
    """Beginnings of the names' hashes, ascending. A hash collision keeps a file."""

    @classmethod
    def of(cls, deletes: Iterable[Delete]) -> "WantedSet":
        """Return a set of the names of some files, and of the names of their owners."""
        wanted = array("Q")
        for delete in deletes:
            wanted.append(_number(name_hash(base_name(delete.path))))
            if delete.owner is not None:
                wanted.append(_number(name_hash(delete.owner)))
        return cls(wanted=array("Q", sorted(wanted)))

    def note(self, names: Iterable[str]) -> None:
        """Mark names as referred to, if the plan has them."""
        for name in names:
            key = name_hash(name)
            number = _number(key)
            place = bisect_left(self.wanted, number)
            if place < len(self.wanted) and self.wanted[place] == number:
                self.names.setdefault(key, False)


def _number(key: bytes) -> int:
    return int.from_bytes(key[:8], "big")


def ask_present_roots(recheck: RootRecheck, actions: Sequence[Action], files: Sequence[Delete]) -> References:
    """Return what roots need of the files of a plan with documents.

    Asked are the roots of the plan's time, and the roots that the plan writes.

    Args:
        recheck: Takes these roots as known from here on.
        actions: The whole plan.
        files: The plan's files that are not deleted yet.

    Raises:
        StalePlanError: A document to delete differs from the plan's copy.
        RefusedError: A root cannot be read.
        StorageError: A request failed.
    """
    header = recheck.header
    listing = discover(recheck.store, ROOT_FOLDERS)
    there = {ref.path: ref for ref in listing.roots()}
    going = {
        action.path: action
        for action in actions
        if isinstance(action, Delete) and action.path in there and there[action.path].etag == action.etag
    }
    for root in read_roots(recheck.store, [there[path] for path in going]).roots:
        body = going[root.ref.path].body
        if body is None or to_bytes(body) != root.body:
            raise StalePlanError(
                f"table {header.table}: {root.ref.path} differs from its copy in plan {header.plan_id}; expected the "
                "document that the plan was made from. Make a new plan"
            )
    recheck.trust(there.keys())
    # Roots that appeared since the plan are left to the next recheck: they do not prove that the plan is forged.
    known = [ref for ref in there.values() if ref.path not in going and recheck.seen.get(ref.path) == ref.etag]
    staying = read_roots(recheck.store, known).roots
    # A changelog that the plan writes replaces a snapshot that the plan deletes. The table's options and the planner
    # decide which lists and files are deleted with that snapshot. No other root needs them.
    written = tuple(root for root in roots_to_write(header.branch, actions) if root.ref.kind != "changelog")
    paths = {root.ref.path for root in written}
    roots = (*(root for root in staying if root.ref.path not in paths), *written)
    return references_among(recheck.known, roots, files, header.branch, recheck.clear)


def refuse_live_files(header: PlanHeader, deletes: Iterable[Delete], is_needed: Callable[[Delete], bool]) -> None:
    """Refuse a plan if some of its files are needed.

    Raises:
        StalePlanError: With code `names_live_files`.
    """
    needed = [delete.path for delete in deletes if is_needed(delete)]
    if needed:
        more = f" and {len(needed) - 1} more" if len(needed) > 1 else ""
        raise StalePlanError(
            f"table {header.table}: plan {header.plan_id} would delete {needed[0]}{more}, but a root that existed when "
            "the plan was made needs it; expected files that no root needs. Nothing of it is carried out; make a new "
            "plan",
            code=NAMES_LIVE_FILES,
        )


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
        """Ask every present root what it needs of a plan that this call did not make.

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
