"""Measure one table for the overview: what its bytes are for, what it costs, and what a person should do.

One listing of the documents, one read of each document, list and manifest, one listing of all objects. Bytes by reason
are those of `explain` (`inspect/explain/counting.py`), the other figures those of `show` and `check`.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain, islice

from lakesweep.errors import StalePlanError, StorageError
from lakesweep.format.schema import TableSchema
from lakesweep.model.damage import empty_branches
from lakesweep.model.overview import Bytes, TableOverview
from lakesweep.model.prices import storage_usd
from lakesweep.model.roots import Root
from lakesweep.model.safety import GRAIN_MS
from lakesweep.operations.inspect.explain.counting import Counting, kinds_by_name
from lakesweep.operations.inspect.judging import Judging, judge_listed
from lakesweep.operations.lifetimes.lifetimes import Lifetimes
from lakesweep.operations.overview.data_files import DataFiles
from lakesweep.operations.overview.facts import Facts, facts_of, main_of
from lakesweep.operations.overview.figures import deleted_share, holds_until, level_0_since, pins_of
from lakesweep.operations.overview.findings import Known, findings_of, ordered
from lakesweep.operations.overview.history import growth_of, timeline_of
from lakesweep.operations.overview.measured import Measured
from lakesweep.operations.overview.reading import SecondListing, read_documents, reading_once, refuse_vanished
from lakesweep.runs.damage import lost_snapshots
from lakesweep.runs.session import Table
from lakesweep.storage.listing import PARALLEL, list_all
from lakesweep.storage.open import noncurrent_versions
from lakesweep.storage.store import Page, Store
from lakesweep.storage.together import begun, both, waits
from lakesweep.storage.versions import Noncurrent
from lakesweep.table.documents import read_consumers, read_schema
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.missing import Missing

PASSES_SAVE = ("expired", "due")
"""The reasons whose bytes a pass would delete now."""
SCANS_SAVE = ("orphan",)
"""Those of a scan for orphan files."""
ATTEMPTS = 3
"""A measure begins again if roots move meanwhile."""


def measure(table: Table, name: str, *, versions: bool = True) -> Measured:
    """Measure a table. This changes nothing.

    Args:
        table: The table; all branches are counted.
        name: Its name in the overview.
        versions: Also count the versions that are not current, if the bucket keeps any. A request counts a thousand.

    Raises:
        MaintenanceError: The table cannot be read: it is none, a root cannot be understood, a request failed.
    """
    for attempt in range(ATTEMPTS):
        facts = facts_of(table)
        try:
            return _measured(table, name, facts, versions=versions)
        except StalePlanError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def remembered(table: Table, earlier: Measured, *, versions: bool = True) -> Measured | None:
    """Return an earlier measure if it still holds; `None`: the table must be measured again.

    The requests are those of `facts_of`. The result has the present time of the last pass.

    Args:
        table: The table.
        earlier: What `measure` returned.
        versions: As of `measure`.

    Raises:
        MaintenanceError: A request failed.
    """
    facts = facts_of(table)
    if facts.now_ms >= earlier.holds_until_ms or facts.now_ms < earlier.overview.measured_ms - GRAIN_MS:
        return None
    if facts.fingerprint(versions=versions) != earlier.fingerprint:
        return None
    control = facts.control
    return replace(
        earlier,
        overview=replace(
            earlier.overview, is_remembered=True, last_pass=control.last_pass, last_scan=control.last_scan
        ),
    )


@dataclass(frozen=True, slots=True)
class _Walked:
    """One walk over a table's metadata, and one listing of its objects."""

    schema: TableSchema
    """Of main."""
    judging: Judging
    lifetimes: Lifetimes
    holders: Holders
    files: DataFiles
    counting: Counting
    missing: Missing

    @property
    def incomplete(self) -> frozenset[str]:
        """Return the paths of the snapshots and tags of which not all data files are known."""
        gaps = (gap for gap in self.holders.gaps if gap.part == "state" and gap.root.ref.kind != "changelog")
        return frozenset(gap.root.ref.path for gap in gaps)


def _measured(table: Table, name: str, facts: Facts, *, versions: bool) -> Measured:
    """Measure once.

    Raises:
        StalePlanError: Roots moved meanwhile.
    """
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=1)) if versions and waits(table.store) else None
        noncurrent = begun(pool, lambda: _noncurrent(table.store, versions=versions))
        table = reading_once(table, facts.listing)
        walked = _walk(table, facts)
        return _summed_up(table, name, facts, walked, *noncurrent(), versions=versions)


def _noncurrent(store: Store, *, versions: bool) -> tuple[Noncurrent | None, str | None]:
    """Count the versions that are not current, or say why this is impossible."""
    try:
        return noncurrent_versions(store) if versions else None, None
    except StorageError as error:
        return None, str(error)


def _walk(table: Table, facts: Facts) -> _Walked:
    own = main_of(facts.listing)
    with closing(list_all(table.store, "", parallel=PARALLEL)) as pages:
        first: tuple[Page, ...] = ()
        if waits(table.store):  # The other pages arrive while metadata are read.
            first, _ = both(lambda: tuple(islice(pages, 1)), lambda: read_documents(table.store, facts.listing))
        schema = read_schema(table.store, own)
        judging = judge_listed(table, facts.listing, facts.now_ms)
        refuse_vanished(table.store.location, facts.listing, judging.found.roots)
        lifetimes, holders = judging.lifetimes_by(facts.ruling), judging.holders()
        files = DataFiles(holders.roots, own.snapshots[-1].path if own.snapshots else None)
        counting = Counting(judging, kinds_by_name(judging, lifetimes, holders, files.note))
        again = SecondListing()
        counting.count_all(again.noted(chain(first, pages)))
    again.refuse_moved(table.store.location, facts.listing)
    return _Walked(schema, judging, lifetimes, holders, files, counting, counting.missing())


def _saved(table: Table, facts: Facts, judging: Judging, *, newest_is_known: bool) -> tuple[str, ...]:
    """Return the reasons whose bytes would go. A pass refuses where the newest snapshot cannot be read."""
    passes = PASSES_SAVE if newest_is_known else ()
    return (*passes, *SCANS_SAVE) if _may_scan(table, facts, judging) else passes


def _may_scan(table: Table, facts: Facts, judging: Judging) -> bool:
    """Tell whether a scan would delete orphan files: it refuses to if a branch may have lost snapshots.

    Then files that somebody may restore look like orphans.
    """
    has_history = bool(judging.roots) and not any(empty_branches(facts.listing))
    return has_history and not lost_snapshots(table.store, facts.listing)


def _summed_up(
    table: Table,
    name: str,
    facts: Facts,
    walked: _Walked,
    noncurrent: Noncurrent | None,
    versions_problem: str | None,
    *,
    versions: bool,
) -> Measured:
    own, schema, judging, files = main_of(facts.listing), walked.schema, walked.judging, walked.files
    roots, incomplete = judging.found.roots, walked.incomplete
    reasons = tuple(Bytes(share.reason, share.count, share.bytes) for share in walked.counting.shares())
    size_bytes = sum(each.bytes for each in reasons)
    newest = roots[own.snapshots[-1].path] if own.snapshots else None
    known: Root | None = newest if newest is not None and newest.ref.path not in incomplete else None
    live, small = (files.live(), files.small()) if known else (None, None)
    has_levels = known is not None and bool(schema.primary_keys)
    consumers = read_consumers(table.store, own.consumers)
    pins, forever = pins_of(table, facts, schema, judging.roots, None if incomplete else files, consumers)
    share, problems = deleted_share(table, schema, known)
    untils = walked.lifetimes.of(root.ref for root in judging.roots)
    of_findings = Known(facts, judging, walked.missing, size_bytes, forever, versions_problem)
    findings = ordered((*findings_of(of_findings), *problems))
    saved = _saved(table, facts, judging, newest_is_known=newest is known)
    saving = sum(each.bytes for each in reasons if each.reason in saved)
    old_bytes = None if noncurrent is None else noncurrent.bytes
    overview = TableOverview(
        table=table.ref.location,
        name=name,
        measured_ms=facts.now_ms,
        has_primary_key=bool(schema.primary_keys),
        is_partitioned=bool(schema.partition_keys),
        objects=sum(each.count for each in reasons),
        bytes=size_bytes,
        rows=None if newest is None else newest.snapshot.total_record_count,
        live_files=live and live.files,
        live_bytes=live and live.bytes,
        reasons=reasons,
        noncurrent_count=None if noncurrent is None else noncurrent.versions,
        noncurrent_bytes=old_bytes,
        snapshots=len(own.snapshots),
        branches=tuple(each.name for each in facts.listing.branches.values() if each.schemas or any(each.roots())),
        tags=len(own.tags),
        latest_ms=None if newest is None else newest.snapshot.time_ms,
        oldest_root_ms=min((root.snapshot.time_ms for root in judging.roots), default=None),
        small_files=small and small.files,
        small_bytes=small and small.bytes,
        deleted_share=share,
        level_0_files=files.level_0_files if has_levels else None,
        level_0_since_ms=level_0_since(judging, walked.holders, files) if has_levels else None,
        last_pass=facts.control.last_pass,
        last_scan=facts.control.last_scan,
        pins=pins,
        findings=findings,
        usd_month=storage_usd(size_bytes + (old_bytes or 0)),
        saving_bytes=saving,
        saving_usd_month=storage_usd(saving),
        receipts=facts.control.receipts(table),
        growth=growth_of([roots[ref.path] for ref in own.snapshots], files, incomplete),
        timeline=timeline_of(facts.listing, roots, untils, consumers),
    )
    until_ms = holds_until(facts, walked.counting, untils, of_findings.turns)
    return Measured(overview, facts.fingerprint(versions=versions), until_ms)
