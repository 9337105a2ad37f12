"""How a scan by many processes judges each object, once it knows whether some root names it.

The rules are the same as in `plan.orphans`, in an order that many processes can follow. Objects are first matched by
their own name. Extra files are then matched in a second round, by the name of the file that they belong to.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakesweep.control.plans import PART_ROWS
from lakesweep.control.quarantine import Quarantine
from lakesweep.model.paths.file_class import FileClass
from lakesweep.model.roots import DATA_KINDS, base_name
from lakesweep.operations.orphans.findings import Findings
from lakesweep.operations.orphans.listing import Place
from lakesweep.operations.orphans.parts import PlanParts
from lakesweep.operations.orphans.rules.orphans import Orphan, Rules, Totals
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
    findings: Findings = field(init=False)
    _rules: Rules = field(init=False)
    _nested: tuple[str, ...] = field(init=False)
    _doubtful: dict[Orphan, None] = field(init=False)
    _doubtful_group: str | None = field(init=False)
    """The name by which the last doubtful object was matched."""

    def __post_init__(self) -> None:
        self.findings = Findings.of(len(self.question.places))
        self._rules = Rules(self.question.cutoff_ms, self.question.damaged)
        self._nested = tuple(f"{folder}/" for folder in self.question.nested)
        self._doubtful = {}
        self._doubtful_group = None

    def keep_live(self, number: int, size_bytes: int, count: int = 1) -> None:
        """Count objects that a root names, or whose owner a root names."""
        totals, why = self.findings.totals[number], "live_owner" if self.question.by_owner else "live"
        totals.kept[why] += count
        totals.kept_bytes[why] += size_bytes

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
                self.findings.totals[number].keep(orphan.key, orphan.size_bytes, why)
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
                self._go_surely(orphan, self.findings.totals[0])
            else:
                self.findings.totals[0].keep(orphan.key, orphan.size_bytes, "not_as_listed")

    def _go(self, place: Place, number: int, orphan: Orphan) -> None:
        totals = self.findings.totals[number]
        if not place.is_table and not place.is_owned:
            self.findings.others[number][0] += 1
            self.findings.others[number][1] += orphan.size_bytes
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
            self.findings.going[0] += 1
            self.findings.going[1] += orphan.size_bytes
