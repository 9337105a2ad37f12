"""Measure one table for the overview: what its bytes are for, what it costs, and what a person should do.

One listing of the documents, one read of each document, list and manifest, one listing of all objects. Bytes by reason
are those of `explain` (`inspect/explain/counting.py`), the other figures those of `show` and `check`.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain, islice

from lakesweep.errors import FormatError, RefusedError, StalePlanError, StorageError
from lakesweep.format.schema import TableSchema
from lakesweep.model.overview import Bytes, Finding, Pin, TableOverview
from lakesweep.model.prices import storage_usd
from lakesweep.model.roots import Root
from lakesweep.model.safety import DELETE_MARGIN_MS, ORPHAN_AGE_MS, OVERDUE_AFTER_MS
from lakesweep.operations.inspect.deleted_rows import deleted_rows
from lakesweep.operations.inspect.explain.counting import Counting, kinds_by_name
from lakesweep.operations.inspect.health import command
from lakesweep.operations.inspect.judging import Judging, judge_listed
from lakesweep.operations.inspect.pins import find_pins, shown_tags, weighed
from lakesweep.operations.lifetimes.until import Until
from lakesweep.operations.overview.data_files import DataFiles
from lakesweep.operations.overview.facts import Facts, facts_of, main_of
from lakesweep.operations.overview.findings import Known, findings_of, ordered
from lakesweep.operations.overview.history import growth_of, timeline_of
from lakesweep.operations.overview.measured import Measured
from lakesweep.operations.overview.reading import SecondListing, read_documents, reading_once
from lakesweep.runs.fleet import limited
from lakesweep.runs.parameters.retention_options import (
    ExpireArguments,
    consumers_bind_changelogs_only,
    snapshot_retention,
)
from lakesweep.runs.session import Table
from lakesweep.storage.listing import PARALLEL, list_all
from lakesweep.storage.open import noncurrent_versions
from lakesweep.storage.together import waits
from lakesweep.storage.versions import Noncurrent
from lakesweep.table.documents import read_consumers, read_schema
from lakesweep.table.metadata import Unreadable
from lakesweep.table.reach.holders import Holders

SAVED = ("expired", "due", "orphan")
"""The reasons whose bytes a pass and a scan of the orphan files would delete now."""
ATTEMPTS = 3
"""A measure begins again if roots move meanwhile."""
HOLDS_MS = 86_400_000
"""A measure holds no longer. Files that no root names come and go without a trace in the fingerprint."""


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
            return _Measure(table, name, facts, versions=versions).run()
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
    if facts.now_ms >= earlier.holds_until_ms or facts.now_ms < earlier.overview.measured_ms:
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


class _Measure:
    """One measure."""

    def __init__(self, table: Table, name: str, facts: Facts, *, versions: bool) -> None:
        """Prepare; this reads the documents that the listing shows."""
        self._name = name
        self._facts = facts
        self._versions = versions
        self._listing = facts.listing
        self._main = main_of(facts.listing)
        self._table = reading_once(table, facts.listing)

    def run(self) -> Measured:
        """Read everything, and count."""
        table, facts, own = self._table, self._facts, self._main
        with closing(list_all(table.store, "", parallel=PARALLEL)) as pages:
            first = tuple(islice(pages, 1)) if waits(table.store) else ()  # the others arrive meanwhile
            read_documents(table.store, self._listing)
            schema = read_schema(table.store, own)
            judging = judge_listed(table, self._listing, facts.now_ms)
            lifetimes = judging.lifetimes_by(facts.ruling)
            holders = judging.holders()
            files = DataFiles(holders.roots, self._newest_bit(holders))
            counting = Counting(judging, kinds_by_name(judging, lifetimes, holders, files.note))
            files.end()
            again = SecondListing()
            counting.count_all(again.noted(chain(first, pages)))
        missing = counting.missing()
        again.refuse_moved(table.store.location, self._listing)
        noncurrent, versions_problem = self._noncurrent()
        state = {gap.root.ref.path for gap in holders.gaps if gap.part == "state"}
        roots = judging.found.roots
        newest = roots.get(own.snapshots[-1].path) if own.snapshots else None
        is_known = newest is not None and newest.ref.path not in state
        untils = lifetimes.of(root.ref for root in judging.roots)
        consumers = dict(sorted(read_consumers(table.store, own.consumers).items()))
        pins, forever = self._pins(judging, files, schema, consumers, state)
        known = Known(facts, judging, missing, sum(counting.bytes.values()), forever, versions_problem)
        deleted, problems = self._deleted_share(schema, newest if is_known else None)
        level_0 = sum(map(len, files.level_0.values())) if schema.primary_keys and is_known else None
        reasons = tuple(Bytes(share.reason, share.count, share.bytes) for share in counting.shares())
        size_bytes = sum(each.bytes for each in reasons)
        saved = sum(
            each.bytes for each in reasons if each.reason in SAVED and (judging.roots or each.reason != "orphan")
        )
        kept = noncurrent.bytes if noncurrent is not None else 0
        snapshots = [roots[ref.path] for ref in own.snapshots if ref.path in roots]
        overview = TableOverview(
            table=table.ref.location,
            name=self._name,
            measured_ms=facts.now_ms,
            has_primary_key=bool(schema.primary_keys),
            is_partitioned=bool(schema.partition_keys),
            objects=sum(each.count for each in reasons),
            bytes=size_bytes,
            rows=None if newest is None else newest.snapshot.total_record_count,
            live_files=files.live.files if is_known else None,
            live_bytes=files.live.bytes if is_known else None,
            reasons=reasons,
            noncurrent_count=None if noncurrent is None else noncurrent.versions,
            noncurrent_bytes=None if noncurrent is None else noncurrent.bytes,
            snapshots=len(own.snapshots),
            branches=tuple(each.name for each in self._listing.branches.values() if each.schemas or any(each.roots())),
            tags=len(own.tags),
            latest_ms=None if newest is None else newest.snapshot.time_ms,
            oldest_root_ms=min((root.snapshot.time_ms for root in judging.roots), default=None),
            small_files=files.small.files if is_known else None,
            small_bytes=files.small.bytes if is_known else None,
            deleted_share=deleted,
            level_0_files=level_0,
            level_0_since_ms=self._level_0_since(judging, holders, files) if level_0 else None,
            last_pass=facts.control.last_pass,
            last_scan=facts.control.last_scan,
            pins=pins,
            findings=ordered((*findings_of(known), *problems)),
            usd_month=storage_usd(size_bytes + kept),
            saving_bytes=saved,
            saving_usd_month=storage_usd(saved),
            growth=growth_of(snapshots, files, state),
            timeline=timeline_of(self._listing, roots, untils, consumers),
        )
        committed = [root.snapshot.time_ms for root in judging.roots]
        return Measured(
            overview, facts.fingerprint(versions=self._versions), self._holds_until(counting, untils, committed)
        )

    def _newest_bit(self, holders: Holders) -> int:
        path = self._main.snapshots[-1].path if self._main.snapshots else None
        return sum(1 << number for number, root in enumerate(holders.roots) if root.ref.path == path)

    def _noncurrent(self) -> tuple[Noncurrent | None, str | None]:
        if not self._versions:
            return None, None
        try:
            return noncurrent_versions(self._table.store), None
        except StorageError as error:
            return None, str(error)

    def _pins(
        self,
        judging: Judging,
        files: DataFiles,
        schema: TableSchema,
        consumers: Mapping[str, int],
        incomplete: Collection[str],
    ) -> tuple[tuple[Pin, ...], tuple[int, int]]:
        """Return what keeps old files; the number of tags without a time to live, and the bytes that they keep."""
        store, own = self._table.store, self._main
        tags = tuple(shown_tags(store, own.tags))
        pins = find_pins(store, self._listing, own, consumers, tags)
        forever = [pin for pin in pins if pin.kind == "tag"]
        alone = 0
        if own.snapshots and not incomplete:
            limits = limited(ExpireArguments(), self._facts.ruling)
            retention, consumer_next = None, None
            with suppress(RefusedError):
                retention = snapshot_retention(schema.options, limits, judging.now_ms, self._table.clock_ms())
                if not consumers_bind_changelogs_only(schema.options):
                    consumer_next = min(consumers.values(), default=None)
            beyond = files.beyond()
            rest = judging.roots, retention, consumer_next, judging.now_ms, limits
            pins = weighed(beyond, own, pins, *rest)
            names = {pin.name for pin in forever}
            held = [ref.path for ref in own.tags if ref.name in names]
            staying = [root.ref.path for root in judging.roots if root.ref.path != own.snapshots[-1].path]
            alone = beyond.needed_only_by(held, staying).bytes
        return tuple(Pin(pin.kind, pin.name, pin.snapshot_id, pin.bytes) for pin in pins), (len(forever), alone)

    def _deleted_share(self, schema: TableSchema, newest: Root | None) -> tuple[float | None, tuple[Finding, ...]]:
        if newest is None:
            return None, ()
        try:
            found = deleted_rows(self._table.store, schema, newest, by_partition=False)
        except (RefusedError, FormatError) as error:
            check = command("check", self._table.ref.location, executes=False)
            return None, (Finding("unreadable_document", "act", str(error), check),)
        return None if found is None else found.deleted.share, ()

    def _level_0_since(self, judging: Judging, holders: Holders, files: DataFiles) -> int | None:
        """Return when the oldest live file on level 0 was written; `None`: some file does not say it."""
        metas = [each.meta for name, each in holders.manifests() if name in files.level_0]
        times: list[int | None] = []
        for name, found in judging.found.reader.scan_row_entries(metas, tuple, with_stats=False):
            if isinstance(found, Unreadable):
                return None
            wanted = files.level_0[name]
            times += [each.created_ms for each in found if each.is_add and each.entry.file_name in wanted]
        known = [ms for ms in times if ms is not None]
        return min(known) if known and len(known) == len(times) else None

    def _holds_until(self, counting: Counting, untils: Mapping[str, Until], committed_ms: Iterable[int]) -> int:
        """Return from when on time alone may change a figure."""
        now_ms, lease = self._facts.now_ms, self._facts.control.lease
        times = [until.at_ms + 1 for until in untils.values() if until.at_ms is not None]
        if any(until.is_due for until in untils.values()):  # then they are overdue some time later
            times += [each + OVERDUE_AFTER_MS for each in (*times, *(each + 1 for each in committed_ms))]
        if counting.oldest_young_ms is not None:
            times.append(counting.oldest_young_ms + ORPHAN_AGE_MS + 1)
        if lease is not None and lease.expires_ms:
            times.append(lease.expires_ms + DELETE_MARGIN_MS)
        return min([now_ms + HOLDS_MS, *(each for each in times if each > now_ms)])
