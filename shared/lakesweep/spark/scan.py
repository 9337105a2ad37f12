"""The scan for orphan files on Spark: its stages, and the state that it stores.

The driver collects the roots and reads their manifest lists. Executors decode manifests, list, and match. After each
stage the driver stores which parts count, in a document of the scan. If the scan dies, another attempt with the same id
continues from there. It uses the cutoff of the first attempt, but collects the roots again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from lakesweep.control.area import to_json_bytes
from lakesweep.control.quarantine import believed_quarantine
from lakesweep.errors import FormatError, MaintenanceError
from lakesweep.format.codec import from_json
from lakesweep.model.paths.layout import layout_of
from lakesweep.model.plan import Plan
from lakesweep.model.report import Refusal, RunReport
from lakesweep.model.scans import OrphanArguments, check_scan_id
from lakesweep.operations.orphans.findings import Findings, Seen, missing_among, plan_of_findings, quarantine_seen
from lakesweep.operations.orphans.judging import Holding, Question
from lakesweep.operations.orphans.listing import Place, Shard, places_of_scan
from lakesweep.operations.orphans.parts import StoredPart
from lakesweep.operations.orphans.rules.orphans import Totals
from lakesweep.operations.orphans.scan import (
    check_table,
    cutoff_of,
    inventory_of,
    own_branch,
    places_of,
    prefix_in,
    retained,
    schemas_of,
)
from lakesweep.runs.execution import require_area
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.session import Table
from lakesweep.spark.listing import Listed, ReadInventory, Sorter, list_places, read_files
from lakesweep.spark.live import NamedLiveSet, SparkDecode, write_own_names
from lakesweep.spark.match import NamesOf, match
from lakesweep.spark.parts import Part, as_text, part_of, part_row, read_part
from lakesweep.spark.state import State, basis_of, folder_of, read_state, scans_of
from lakesweep.spark.tasks import Access, Row, check_workers, count_requests, run_tasks
from lakesweep.storage.open import StoreSettings
from lakesweep.table.inventory.manifest import Inventory
from lakesweep.table.inventory.reach import refuse_partial, refuse_too_old, settled_cutoff
from lakesweep.table.reach.capture import Capture, capture
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.reach.missing import MAX_ASKED, Missing, whole_roots
from lakesweep.table.reach.named_entries import number_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWER = "the answer of a task"


@dataclass(slots=True)
class SparkScan:
    """The Spark backend of orphan scans; see `lakesweep.runs.session.ScanBackend`."""

    session: "SparkSession"
    settings: StoreSettings
    scan_id: str | None = None
    """Id of an earlier attempt, or for a new scan; `None`: a new id."""
    stages_ms: dict[str, int] = field(default_factory=dict)
    """Stage -> its duration, for the last plan that was made here."""

    def plan(self, table: Table, arguments: OrphanArguments) -> Plan:
        """Plan the removal of a table's orphan files.

        Raises:
            UsageError: An argument that does not apply, or executors that cannot work.
            RefusedError: As `plan_remove_orphan_files`. Or the scan with this id has other arguments or another
                version.
            FormatError: The stored state of the scan, or something else, is damaged.
            StorageError: A request of the driver or of an executor failed; the scan has no result.
        """
        area = require_area(table)
        now_ms = table.store.now_ms()  # before the first root is read: the safety of the cutoff rests on this order
        scan_id = self.scan_id or new_id(now_ms)
        check_scan_id(scan_id)
        access = Access(table.ref.location, area.store.location, self.settings)
        cutoff_of(table, arguments, now_ms)
        try:
            state = read_state(table, scan_id, arguments, now_ms)
            check_workers(self.session, access)
            self.stages_ms.clear()
            return _Scan(self.session, table, arguments, access, state, now_ms, self.stages_ms, table.clock_ms()).plan()
        except FormatError as error:
            # Every attempt with this id would meet the same error, so tell the caller that waits for the scan.
            report = RunReport(
                operation="remove-orphan-files",
                table=table.ref.location,
                branch=table.ref.branch,
                status="refused",
                refusal=Refusal(error.code, str(error)),
            )
            self.finished(table, report)
            raise

    def finished(self, table: Table, report: RunReport) -> None:
        """Store how the scan ended, for a caller that waits for it."""
        if self.scan_id is None or table.area is None:
            return
        header = report.plan.header if report.plan is not None and not report.plan.is_empty else None
        refusal = report.refusal
        document = {
            "status": report.told_status,
            "plan_id": header.plan_id if header else None,
            "action_count": header.action_count if header else 0,
            "needs_confirmation": header.needs_confirmation if header else False,
            "refusal": {"code": refusal.code, "message": refusal.message} if refusal else None,
            "stages_ms": dict(self.stages_ms),
        }
        scans_of(table.area).put(f"{folder_of(self.scan_id)}result.json", to_json_bytes(document))


@dataclass(slots=True)
class _Scan:
    session: "SparkSession"
    table: Table
    arguments: OrphanArguments
    access: Access
    state: State
    now_ms: int
    """When this attempt began. It collects the roots again."""
    stages_ms: dict[str, int]
    stage_began_ms: int = 0

    def _ended(self, stage: str) -> None:
        now_ms = self.table.clock_ms()
        self.stages_ms[stage] = now_ms - self.stage_began_ms
        self.stage_began_ms = now_ms

    def plan(self) -> Plan:
        table, arguments, state = self.table, self.arguments, self.state
        cutoff_ms = cutoff_of(table, arguments, state.now_ms)
        found, live_parts = self._capture()
        self._ended("roots")
        own = own_branch(table, found.listing)
        _, roots = places_of(table, found.listing, arguments)
        places = places_of_scan(table.ref.location, roots)
        inventory = inventory_of(table, arguments)
        if inventory is not None:
            cutoff_ms = settled_cutoff(inventory, cutoff_ms)
            refuse_too_old(str(table.ref), inventory, retained(found))
        listed = self._list(found, places, inventory)
        self._ended("listing")
        quarantine_ms = arguments.quarantine_ms
        question = Question(
            cutoff_ms,
            bool(found.live.damaged),
            None if quarantine_ms is None else state.now_ms - quarantine_ms,
            tuple(sorted(listed.nested)),
            places,
            new_id(table.store.now_ms()),
            self.state.folder,
            confirm=inventory is not None,
            quarantine_digest=None if quarantine_ms is None else believed_quarantine(require_area(self.table)),
        )
        matched = self._match(found, live_parts, listed, question)
        self._ended("match")
        if quarantine_ms is not None:
            # The quarantine starts with this attempt, since a file that is an orphan now may have been live for earlier
            # attempts.
            quarantine_seen(table, self._orphans(matched.orphans), self.now_ms)
        return plan_of_findings(
            table,
            arguments,
            found,
            own,
            places,
            matched.findings,
            times_ms=(state.now_ms, cutoff_ms),
            problems=listed.problems,
            # An inventory does not show younger files, so a file that it lacks may not be missing.
            missing=self._missing(found, live_parts, matched) if inventory is None else Missing(),
            plan_id=question.plan_id,
            parts=matched.plan,
            inventory=inventory,
        )

    def _capture(self) -> tuple[Capture, list[Part]]:
        table, state = self.table, self.state

        def take(manifests: Sequence[str], parts: Sequence[Part]) -> None:
            state.manifests.update(manifests)
            state.live += parts
            state.write(table, self.arguments)

        live = NamedLiveSet(manifests=set(state.manifests))
        decode = SparkDecode(self.session, self.access, self.state.folder, table.counter, take)
        found = capture(table.store, table.sleep, partial(check_table, table), live, decode)
        return found, [
            *state.live,
            *write_own_names(scans_of(require_area(self.table)), self.state.folder, live),
        ]

    def _list(self, found: Capture, places: tuple[Place, ...], inventory: Inventory | None) -> Listed:
        table, state = self.table, self.state
        layout = layout_of(schema for _, schema in schemas_of(table, found.listing))
        sorter = Sorter(layout, places, self.state.folder)
        basis = basis_of(layout, places, inventory)
        if state.listed is None or state.sorter != basis:  # a new kind of schema may change the classes of files
            shards = [Shard(number) for number, place in enumerate(places) if inventory is None or not place.is_table]
            state.listed = Listed(shards=shards, totals=[Totals() for _ in places])
            state.listed.files = [] if inventory is None else list(range(len(inventory.files)))
            state.sorter = basis

        def on_round(listed: Listed) -> None:
            state.write(table, self.arguments)
            seen = sum(totals.objects for totals in listed.totals)
            table.progress("objects listed", seen, None)

        if inventory is not None:
            work = ReadInventory(sorter, inventory, prefix_in(inventory, table))
            read_files(self.session, self.access, work, state.listed, table.counter, on_round)
            refuse_partial(str(table.ref), table.store, inventory, state.listed.reach)
        list_places(self.session, self.access, sorter, state.listed, table.counter, on_round)
        return state.listed

    def _match(self, found: Capture, live: Sequence[Part], listed: Listed, question: Question) -> "_Matched":
        holders = Holders(found.reader, whole_roots(self.table.store, found))
        holdings = {
            number_of(name): Holding(each.state, each.changes, each.replay) for name, each in holders.manifests()
        }
        matched = _Matched(Findings.of(len(question.places)))
        for totals, counted in zip(matched.findings.totals, listed.totals, strict=True):
            totals.add(counted)
        answers = match(self.session, self.access, live, listed.parts, question, holdings)
        matched.take(count_requests(self.table.counter, answers), [*live, *listed.parts])
        if matched.owned:
            again = replace(question, by_owner=True)
            answers = match(self.session, self.access, live, matched.owned, again, {})
            matched.take(count_requests(self.table.counter, answers), [*live, *matched.owned])
        return matched

    def _missing(self, found: Capture, live: Sequence[Part], matched: "_Matched") -> Missing:
        if not matched.missing:
            return Missing()
        asked = sorted(matched.missing)[:MAX_ASKED]
        beyond = matched.findings.unseen - len(asked)
        pieces = [part_row(part) for part in live]
        found_names = run_tasks(self.session, self.access, NamesOf(frozenset(asked)), pieces)
        names = {row["name"] for row in count_requests(self.table.counter, found_names)}
        beyond += max(0, len(asked) - len(names))  # names that no task found are unknown, not present
        unseen = map(name_hash, names)
        numbers = {number for key in asked for number in matched.missing[key]}
        return missing_among(self.table, found, unseen, lambda name: number_of(name) in numbers, beyond)

    def _orphans(self, parts: Iterable[Part]) -> Iterator[Seen]:
        for part in parts:
            columns = (column.to_pylist() for column in read_part(scans_of(require_area(self.table)), part).columns)
            for key, etag, modified_ms, seen_ms in zip(*columns, strict=True):
                yield Seen(as_text(key), etag, modified_ms, seen_ms)


@dataclass(slots=True)
class _Matched:
    """The findings of the match."""

    findings: Findings
    plan: list[StoredPart] = field(default_factory=list)
    owned: list[Part] = field(default_factory=list)
    orphans: list[Part] = field(default_factory=list)
    missing: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def take(self, rows: Iterable[Row], parts: Iterable[Part]) -> None:
        """Add the answers of a match of all rows of some parts.

        Raises:
            MaintenanceError: The match saw fewer or more rows. The file of a live name that it did not see would look
                like an orphan.
        """
        expected, self.findings.rows = sum(part.rows for part in parts), 0
        for row in rows:
            if "plan" in row:
                self.plan.append(from_json(StoredPart, row, _ANSWER))
            elif "owned" in row:
                self.owned.append(part_of(row["owned"]))
            elif "orphans" in row:
                self.orphans.append(part_of(row["orphans"]))
            elif "missing" in row:
                self.missing[row["missing"][0], row["missing"][1]] = row["manifests"]
            else:
                self.findings.add(from_json(Findings, row, _ANSWER))
        if self.findings.rows != expected:
            raise MaintenanceError(
                f"Spark: expected {expected} rows in a match, found {self.findings.rows}; nothing was changed, and "
                "another attempt with the same scan id continues the scan",
                code="spark_failed",
            )
