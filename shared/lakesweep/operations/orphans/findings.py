"""What the tasks of a scan by many processes found, added up, and the plan that follows from it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakesweep.control.quarantine import Quarantine, write_quarantine
from lakesweep.format.schema import TableSchema
from lakesweep.model.plan import Plan
from lakesweep.model.roots import BranchListing
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.listing import Place
from lakesweep.operations.orphans.outside import told_of_outside
from lakesweep.operations.orphans.parts import StoredPart, chunked_of
from lakesweep.operations.orphans.rules.orphans import Totals
from lakesweep.operations.orphans.scan import Scanned, orphan_plan, stores_of
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.table.inventory.manifest import Inventory
from lakesweep.table.reach.capture import Capture
from lakesweep.table.reach.missing import Missing, find_missing

MOST_UNSEEN = 1000
"""A task reports at most this many unseen names; of the rest it reports only the number."""


@dataclass(slots=True)
class Findings:
    """Counts of a match. The findings of several tasks can be added."""

    totals: list[Totals]
    """One for each place."""
    others: list[list[int]]
    """For each place that other tables may use: the number and bytes of files that no root names."""
    going: list[int]
    """The number and bytes of data and changelog files to delete."""
    unseen: int = 0
    """Number of names that some root needs and no listing showed."""
    rows: int = 0
    """Number of names and objects that were compared."""

    @classmethod
    def of(cls, places: int) -> "Findings":
        """Return the findings before the first object."""
        return cls([Totals() for _ in range(places)], [[0, 0] for _ in range(places)], [0, 0])

    def add(self, other: "Findings") -> None:
        """Add the findings of another task."""
        for mine, found in zip(self.totals, other.totals, strict=True):
            mine.add(found)
        for counts, more in zip([*self.others, self.going], [*other.others, other.going], strict=True):
            counts[:] = [one + another for one, another in zip(counts, more, strict=True)]
        self.unseen += other.unseen
        self.rows += other.rows


@dataclass(frozen=True, slots=True)
class Seen:
    """An orphan, for the quarantine of the next scan."""

    key: str
    etag: str
    modified_ms: int
    seen_ms: int | None
    """When the first scan saw it."""

    @property
    def identity(self) -> tuple[str, str, int]:
        """Return what identifies the object."""
        return self.key, self.etag, self.modified_ms


def quarantine_seen(table: Table, orphans: Iterable[Seen], now_ms: int) -> None:
    """Store the orphans of a scan for the next one.

    Args:
        table: The table.
        orphans: What the tasks saw.
        now_ms: When the scan collected the roots. A file that is an orphan now may have been live before.
    """
    found = list(orphans)
    known = {orphan.identity: orphan.seen_ms for orphan in found if orphan.seen_ms is not None}
    write_quarantine(require_area(table), Quarantine(known), [orphan.identity for orphan in found], now_ms)


def missing_among(
    table: Table, found: Capture, unseen: Iterable[bytes], is_asked: Callable[[str], bool], beyond: int
) -> Missing:
    """Return the files that readers need and that no listing showed.

    Args:
        table: The table.
        found: All roots.
        unseen: Hashes of the names that are asked for, at most `MAX_ASKED`.
        is_asked: Tells whether a manifest of this name may name one of them.
        beyond: Number of names that are not asked for.
    """
    missing = find_missing(
        table.store, found, lambda: stores_of(table, found), unseen=frozenset(unseen), among=is_asked
    )
    return replace(missing, unknown=missing.unknown + beyond)


def plan_of_findings(
    table: Table,
    arguments: OrphanArguments,
    found: Capture,
    own: tuple[BranchListing, TableSchema],
    places: Sequence[Place],
    findings: Findings,
    *,
    times_ms: tuple[int, int],
    problems: Mapping[int, str],
    missing: Missing,
    plan_id: str,
    parts: Iterable[StoredPart],
    inventory: Inventory | None = None,
) -> Plan:
    """Return the plan of a scan by many processes.

    Args:
        table: The table.
        arguments: The arguments of the scan.
        found: All roots.
        own: The branch of the call, and its schema.
        places: All places.
        findings: The findings of all tasks, listings included.
        times_ms: When the scan began, and its cutoff.
        problems: Number of a place -> why it could not be listed.
        missing: The files that readers need and would not find.
        plan_id: Id of the plan.
        parts: The parts that tasks stored.
        inventory: What was read instead of a listing.

    Raises:
        RefusedError: As `orphan_plan`.
    """
    totals = Totals()
    for place, each in zip(places, findings.totals, strict=True):
        if place.is_owned:
            totals.add(each)
    outside = [
        told_of_outside(place.location, counts, others, is_owned=place.is_owned, problem=problems.get(number))
        for number, (place, counts, others) in enumerate(zip(places, findings.totals, findings.others, strict=True))
        if not place.is_table
    ]
    files, size_bytes = findings.going
    scanned = Scanned(found, *own, *times_ms, totals, outside, missing, files, size_bytes, inventory)
    return orphan_plan(table, arguments, scanned, chunked=chunked_of(plan_id, parts))
