"""The table sweep that requests scans for orphan files: one scan of each table in an interval.

It costs one small read per table; a new table costs a listing and a write in addition. The scans use a quarantine:
Lakesweep deletes an orphan only if a scan saw it a day or more before. So the first scan of a table only notes orphans.
If the deployment or the fleet policy observes a table, a scan plans and reports, but the plan is not executed. Paused
tables are not scanned.
"""

from dataclasses import dataclass, replace

from lakesweep.aws.messages import OrphanScan, OrphanSweep
from lakesweep.aws.places import FolderVisits, TableFolder, looks_like_table, places_of
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.scans.schedule import Scheduled, next_step, read_scheduled, write_scheduled
from lakesweep.errors import MaintenanceError, OutOfTimeError, PreconditionFailedError
from lakesweep.model.policy import FleetPolicy
from lakesweep.model.roots import MAIN
from lakesweep.runs.execution import require_area
from lakesweep.runs.fleet import may_delete, read_policy, ruling_in
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.session import Table
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.wrappers.deadline import Deadline

QUARANTINE = "1 d"
AUTO = "auto"
"""The backend is chosen when the scan begins."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The result of a part of a table sweep; parts add up."""

    tables: int = 0
    begun: int = 0
    went_on: int = 0
    """Scans that had been silent and were requested again."""
    failed: int = 0
    last: str | None = None
    """The last folder that was visited."""

    def __add__(self, other: "Asked") -> "Asked":
        return Asked(
            tables=self.tables + other.tables,
            begun=self.begun + other.begun,
            went_on=self.went_on + other.went_on,
            failed=self.failed + other.failed,
            last=other.last or self.last,
        )


def orphan_sweep(runtime: Runtime, message: OrphanSweep, context: Context) -> Asked:
    """Request the scans that are due after `message.cursor` while time is left; then hand the rest on.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: A folder could not be listed, or the policy could not be read.
    """
    telemetry, sweep = runtime.telemetry, _TableSweep(runtime, context)
    try:
        asked, is_finished = sweep.make(message.cursor)
    except MaintenanceError:
        telemetry.count("RunsFailed")
        raise
    telemetry.count_requests(sweep.counter.snapshot())
    what = "the table sweep for orphan files ended" if is_finished else "a part of the table sweep for orphan files"
    telemetry.tell(what, sweep=str(asked))
    if asked.failed:
        telemetry.count("RunsFailed", asked.failed)
    if not is_finished and not runtime.queues.again(OrphanSweep(asked.last, message.hop), 0):
        telemetry.count("HopLimitReached")
        telemetry.warn(
            "the table sweep was handed on too often; the next one visits the tables after the last", last=asked.last
        )
    return asked


class _TableSweep:
    """One part of a table sweep."""

    def __init__(self, runtime: Runtime, context: Context) -> None:
        self._runtime = runtime
        self._context = context
        self.counter = RequestCounter()
        self._policy: FleetPolicy | None = None
        self._now_ms = 0

    def make(self, cursor: str | None) -> tuple[Asked, bool]:
        settings = self._runtime.settings
        self._now_ms = open_store(settings.control, counter=self.counter).now_ms()
        if settings.policy is not None:
            self._policy = read_policy(lambda place: open_store(place, counter=self.counter), settings.policy)
        found = [Asked(last=cursor)]
        walk = FolderVisits(
            places_of(settings, cursor, self.counter), Deadline(self._context.get_remaining_time_in_millis)
        )
        is_finished = walk.ask(self._ask, found.append)
        return sum(found[1:], found[0]), is_finished

    def _ask(self, place: TableFolder) -> Asked:
        location, telemetry = place.location, self._runtime.telemetry
        if not place.is_table or not self._runtime.settings.allows(location):
            return Asked(last=location)
        try:
            ruling = ruling_in(self._policy, location)
            if ruling is not None and ruling.rule is not None and ruling.rule.paused:
                return Asked(tables=1, last=location)
            table = self._runtime.open_table(location, MAIN, self._context, self.counter)
            return self._look(table, execute=self._runtime.settings.may_delete and may_delete(ruling))
        except OutOfTimeError:
            raise
        except MaintenanceError as error:
            telemetry.warn(f"table sweep for orphan files: {error}", table=location, code=error.code)
        except Exception:  # the table sweep continues with the next table
            telemetry.logger.exception("an unexpected error", table=location)
        return Asked(tables=1, failed=1, last=location)

    def _look(self, table: Table, *, execute: bool) -> Asked:
        area, location = require_area(table), table.ref.location
        asked = Asked(tables=1, last=location)
        found, etag = read_scheduled(area)
        if found is None:
            # A folder of a database that is not a table gets no document, since a scan of it would be refused every
            # time.
            if looks_like_table(table.store):
                _write(table, Scheduled(self._now_ms), etag)
            return asked
        step = next_step(found, location, self._now_ms, self._runtime.settings.orphan_interval_ms)
        if step == "wait" or (step == "begin" and not looks_like_table(table.store)):
            return asked
        wanted = replace(found, asked_ms=self._now_ms)
        if step == "begin":
            scan_id, began_ms = new_id(self._now_ms), self._now_ms
            wanted = replace(wanted, scan_id=scan_id, began_ms=began_ms, ended_ms=None, status=None)
        # Write before the message. If the function dies in between, the scan is requested again. In the other order the
        # scan would be unknown.
        if wanted.scan_id is None or not _write(table, wanted, etag):
            return asked
        arguments = {"engine": AUTO, "quarantine": QUARANTINE}
        scan = OrphanScan(location, wanted.scan_id, MAIN, arguments, execute)
        self._runtime.queues.ask_for_orphan_scan(scan)
        return replace(asked, begun=int(step == "begin"), went_on=int(step == "go_on"))


def _write(table: Table, document: Scheduled, etag: str | None) -> bool:
    try:
        write_scheduled(require_area(table), document, etag)
    except PreconditionFailedError:
        return False  # another sweep, or the end of the scan, came first
    return True
