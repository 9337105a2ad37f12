"""`undo`: take a run back, completely or not at all.

A run's objects can come back if the bucket keeps versions: the ledger names the delete marker of each object. Before an
undo changes anything, it checks everything. Each marker must be the current version of its key, and must hide an
object. The history must be the one that the run shortened. Every returning snapshot and changelog must be complete, in
the table as it will be. Otherwise the undo is refused and nothing changes.

The present objects decide, however often a run was undone. A late request of the run may have deleted objects again.
They come back, too, unless another run has deleted them.

If runs died, several runs may have worked on one plan. They are undone together.

A branch rewrite deletes only documents, and its plan contains them all. So it is undone in another way, by a plan of
its own (`operations/undo/branch_rewrites.py`). Deleted rows come back by a commit (`operations/undo/rows.py`).
"""

import dataclasses

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import acquire, read_lease
from lakesweep.control.plans import load_header
from lakesweep.control.reports import record_undone, store_report
from lakesweep.errors import RefusedError
from lakesweep.execute.attempt import Executed
from lakesweep.execute.undo import Undo, restore
from lakesweep.model.plan import Plan, moves_roots
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.operations.undo.branch_rewrites import OPERATION, undo_rewrite
from lakesweep.operations.undo.committed import DeletedRows
from lakesweep.operations.undo.record import RunRecord, load_record
from lakesweep.operations.undo.versions import plan_undo
from lakesweep.runs.execution import finish_begun, require_area
from lakesweep.runs.fleet import watched_ruling
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.receipts import run_receipt
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import Table
from lakesweep.runs.table_environment import environment

__all__ = ["OPERATION", "undo"]


def undo(table: Table, run_id: str, *, execute: bool) -> RunReport:
    """Take a run back, or say what that would restore. Nothing changes in a table that a fleet policy pauses."""
    area = require_area(table, "undo")
    try:
        if execute:
            _check_not_paused(table, run_id)
            if (finished := _finish_undo(table, area, run_id)) is not None:
                return finished
        record = load_record(area, run_id)
        branch = record.branch if isinstance(record, DeletedRows) else record.plan.header.branch
        table = dataclasses.replace(table, ref=dataclasses.replace(table.ref, branch=branch))
        report = _undo(table, area, record, run_id, execute=execute)
    except RefusedError as error:
        return refused(table, OPERATION, error)
    if record.undone_by is None or report.status != "nothing_to_do":
        return report
    before = f"run {run_id} was undone before, by run {record.undone_by}"
    if isinstance(record, RunRecord):
        before += ": all is there, and nothing is left to restore"
    return dataclasses.replace(report, warnings=(before, *report.warnings))


def _undo(table: Table, area: ControlArea, record: RunRecord | DeletedRows, run_id: str, *, execute: bool) -> RunReport:
    if isinstance(record, DeletedRows):
        # Imported only now: most undos need no vectors.
        from lakesweep.operations.undo.rows import undo_rows

        return undo_rows(table, area, record, execute=execute)
    if moves_roots(record.plan.actions):
        return undo_rewrite(table, record.plan, run_id, execute=execute)
    if execute:
        return _execute(table, area, run_id)
    planned = plan_undo(environment(table, area, record.plan), record)
    return _report(table, "planned" if planned.restores or planned.after else "nothing_to_do", run_id, planned)


def _finish_undo(table: Table, area: ControlArea, run_id: str) -> RunReport | None:
    """Finish an undo of this run that another process began; only the undo of a branch rewrite has a plan to finish."""
    lease = read_lease(area)
    if lease.intent is None:
        return None
    header = load_header(area, lease.intent.plan_id)
    if header.operation != OPERATION or header.arguments.get("run_id") != run_id:
        return None
    return finish_begun(table, lease)


def _check_not_paused(table: Table, run_id: str) -> None:
    try:
        watched_ruling(table)
    except RefusedError as error:
        raise RefusedError(
            f"{error}; run {run_id[:200]} can be undone when the pause is over", code=error.code
        ) from error


def _execute(table: Table, area: ControlArea, run_id: str) -> RunReport:
    started_ms = table.store.now_ms()
    own_id = new_id(started_ms)
    lease = acquire(area, own_id)
    try:
        record = load_record(area, run_id)  # read again under the lease: no other run can change it from here on
        assert isinstance(record, RunRecord)
        env = environment(table, area, record.plan).under(lease)
        planned = plan_undo(env, record, lease.check)
        executed = restore(env, planned, own_id, lease) if planned.restores or planned.after else None
        lease.freed_bytes = 0 if executed is None else executed.outcome.deleted_bytes
        if executed.status == "done" if executed is not None else record.undone_by is None:
            record_undone(area, record.plan.header.plan_id, own_id)
    finally:
        lease.release(ended=True)
    if executed is None:
        return _report(table, "nothing_to_do", run_id, planned)
    report = _report(table, "done" if executed.status == "done" else "partial", run_id, planned, own_id, executed)
    times_ms = (started_ms, table.store.now_ms())
    report = run_receipt(table, report)
    store_report(area, own_id, report.to_json(), report.all_warnings(), times_ms)
    return report


def _report(
    table: Table,
    status: Status,
    run_id: str,
    planned: Undo,
    own_id: str | None = None,
    executed: Executed | None = None,
) -> RunReport:
    undone = planned.undone.header
    header = dataclasses.replace(
        undone,
        operation=OPERATION,
        arguments={"run_id": run_id},
        policy={},
        kept={},
        warnings=planned.warnings,
        needs_confirmation=False,
        snapshots={
            "earliest": undone.snapshots.get("earliest"),
            "latest": undone.snapshots.get("latest"),
            "expired": [],
        },
        findings={} if moves_roots(planned.undone.actions) else undone.findings,
        action_count=len(planned.after),
        parts=(),
    )
    message = executed.message if executed is not None else ""
    return dataclasses.replace(
        report_of(table, OPERATION, status, Plan(header, tuple(each.action for each in planned.after))),
        run_id=own_id,
        executed=executed is not None,
        refusal=Refusal(executed.code, f"{message}; ask again to restore the rest") if executed and message else None,
        outcome=executed.outcome if executed is not None else None,
        restores=planned.restores,
    )
