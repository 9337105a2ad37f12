"""What the roots that are there need of a plan that was loaded, and not made by this call.

A plan in storage is a document that somebody could have changed. That its hash fits says that it is whole, not who
wrote it. So before anything of it goes, every present root of every branch is asked once for the files that it names,
but for the roots that the plan takes itself, which are held against what it says of them.

A plan as it was made names no file that a root of its time needs. One that does is not carried out at all. Where an
earlier run has begun it, it has to end, and what a root needs is kept.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from lakesweep.errors import StalePlanError
from lakesweep.execute.look import Looker, references_among
from lakesweep.execute.planned_roots import roots_to_write
from lakesweep.model.facts import References, base_name
from lakesweep.model.plan import Action, Delete, PlanHeader, to_bytes
from lakesweep.table.discover import ROOT_FOLDERS, discover
from lakesweep.table.documents import read_roots
from lakesweep.table.live_set import LiveSet, name_hash

NAMES_LIVE_FILES = "names_live_files"
"""Code of a plan of which present roots need a file, and needed it when it says that it was made."""
STILL_NEEDED = "a root that is there needs it"


@dataclass(slots=True)
class WantedSet(LiveSet):
    """What roots refer to among the names in question. It takes eight bytes for each of those."""

    wanted: "array[int]" = field(default_factory=lambda: array("Q"))
    """Beginnings of the hashes of the names, ascending. A clash keeps a file."""

    @classmethod
    def of(cls, deletes: Iterable[Delete]) -> "WantedSet":
        """Return one for the names of some files, and of those that they go or stay with."""
        wanted = array("Q")
        for delete in deletes:
            wanted.append(_number(name_hash(base_name(delete.path))))
            if delete.owner is not None:
                wanted.append(_number(name_hash(delete.owner)))
        return cls(wanted=array("Q", sorted(wanted)))

    def note(self, names: Iterable[str]) -> None:
        """Take names as referred to, where they are in question."""
        for name in names:
            key = name_hash(name)
            number = _number(key)
            place = bisect_left(self.wanted, number)
            if place < len(self.wanted) and self.wanted[place] == number:
                self.names.setdefault(key, False)


def _number(key: bytes) -> int:
    return int.from_bytes(key[:8], "big")


def ask_present_roots(looker: Looker, actions: Sequence[Action], files: Sequence[Delete]) -> References:
    """Return what the roots of the plan's time, and those that it writes, need of the files of a plan with documents.

    Args:
        looker: Goes by these roots from here on.
        actions: The whole plan.
        files: Those of it that are still to go.

    Raises:
        StalePlanError: A document that is to go says something else than the plan has of it.
        RefusedError: A root cannot be read.
        StorageError: A request failed.
    """
    header = looker.header
    listing = discover(looker.store, ROOT_FOLDERS)
    there = {ref.path: ref for ref in listing.roots()}
    going = {
        action.path: action
        for action in actions
        if isinstance(action, Delete) and action.path in there and there[action.path].etag == action.etag
    }
    for root in read_roots(looker.store, [there[path] for path in going]).roots:
        body = going[root.ref.path].body
        if body is None or to_bytes(body) != root.body:
            raise StalePlanError(
                f"table {header.table}: {root.ref.path} says something else than plan {header.plan_id} has of it; "
                "expected the document that the plan was made from, so make a new plan"
            )
    looker.trust(there.keys())
    # Roots that appeared since are for the look that follows: a plan that could not know them is no forged one.
    known = [ref for ref in there.values() if ref.path not in going and looker.seen.get(ref.path) == ref.etag]
    staying = read_roots(looker.store, known).roots
    # A changelog that the plan writes takes the place of a snapshot that it deletes. Which lists and files go with that
    # snapshot the table's options say, and the planner; no other root needs them.
    written = tuple(root for root in roots_to_write(header.branch, actions) if root.ref.kind != "changelog")
    paths = {root.ref.path for root in written}
    roots = (*(root for root in staying if root.ref.path not in paths), *written)
    return references_among(looker.known, roots, files, header.branch, looker.clear)


def names_live_files(header: PlanHeader, first: str, count: int) -> StalePlanError:
    """Return the refusal of a plan that names what roots of its time need."""
    more = f" and {count - 1} more" if count > 1 else ""
    return StalePlanError(
        f"table {header.table}: plan {header.plan_id} would delete {first}{more}, which a root that was there when the "
        "plan was made needs; expected files that no root needs. Nothing of it is carried out; make a new plan",
        code=NAMES_LIVE_FILES,
    )


def refuse_live_files(header: PlanHeader, deletes: Iterable[Delete], is_needed: Callable[[Delete], bool]) -> None:
    """Refuse a plan some of whose files are needed.

    Raises:
        StalePlanError: With code `names_live_files`.
    """
    needed = [delete.path for delete in deletes if is_needed(delete)]
    if needed:
        raise names_live_files(header, needed[0], len(needed))
