"""The table sweep that requests scans for orphan files: one scan of each table in an interval.

It costs one small read per table; a new table costs a listing and a write in addition. The scans use a quarantine:
Lakesweep deletes an orphan only if a scan saw it a day or more before. So the first scan of a table only notes orphans.
If the deployment or the fleet policy observes a table, a scan plans and reports, but the plan is not executed. Paused
tables are not scanned.
"""

from collections.abc import Iterator
from dataclasses import replace

from lakesweep.aws.messages import OrphanScan, OrphanSweep
from lakesweep.aws.places import looks_like_table
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.scans.schedule import Scheduled, next_step, read_scheduled, write_scheduled
from lakesweep.aws.sweeps.tables import TableSweep, sweep_tables
from lakesweep.errors import PreconditionFailedError
from lakesweep.model.roots import MAIN
from lakesweep.runs.execution import require_area
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.session import Table

QUARANTINE = "1 d"
AUTO = "auto"
"""The backend is chosen when the scan begins."""


def orphan_sweep(runtime: Runtime, message: OrphanSweep, context: Context) -> TableSweep:
    """Request the scans that are due after `message.cursor` while time is left; see `sweep_tables`."""
    return sweep_tables(runtime, message, context, _ask, name="table sweep for orphan files")


def _ask(runtime: Runtime, table: Table, execute: bool) -> Iterator[TableSweep]:
    area, location = require_area(table), table.ref.location
    found, etag = read_scheduled(area)
    now_ms = area.store.now_ms()
    if found is None:
        # A folder of a database that is not a table gets no document, since a scan of it would be refused every time.
        if looks_like_table(table.store):
            _write(table, Scheduled(now_ms), etag)
        return
    step = next_step(found, location, now_ms, runtime.settings.orphan_interval_ms)
    if step == "wait" or (step == "begin" and not looks_like_table(table.store)):
        return
    wanted = replace(found, asked_ms=now_ms)
    if step == "begin":
        wanted = replace(wanted, scan_id=new_id(now_ms), began_ms=now_ms, ended_ms=None, status=None)
    # Write before the message. If the function dies in between, the scan is requested again. In the other order the
    # scan would be unknown.
    if wanted.scan_id is None or not _write(table, wanted, etag):
        return
    arguments = {"engine": AUTO, "quarantine": QUARANTINE}
    runtime.queues.ask_for_orphan_scan(OrphanScan(location, wanted.scan_id, MAIN, arguments, execute))
    yield TableSweep(due=int(step == "begin"), again=int(step == "go_on"))


def _write(table: Table, document: Scheduled, etag: str | None) -> bool:
    try:
        write_scheduled(require_area(table), document, etag)
    except PreconditionFailedError:
        return False  # another sweep, or the end of the scan, came first
    return True
