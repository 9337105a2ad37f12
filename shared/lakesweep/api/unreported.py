"""How far a run can be undone, and the row of a run without a report, for lists of runs."""

from typing import Any

from lakesweep.control.area import ControlArea
from lakesweep.control.audit.unreported import unreported
from lakesweep.control.expired import expired_document
from lakesweep.control.lease import LeaseDocument
from lakesweep.control.plans import load_header
from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.safety import KEEP_PLANS_MS
from lakesweep.operations.undo.committed import DeletedRows
from lakesweep.operations.undo.record import UNKNOWN_RESULT, RunRecord, load_record

Document = dict[str, Any]

EXPIRED = "expired"
"""Status of a run whose report housekeeping deleted."""
_DAY_MS = 86_400_000


def undoable(area: ControlArea, run_id: str, started_ms: int, days: int | None, now_ms: int) -> Document:
    """Tell whether a run can be undone, judging by the control location and the bucket's rules, for its row."""
    until_ms = None if days is None else started_ms + days * _DAY_MS
    reason = None if until_ms is None or now_ms < until_ms else "expired"
    try:
        record = load_record(area, run_id)
        # Its plan holds the deleted documents, or the table's snapshots the deleted rows.
        if isinstance(record, DeletedRows) or all(each.version_id is None for each in record.restores):
            until_ms = reason = None
        if record.undone_by is not None:
            reason = "undone"
        elif isinstance(record, RunRecord) and not record.is_told:
            reason = UNKNOWN_RESULT
    except (FormatError, RefusedError) as error:
        reason = error.code
    return {
        "undoable": reason is None,
        "undoable_reason": reason,
        "undoable_until_ms": until_ms if reason is None else None,
    }


def unreported_row(area: ControlArea, run_id: str, lease: LeaseDocument, days: int | None, now_ms: int) -> Document:
    """Return the row of a run without a report: it is under way, died, or its report has expired."""
    run = unreported(area, run_id, lease, area.store.now_ms())
    header = None
    if run.plan_id is not None:
        try:
            header = load_header(area, run.plan_id)
        except (FormatError, RefusedError):  # the plan is gone or damaged, but the run is still known
            header = None
    of_run = ("plan_id", "started_ms", "status", "deleted", "bytes", "finished_by")
    age_ms = area.store.now_ms() - (run.started_ms or 0)
    has_expired = (
        run.status == "unfinished"
        and age_ms > KEEP_PLANS_MS
        and expired_document(area, f"reports/{run_id}.json", run_id) is not None
    )
    branch, *committed = run.commit or (None,)
    return {
        "operation": getattr(header, "operation", None),
        "branch": getattr(header, "branch", branch),
        **{name: getattr(run, name) for name in of_run},
        **({"status": EXPIRED} if has_expired else {}),
        "failed_count": run.failed,
        "committed": committed or None,
        **undoable(area, run_id, run.started_ms or 0, days, now_ms),
    }
