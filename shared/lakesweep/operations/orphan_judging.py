"""What a scan by many processes does with each object once it is known whether some root refers to its name.

The rules are those of `plan.orphans`. They come in an order here that many processes can keep: by the object's own name
first; then, where it is an extra file, by the name of the file that it belongs to, in a second round.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakesweep.control.plans import PART_ROWS
from lakesweep.control.quarantine import Quarantine
from lakesweep.model.facts import DATA_KINDS, base_name
from lakesweep.model.file_class import FileClass
from lakesweep.operations.orphan_listing import Place
from lakesweep.operations.orphan_parts import PlanParts
from lakesweep.operations.orphan_scan import Outside, told_of_outside, unlisted
from lakesweep.plan.orphans import Orphan, Rules, Totals
from lakesweep.storage.store import Store, StoredObject
from lakesweep.table.named_entries import ADDED, BY_ROOT, COMPACTED
from lakesweep.table.revalidation import revalidate


class Holding(NamedTuple):
    """Which roots hold a manifest, as sets of bits; see `lakesweep.table.holders`."""

    state: int
    changes: int
    replay: int


_NONE = Holding(0, 0, 0)


def is_needed(entries: Sequence[tuple[int, int, int]], holdings: Mapping[int, Holding]) -> bool:
    """Tell whether some root needs a file, as `Holders.mentions` would.

    Args:
        entries: All that name it: the number of what a deletion must match, the manifest's number, flags.
        holdings: By number of a manifest.
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
    """What a match goes by."""

    cutoff_ms: int
    damaged: bool
    quarantine_before_ms: int | None
    """What a scan that began so early saw as an orphan may go; `None`: anything may."""
    nested: tuple[str, ...]
    """Folders of other tables below this one."""
    places: tuple[Place, ...]
    plan_id: str
    folder: str
    """Of the scan, where parts lie."""
    confirm: bool = False
    """The table's objects come from an inventory: each that would go is looked up again."""
    by_owner: bool = False
    """The rows are extra files that no root refers to, matched by the names of their owners."""
    quarantine_digest: str | None = None
    """See `believed_quarantine`, where those who match have no plan key."""


@dataclass(slots=True)
class Judge:
    """Judges what no root refers to; counts what stays, and gathers what goes."""

    question: Question
    plan: PlanParts
    store: Store
    """The table's."""
    quarantine: Quarantine | None
    """What earlier scans saw, where the question asks for that."""
    on_owned: Callable[[int, Orphan], None]
    """Takes place and file of what goes unless some root refers to its owner."""
    on_orphan: Callable[[Orphan, int | None], None]
    """Takes each orphan for the next scan's quarantine, and when the first scan saw it that did."""
    totals: list[Totals] = field(init=False)
    """Of each place."""
    others: list[list[int]] = field(init=False)
    """Files and bytes of each place that is not the table's alone, to which no root refers."""
    going: list[int] = field(init=False)
    """Data and changelog files that go, and their bytes."""
    _rules: Rules = field(init=False)
    _nested: tuple[str, ...] = field(init=False)
    _doubtful: dict[Orphan, None] = field(init=False)
    _doubtful_group: str | None = field(init=False)
    """By which name the last of them was matched."""

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
        """Return why an object stays whose name a root refers to."""
        return "live_owner" if self.question.by_owner else "live"

    def judge(self, number: int, orphan: Orphan, found: FileClass) -> None:
        """Judge one object.

        Args:
            number: Of its place.
            orphan: The object, if it is one.
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
        """Keep what is not any more, or not exactly, what an inventory lists. To be called at the end."""
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
            # An object may be listed twice, and both times its row is in the same group: a lookup never divides one.
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
    """Return the totals of the table and of the roots that are its own."""
    found = Totals()
    for place, each in zip(places, totals, strict=True):
        if place.is_owned:
            found.add(each)
    return found


def outside_of(
    places: Iterable[Place], totals: Sequence[Totals], others: Sequence[Sequence[int]], problems: Mapping[int, str]
) -> list[Outside]:
    """Return what is told of the external roots among the places of a scan.

    Args:
        places: All of them.
        totals: Of each.
        others: Files and bytes of each to which no root refers, where it is not the table's alone.
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
