"""How a scan by many processes judges each object, once it knows whether some root names it.

The rules are the same as in `plan.orphans`, in an order that many processes can follow. Objects are first matched by
their own name. Extra files are then matched in a second round, by the name of the file that they belong to.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakesweep.control.plans import PART_ROWS
from lakesweep.control.quarantine import Quarantine
from lakesweep.model.facts import DATA_KINDS, base_name
from lakesweep.model.paths.file_class import FileClass
from lakesweep.operations.orphans.listing import Place
from lakesweep.operations.orphans.parts import PlanParts
from lakesweep.operations.orphans.rules.orphans import Orphan, Rules, Totals
from lakesweep.operations.orphans.scan import Outside, told_of_outside, unlisted
from lakesweep.storage.store import Store, StoredObject
from lakesweep.table.reach.named_entries import ADDED, BY_ROOT, COMPACTED
from lakesweep.table.revalidation import revalidate


class Holding(NamedTuple):
    """Which roots hold a manifest, as bit sets; see `lakesweep.table.reach.holders`."""

    state: int
    changes: int
    replay: int


_NONE = Holding(0, 0, 0)


def is_needed(entries: Sequence[tuple[int, int, int]], holdings: Mapping[int, Holding]) -> bool:
    """Tell whether some root needs a file, as `Holders.mentions` would.

    Args:
        entries: All entries that name it: a number for what a deletion must match, the manifest's number, flags.
        holdings: By the number of a manifest.
    """
    gone: dict[int, int] = defaultdict(int)
    for ident, manifest, flags in entries:
        if flags & BY_ROOT:
            return True
        if not flags & ADDED:
            gone[ident] |= holdings.get(manifest, _NONE).state
    for ident, manifest, flags in entries:
        if flags & ADDED:
            holding = holdings.get(manifest, _NONE)
            needed = (holding.state & ~gone[ident]) | holding.changes
            if needed or (not flags & COMPACTED and holding.replay):
                return True
    return False


@dataclass(frozen=True, slots=True)
class Question:
    """The limits and facts that all matching tasks share."""

    cutoff_ms: int
    damaged: bool
    quarantine_before_ms: int | None
    """An orphan may be deleted if a scan that began at this time or earlier saw it; `None`: no quarantine."""
    nested: tuple[str, ...]
    """Folders of other tables inside this one."""
    places: tuple[Place, ...]
    plan_id: str
    folder: str
    """The folder of the scan, which holds the parts."""
    confirm: bool = False
    """The table's objects come from an inventory, so each orphan is looked up again before it enters the plan."""
    by_owner: bool = False
    """The rows are extra files that no root names. They are matched by the names of their owners."""
    quarantine_digest: str | None = None
    """For matching tasks without a plan key; see `believed_quarantine`."""


@dataclass(slots=True)
class Judge:
    """Judges objects that no root names: counts those to keep, and collects those to delete."""

    question: Question
    plan: PlanParts
    store: Store
    """The store of the table."""
    quarantine: Quarantine | None
    """The orphans that earlier scans saw, if the scan has a quarantine."""
    on_owned: Callable[[int, Orphan], None]
    """Receives the place and the file of an extra file that is an orphan unless some root names its owner."""
    on_orphan: Callable[[Orphan, int | None], None]
    """Receives each orphan for the next scan's quarantine, and the time of the first scan that saw it."""
    totals: list[Totals] = field(init=False)
    """One for each place."""
    others: list[list[int]] = field(init=False)
    """For each place that other tables may use: the number and bytes of files that no root names."""
    going: list[int] = field(init=False)
    """The number and bytes of data and changelog files to delete."""
    _rules: Rules = field(init=False)
    _nested: tuple[str, ...] = field(init=False)
    _doubtful: dict[Orphan, None] = field(init=False)
    _doubtful_group: str | None = field(init=False)
    """The name by which the last doubtful object was matched."""

    def __post_init__(self) -> None:
        self.totals = [Totals() for _ in self.question.places]
        self.others = [[0, 0] for _ in self.question.places]
        self.going = [0, 0]
        self._rules = Rules(self.question.cutoff_ms, self.question.damaged)
        self._nested = tuple(f"{folder}/" for folder in self.question.nested)
        self._doubtful = {}
        self._doubtful_group = None

    @property
    def why_live(self) -> str:
        """Return the reason for keeping an object that a root names."""
        return "live_owner" if self.question.by_owner else "live"

    def judge(self, number: int, orphan: Orphan, found: FileClass) -> None:
        """Judge one object.

        Args:
            number: The number of its place.
            orphan: The object, in case it is an orphan.
            found: Its class.
        """
        if not self.question.by_owner:
            why = self._rules.why_kept(orphan.modified_ms, found)
            if why is not None:
                self.totals[number].keep(orphan.key, orphan.size_bytes, why)
                return
            if orphan.owner is not None:
                self.on_owned(number, orphan)
                return
        self._go(self.question.places[number], number, orphan)

    def confirm(self) -> None:
        """Keep objects that no longer exist exactly as the inventory lists them. To be called at the end."""
        doubtful, self._doubtful = list(self._doubtful), {}
        objects = [StoredObject(each.key, each.size_bytes, each.etag, each.modified_ms) for each in doubtful]
        still = revalidate(self.store, objects)
        for orphan in doubtful:
            if orphan.key in still:
                self._go_surely(orphan, self.totals[0])
            else:
                self.totals[0].keep(orphan.key, orphan.size_bytes, "not_as_listed")

    def _go(self, place: Place, number: int, orphan: Orphan) -> None:
        totals = self.totals[number]
        if not place.is_table and not place.is_owned:
            self.others[number][0] += 1
            self.others[number][1] += orphan.size_bytes
            return
        if self._nested and orphan.key.startswith(self._nested):
            totals.keep(orphan.key, orphan.size_bytes, "nested_table")
        elif self.question.confirm and place.is_table:
            # An inventory may list an object twice. Both rows are in the same group, and a check never divides a group.
            group = orphan.owner if self.question.by_owner else base_name(orphan.key)
            if len(self._doubtful) >= PART_ROWS and group != self._doubtful_group:
                self.confirm()
            self._doubtful[orphan] = None
            self._doubtful_group = group
        else:
            self._go_surely(orphan, totals)

    def _go_surely(self, orphan: Orphan, totals: Totals) -> None:
        before_ms = self.question.quarantine_before_ms
        if self.quarantine is not None and before_ms is not None:
            seen_ms = self.quarantine.first_seen_ms.get((orphan.key, orphan.etag, orphan.modified_ms))
            self.on_orphan(orphan, seen_ms)
            if seen_ms is None or seen_ms > before_ms:
                totals.keep(orphan.key, orphan.size_bytes, "quarantine")
                return
        self.plan.add(orphan)
        if orphan.kind in DATA_KINDS:
            self.going[0] += 1
            self.going[1] += orphan.size_bytes


def joined(places: Iterable[Place], totals: Iterable[Totals]) -> Totals:
    """Return the totals of the table and of its owned external roots."""
    found = Totals()
    for place, each in zip(places, totals, strict=True):
        if place.is_owned:
            found.add(each)
    return found


def outside_of(
    places: Iterable[Place], totals: Sequence[Totals], others: Sequence[Sequence[int]], problems: Mapping[int, str]
) -> list[Outside]:
    """Return the report on the external roots among the places of a scan.

    Args:
        places: All places.
        totals: One for each place.
        others: For each place that other tables may use: number and bytes of files that no root names.
        problems: Number of a place -> why it could not be listed.
    """
    found: list[Outside] = []
    for number, place in enumerate(places):
        if place.is_table:
            continue
        if number in problems:
            found.append(unlisted(place.location, problems[number]))
        elif place.is_owned:
            found.append(({"location": place.location, "owned": True}, ""))
        else:
            count, size_bytes = others[number]
            found.append(told_of_outside(place.location, totals[number], count, size_bytes))
    return found
