"""What present roots need of a plan that the call loaded instead of making it.

Somebody could have changed a plan in storage. A matching hash proves that the plan is complete, but not who wrote it.
So before the first deletion, Lakesweep asks every present root of every branch which files it names. Roots that the
plan itself deletes are not asked; Lakesweep compares them with the plan's copy.

A plan as Lakesweep made it names no file that a root of its time needs. A plan that names one is not carried out at
all. If an earlier run has begun the plan, it must be finished, and the files that a root needs are kept.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from lakesweep.errors import StalePlanError
from lakesweep.execute.planned_roots import roots_to_write
from lakesweep.execute.recheck import RootRecheck, references_among
from lakesweep.model.facts import References, base_name
from lakesweep.model.plan import Action, Delete, PlanHeader, to_bytes
from lakesweep.table.discover import ROOT_FOLDERS, discover
from lakesweep.table.documents import read_roots
from lakesweep.table.reach.live_set import LiveSet, name_hash

NAMES_LIVE_FILES = "names_live_files"
"""Code of a plan that would delete a file which a root of the plan's own time needs."""
STILL_NEEDED = "a present root needs it"


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


def names_live_files(header: PlanHeader, first: str, count: int) -> StalePlanError:
    """Return the refusal of a plan that names files which roots of its time need."""
    more = f" and {count - 1} more" if count > 1 else ""
    return StalePlanError(
        f"table {header.table}: plan {header.plan_id} would delete {first}{more}, but a root that existed when the "
        "plan was made needs it; expected files that no root needs. Nothing of it is carried out; make a new plan",
        code=NAMES_LIVE_FILES,
    )


def refuse_live_files(header: PlanHeader, deletes: Iterable[Delete], is_needed: Callable[[Delete], bool]) -> None:
    """Refuse a plan if some of its files are needed.

    Raises:
        StalePlanError: With code `names_live_files`.
    """
    needed = [delete.path for delete in deletes if is_needed(delete)]
    if needed:
        raise names_live_files(header, needed[0], len(needed))
