"""The tour of all tables that asks for their scans for orphan files: a scan each, once in an interval.

A table costs one small read, and a new one a listing and a write besides. What a scan finds is quarantined: an orphan
goes when a scan a day or more before saw it already, so the first scan of a table only notes. Where the deployment or
the fleet policy observes, a scan plans and reports, and its plan is carried out by nobody; paused tables have no scans.
"""

from dataclasses import dataclass, replace

from lakesweep.aws.messages import OrphanScan, OrphanTour
from lakesweep.aws.orphan_schedule import Scheduled, next_step, read_scheduled, write_scheduled
from lakesweep.aws.places import Place, Walk, looks_like_table, places_of
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.errors import MaintenanceError, OutOfTimeError, PreconditionFailedError
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.table_ref import MAIN
from lakesweep.operations.context import Table
from lakesweep.operations.fleet import may_delete, read_policy, ruling_in
from lakesweep.operations.identifiers import new_id
from lakesweep.operations.run import require_area
from lakesweep.storage.deadline import Deadline
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter

QUARANTINE = "1 d"
AUTO = "auto"
"""The engine that a scan uses is chosen when it begins."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking tables; parts add up."""

    tables: int = 0
    begun: int = 0
    went_on: int = 0
    """Scans that had been silent and were asked for again."""
    failed: int = 0
    last: str | None = None
    """The last folder that was looked at."""

    def __add__(self, other: "Asked") -> "Asked":
        return Asked(
            tables=self.tables + other.tables,
            begun=self.begun + other.begun,
            went_on=self.went_on + other.went_on,
            failed=self.failed + other.failed,
            last=other.last or self.last,
        )


def orphan_tour(runtime: Runtime, message: OrphanTour, context: Context) -> Asked:
    """Ask for the scans that are due after `message.cursor`, as long as there is time; then hand the rest on.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: A folder could not be listed, or the policy not be read.
    """
    telemetry, tour = runtime.telemetry, _Tour(runtime, context)
    try:
        asked, is_finished = tour.make(message.cursor)
    except MaintenanceError:
        telemetry.count("RunsFailed")
        raise
    telemetry.count_requests(tour.counter.snapshot())
    telemetry.tell("a part of the tour for orphan files" if not is_finished else "the tour ended", tour=str(asked))
    if asked.failed:
        telemetry.count("RunsFailed", asked.failed)
    if not is_finished and not runtime.queues.again(OrphanTour(asked.last, message.hop), 0):
        telemetry.count("HopLimitReached")
        telemetry.warn("the tour was handed on too often; tables after the last one wait for the next", last=asked.last)
    return asked


class _Tour:
    """One part of a tour."""

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
        walk = Walk(places_of(settings, cursor, self.counter), Deadline(self._context.get_remaining_time_in_millis))
        is_finished = walk.ask(self._ask, found.append)
        return sum(found[1:], found[0]), is_finished

    def _ask(self, place: Place) -> Asked:
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
            telemetry.warn(f"orphan tour: {error}", table=location, code=error.code)
        except Exception:  # the tables after this one are asked all the same
            telemetry.logger.exception("an error that nobody foresaw", table=location)
        return Asked(tables=1, failed=1, last=location)

    def _look(self, table: Table, *, execute: bool) -> Asked:
        area, location = require_area(table), table.ref.location
        asked = Asked(tables=1, last=location)
        found, etag = read_scheduled(area)
        if found is None:
            # Any other folder of a database is none, and a scan of it would be refused every time.
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
        # Before the message: who dies in between leaves a scan that is asked for again, and not one that nobody knows.
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
        return False  # another tour, or the end of the scan, came first
    return True
