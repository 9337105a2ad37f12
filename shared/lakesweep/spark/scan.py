"""The scan for orphan files on Spark: its stages, and the state that it stores.

The driver collects the roots and reads their manifest lists. Executors decode manifests, list, and match. After each
stage the driver stores which parts count, in a document of the scan. If the scan dies, another attempt with the same id
continues from there. It uses the cutoff of the first attempt, but collects the roots again.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lakesweep import __version__
from lakesweep.control.area import ControlArea, to_json_bytes
from lakesweep.control.ndjson import pack, unpack
from lakesweep.control.quarantine import Quarantine, believed_quarantine, write_quarantine
from lakesweep.errors import FormatError, MaintenanceError, ObjectNotFoundError, RefusedError
from lakesweep.model.paths.layout import Layout, layout_of, layout_to_json
from lakesweep.model.plan import Plan
from lakesweep.model.report import Refusal, RunReport
from lakesweep.model.safety import PLAN_LIFETIME_MS
from lakesweep.model.scan_arguments import OrphanArguments
from lakesweep.operations.orphans.judging import Holding, Question, joined, outside_of
from lakesweep.operations.orphans.listing import Place, Shard, places_of_scan
from lakesweep.operations.orphans.parts import apart_of
from lakesweep.operations.orphans.rules.orphans import Totals
from lakesweep.operations.orphans.rules.totals import to_row, totals_of
from lakesweep.operations.orphans.scan import (
    Scanned,
    check_scan_id,
    check_table,
    cutoff_of,
    inventory_of,
    orphan_plan,
    own_branch,
    places_of,
    prefix_in,
    retained,
    schemas_of,
    stores_of,
)
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.run import require_area
from lakesweep.runs.session import Table
from lakesweep.spark.listing import Listed, ReadInventory, Sorter, list_places, read_files
from lakesweep.spark.live import NamedLiveSet, SparkDecode, write_own_names
from lakesweep.spark.match import live_frame, match
from lakesweep.spark.parts import Part, as_text, part_of, read_part
from lakesweep.spark.tasks import SCANS, Access, Row, check_workers, column_of, count_requests
from lakesweep.storage.open import StoreSettings
from lakesweep.table.inventory.manifest import Inventory
from lakesweep.table.inventory.reach import Reach, refuse_partial, refuse_too_old, settled_cutoff
from lakesweep.table.reach.capture import Capture, capture
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.reach.missing import MAX_ASKED, Missing, find_missing, whole_roots
from lakesweep.table.reach.named_entries import number_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_VERSION = 1


@dataclass(slots=True)
class SparkScan:
    """The Spark backend of orphan scans; see `lakesweep.runs.session.OrphanEngine`."""

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
            return _Scan(self.session, table, arguments, access, state, now_ms, self.stages_ms).plan()
        except FormatError as error:
            # Every attempt with this id would meet the same error, so tell the caller that waits for the scan.
            report = RunReport(
                operation="remove_orphan_files",
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
class State:
    """What the attempts of one scan have achieved."""

    scan_id: str
    now_ms: int
    manifests: set[str] = field(default_factory=set)
    live: list[Part] = field(default_factory=list)
    listed: Listed | None = None
    sorter: str = ""
    """The facts from which the listing's classes were made; see `_basis`."""


def folder_of(scan_id: str) -> str:
    """Return the folder of a scan in the area of its table's scans."""
    return f"{scan_id}/"


def scans_of(area: ControlArea) -> ControlArea:
    """Return the area of a table's scans. It is apart from lasting documents, so a bucket rule can delete old scans."""
    return replace(area, root=SCANS)


def read_state(table: Table, scan_id: str, arguments: OrphanArguments, now_ms: int) -> State:
    """Return what earlier attempts of a scan have achieved.

    Raises:
        RefusedError: They had other arguments or another version.
        FormatError: The stored state is damaged.
    """
    area = scans_of(require_area(table))
    name = f"{folder_of(scan_id)}state.ndjson.gz"
    try:
        rows = list(unpack(area.read(name).data, area.path(name), max_rows=None))
    except ObjectNotFoundError:
        return State(scan_id, now_ms)
    try:
        head, *rest = rows
        expected = _head(table, scan_id, arguments, int(str(head["now_ms"])))
        if head != expected:
            different = sorted(key for key in head.keys() | expected.keys() if head.get(key) != expected.get(key))
            raise RefusedError(
                f"table {table.ref}: scan {scan_id} began with another {different[0]}: expected "
                f"{expected.get(different[0])!r}, found {head.get(different[0])!r}; begin another scan",
                code="other_scan",
            )
        state = State(scan_id, int(str(head["now_ms"])))
        if now_ms - state.now_ms > PLAN_LIFETIME_MS:
            raise RefusedError(
                f"table {table.ref}: scan {scan_id} began {say_time(state.now_ms)}, so its plan would have expired; "
                "begin another scan",
                code="other_scan",
            )
        if state.now_ms > now_ms:  # a clock was ahead, so the cutoff is too late: young files would be orphans
            raise RefusedError(
                f"table {table.ref}: scan {scan_id} began {say_time(state.now_ms)}, which is in the future by the "
                "store's clock; begin another scan",
                code="other_scan",
            )
        for row in rest:
            _take(state, row)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{area.path(name)}: expected the state of a scan: {error!r}; begin another scan") from error
    return state


class _Scan:
    def __init__(
        self,
        session: "SparkSession",
        table: Table,
        arguments: OrphanArguments,
        access: Access,
        state: State,
        now_ms: int,
        stages_ms: dict[str, int],
    ) -> None:
        self._session = session
        self._table = table
        self._arguments = arguments
        self._access = access
        self._state = state
        self._now_ms = now_ms
        """When this attempt began. It collects the roots again."""
        self._area = require_area(table)
        self._scans = scans_of(self._area)
        self._folder = folder_of(state.scan_id)
        self._stages_ms = stages_ms
        self._stage_began_ms = table.clock_ms()

    def _ended(self, stage: str) -> None:
        now_ms = self._table.clock_ms()
        self._stages_ms[stage] = now_ms - self._stage_began_ms
        self._stage_began_ms = now_ms

    def plan(self) -> Plan:
        table, arguments, state = self._table, self._arguments, self._state
        cutoff_ms = cutoff_of(table, arguments, state.now_ms)
        found, live_parts = self._capture()
        self._ended("roots")
        own, schema = own_branch(table, found.listing)
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
            self._folder,
            confirm=inventory is not None,
            quarantine_digest=None if quarantine_ms is None else believed_quarantine(self._area),
        )
        matched = self._match(found, live_parts, listed, question)
        self._ended("match")
        if quarantine_ms is not None:
            self._write_quarantine(matched.orphans)
        # An inventory does not show younger files, so a file that it lacks may not be missing.
        missing = self._missing(found, live_parts, matched) if inventory is None else Missing()
        outside = outside_of(places, matched.totals, matched.others, listed.problems)
        totals, (files, size_bytes) = joined(places, matched.totals), matched.going
        scanned = Scanned(
            found, own, schema, state.now_ms, cutoff_ms, totals, outside, missing, files, size_bytes, inventory
        )
        return orphan_plan(table, arguments, scanned, apart=apart_of(question.plan_id, matched.plan))

    def _capture(self) -> tuple[Capture, list[Part]]:
        table, state = self._table, self._state

        def take(manifests: Sequence[str], parts: Sequence[Part]) -> None:
            state.manifests.update(manifests)
            state.live += parts
            self._write_state()

        live = NamedLiveSet(manifests=set(state.manifests))
        decode = SparkDecode(self._session, self._access, self._folder, table.counter, take)
        found = capture(table.store, table.sleep, partial(check_table, table), live, decode)
        return found, [*state.live, *write_own_names(self._scans, self._folder, live)]

    def _list(self, found: Capture, places: tuple[Place, ...], inventory: Inventory | None) -> Listed:
        table, state = self._table, self._state
        layout = layout_of(schema for _, schema in schemas_of(table, found.listing))
        sorter = Sorter(layout, places, self._folder)
        basis = _basis(layout, places, inventory)
        if state.listed is None or state.sorter != basis:  # a new kind of schema may change the classes of files
            shards = [Shard(number) for number, place in enumerate(places) if inventory is None or not place.is_table]
            state.listed = Listed(shards=shards, totals=[Totals() for _ in places])
            state.listed.files = [] if inventory is None else list(range(len(inventory.files)))
            state.sorter = basis

        def on_round(listed: Listed) -> None:
            self._write_state()
            seen = sum(totals.objects for totals in listed.totals)
            table.progress(seen, seen)

        if inventory is not None:
            work = ReadInventory(sorter, inventory, prefix_in(inventory, table))
            read_files(self._session, self._access, work, state.listed, table.counter, on_round)
            refuse_partial(str(table.ref), table.store, inventory, state.listed.reach)
        list_places(self._session, self._access, sorter, state.listed, table.counter, on_round)
        return state.listed

    def _match(self, found: Capture, live: Sequence[Part], listed: Listed, question: Question) -> "_Matched":
        holders = Holders(found.reader, whole_roots(self._table.store, found))
        holdings = {
            number_of(name): Holding(each.state, each.changes, each.replay) for name, each in holders.manifests()
        }
        matched = _Matched([_copy(totals) for totals in listed.totals], [[0, 0] for _ in question.places])
        answers = match(self._session, self._access, live, listed.parts, question, holdings)
        matched.take(count_requests(self._table.counter, answers), [*live, *listed.parts])
        if matched.owned:
            again = replace(question, by_owner=True)
            answers = match(self._session, self._access, live, matched.owned, again, {})
            matched.take(count_requests(self._table.counter, answers), [*live, *matched.owned])
        return matched

    def _missing(self, found: Capture, live: Sequence[Part], matched: "_Matched") -> Missing:
        if not matched.missing:
            return Missing()
        from pyspark.sql import functions as f

        asked = sorted(matched.missing)[:MAX_ASKED]
        beyond = matched.unseen - len(asked)
        keys = self._session.createDataFrame(asked, "h1 long, h2 long")
        frame = live_frame(self._session, self._access, live, with_names=True)
        names = column_of(frame.join(f.broadcast(keys), ["h1", "h2"]).select("name").distinct(), "name")
        beyond += max(0, len(asked) - len(names))  # names that Spark did not return are unknown, not present
        unseen = frozenset(name_hash(as_text(bytes(name))) for name in names)
        numbers = {number for key in asked for number in matched.missing[key]}
        missing = find_missing(
            self._table.store,
            found,
            lambda: stores_of(self._table, found),
            unseen=unseen,
            among=lambda name: number_of(name) in numbers,
        )
        return replace(missing, unknown=missing.unknown + beyond)

    def _write_quarantine(self, parts: Iterable[Part]) -> None:
        known: dict[tuple[str, str, int], int] = {}
        orphans = []
        for part in parts:
            for key, etag, modified_ms, seen_ms in zip(
                *(column.to_pylist() for column in read_part(self._scans, part).columns), strict=True
            ):
                orphan = (as_text(key), etag, modified_ms)
                orphans.append(orphan)
                if seen_ms is not None:
                    known[orphan] = seen_ms
        # The quarantine starts with this attempt. A file that is an orphan now may have been live for earlier attempts.
        write_quarantine(self._area, Quarantine(known), orphans, self._now_ms)

    def _write_state(self) -> None:
        state = self._state
        rows: list[dict[str, object]] = [_head(self._table, state.scan_id, self._arguments, state.now_ms)]
        rows += [{"manifest": name} for name in sorted(state.manifests)]
        rows += [{"live": asdict(part)} for part in state.live]
        if state.listed is not None:
            listed = state.listed
            rows.append(
                {
                    "sorter": state.sorter,
                    "totals": [to_row(totals) for totals in listed.totals],
                    "nested": sorted(listed.nested),
                    "problems": [[number, text] for number, text in sorted(listed.problems.items())],
                    "rounds": listed.rounds,
                    "files": listed.files,
                    "reach": [listed.reach.first, listed.reach.last],
                }
            )
            rows += [{"listing": asdict(part)} for part in listed.parts]
            rows += [{"shard": asdict(shard)} for shard in listed.shards]
        self._scans.put(f"{self._folder}state.ndjson.gz", pack(rows))


@dataclass(slots=True)
class _Matched:
    """The findings of the match."""

    totals: list[Totals]
    others: list[list[int]]
    plan: list[Row] = field(default_factory=list)
    owned: list[Part] = field(default_factory=list)
    orphans: list[Part] = field(default_factory=list)
    missing: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    unseen: int = 0
    going: list[int] = field(default_factory=lambda: [0, 0])

    def take(self, rows: Iterable[Row], parts: Iterable[Part]) -> None:
        """Add the answers of a match of all rows of some parts.

        Raises:
            MaintenanceError: The match saw fewer or more rows. The file of a live name that it did not see would look
                like an orphan.
        """
        expected, seen = sum(part.rows for part in parts), 0
        for row in rows:
            if "plan" in row:
                self.plan.append(row)
            elif "owned" in row:
                self.owned.append(part_of(row["owned"]))
            elif "orphans" in row:
                self.orphans.append(part_of(row["orphans"]))
            elif "missing" in row:
                self.missing[row["missing"][0], row["missing"][1]] = row["manifests"]
            else:
                for totals, others, found, more in zip(
                    self.totals, self.others, row["totals"], row["others"], strict=True
                ):
                    totals.add(totals_of(found))
                    others[:] = [one + other for one, other in zip(others, more, strict=True)]
                self.going = [one + other for one, other in zip(self.going, row["going"], strict=True)]
                self.unseen += row["unseen"]
                seen += row["rows"]
        if seen != expected:
            raise MaintenanceError(
                f"Spark: expected {expected} rows in a match, found {seen}; nothing was changed, and another attempt "
                "with the same scan id continues the scan",
                code="spark_failed",
            )


def _basis(layout: Layout, places: Sequence[Place], inventory: Inventory | None) -> str:
    """Return a text of the facts that classes are made from. Equal facts have equal texts, in any process."""
    md5 = None if inventory is None else inventory.md5
    return json.dumps([layout_to_json(layout), [asdict(place) for place in places], md5], sort_keys=True)


def _head(table: Table, scan_id: str, arguments: OrphanArguments, now_ms: int) -> dict[str, object]:
    return {
        "state_version": STATE_VERSION,
        "code_version": __version__,
        "table": table.ref.location,
        "branch": table.ref.branch,
        "scan_id": scan_id,
        "now_ms": now_ms,
        "arguments": arguments.to_json(),
    }


def _take(state: State, row: dict[str, Any]) -> None:
    """Add one row of the stored state."""
    if "manifest" in row:
        state.manifests.add(str(row["manifest"]))
    elif "live" in row:
        state.live.append(_part_in(row["live"]))
    elif "sorter" in row:
        state.sorter = row["sorter"]
        state.listed = Listed(
            totals=[totals_of(totals) for totals in row["totals"]],
            nested=set(row["nested"]),
            problems=dict(row["problems"]),
            rounds=row["rounds"],
            files=row["files"],
            reach=Reach(*row["reach"]),
        )
    elif state.listed is not None and "listing" in row:
        state.listed.parts.append(_part_in(row["listing"]))
    elif state.listed is not None and "shard" in row:
        state.listed.shards.append(_shard_in(row["shard"], len(state.listed.totals)))
    else:
        raise ValueError(sorted(row))


def _part_in(row: dict[str, Any]) -> Part:
    if not isinstance(row["name"], str) or not isinstance(row["rows"], int) or not isinstance(row["hash"], str):
        raise ValueError(row)
    return Part(**row)


def _shard_in(row: dict[str, Any], place_count: int) -> Shard:
    are_numbers = isinstance(row["place"], int) and isinstance(row["climb"], int)
    if not are_numbers or not isinstance(row["after"], str) or not isinstance(row["until"], str | None):
        raise ValueError(row)
    if not 0 <= row["place"] < place_count:
        raise ValueError(row)
    return Shard(**row)


def _copy(totals: Totals) -> Totals:
    copy = Totals()
    copy.add(totals)
    return copy
