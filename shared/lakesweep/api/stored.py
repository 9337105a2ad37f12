"""Stored plans and reports, for callers that name them."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lakesweep.api.opening import require_control
from lakesweep.api.unreported import undoable, unreported_row
from lakesweep.control.area import ControlArea
from lakesweep.control.audit.unreported import is_known, known_runs, runs_of_lease, unreported
from lakesweep.control.expired import explained, has_plan, load_known
from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.control.plans import load_listed, plan_ids
from lakesweep.control.reports import PlanEnd, load_report, plan_end
from lakesweep.errors import FormatError, RefusedError, UsageError
from lakesweep.model.plan import Delete, Plan, Put
from lakesweep.model.receipt import usd_in
from lakesweep.model.report import RunReport
from lakesweep.runs.database import is_table
from lakesweep.runs.execution import LOCAL, PlanExecutor
from lakesweep.runs.parameters.signatures import operation_named
from lakesweep.runs.parameters.times import parse_span_ms
from lakesweep.runs.run import execute_stored
from lakesweep.runs.session import Table
from lakesweep.storage.open import noncurrent_days

Document = dict[str, Any]

_PARALLEL = 16
_DAY_MS = 86_400_000
UNREADABLE = "unreadable"
"""Status of a plan or run whose documents cannot be read; `problem` tells why."""
_PLAN_ROW = (
    *("plan_id", "operation", "branch", "created_ms", "expires_ms", "status", "run_id", "needs_confirmation"),
    *("action_count", "expired_snapshot_count", "withdrawn_snapshot_count", "written_snapshot_count", "problem"),
)
_RUN_ROW = (
    *("run_id", "operation", "branch", "plan_id", "started_ms", "finished_ms", "status", "deleted", "failed_count"),
    *("bytes", "usd", "committed", "finished_by", "undoable", "undoable_reason", "undoable_until_ms", "problem"),
)
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def execute_plan(
    table: Table,
    plan_id: str,
    *,
    branch: str | None,
    confirm: str | None,
    grace: str | None,
    engine: PlanExecutor = LOCAL,
    show: Callable[[Table, Plan], None],
) -> RunReport:
    """Execute a stored plan on its branch. If `branch` is given, the plan must be of that branch.

    `show` is called with the plan before the execution begins.
    """
    grace_ms = 0 if grace is None else parse_span_ms(grace, "--grace")
    if branch is None:
        planned = load_known(require_control(table), plan_id).branch
        table = dataclasses.replace(table, ref=dataclasses.replace(table.ref, branch=planned))
    return execute_stored(
        table, plan_id, confirm=confirm, grace_ms=grace_ms, engine=engine, show=lambda plan: show(table, plan)
    )


def list_plans(table: Table, limit: int) -> Document:
    """Return the newest plans of a table, newest first."""
    area = require_control(table)
    now_ms = table.store.now_ms()
    intent = read_lease(area).intent
    begun = None if intent is None else intent.plan_id
    ids = plan_ids(area)
    rows = _newest(ids, limit, "created_ms", lambda plan_id: _plan(area, plan_id, begun, now_ms))
    return {"table": table.ref.location, "plans": rows or none_of(table)}


def none_of(table: Table) -> list[Document]:
    """Return no rows for an existing table. For a deleted table, the stored documents are listed all the same.

    Raises:
        RefusedError: There is no table.
    """
    if not is_table(table.store):
        raise RefusedError(
            f"{table.ref.location}: expected a Paimon table directory, found no schema/schema-<n> there",
            code="not_a_table",
        )
    return []


def _plan(area: ControlArea, plan_id: str, begun: str | None, now_ms: int) -> Document | None:
    """Return the row of a plan. A plan that cannot be read does not affect other rows; `None`: it is gone by now."""
    row: Document = dict.fromkeys(_PLAN_ROW)
    try:
        return row | _plan_row(area, plan_id, begun, now_ms)
    except (FormatError, RefusedError) as error:
        if not has_plan(area, plan_id):  # its parts go after its header
            return None
        return row | {"plan_id": plan_id, "status": UNREADABLE, "problem": str(error)}


def _plan_row(area: ControlArea, plan_id: str, begun: str | None, now_ms: int) -> Document:
    return row_of(load_listed(area, plan_id), plan_end(area, plan_id), begun, now_ms)


def row_of(plan: Plan, end: PlanEnd | None, begun: str | None, now_ms: int) -> Document:
    """Return the row of a plan that was read.

    Args:
        plan: The plan; its actions count only in a branch rewrite.
        end: How it ended.
        begun: The id of the plan that the lease names.
        now_ms: The time.
    """
    header = plan.header
    if header.plan_id == begun:
        status = "partial"
    elif end is not None:
        status = end.status
    else:
        status = "expired" if now_ms >= header.expires_ms else "waiting"
    expired = header.snapshots.get("expired")
    of_header = ("plan_id", "operation", "branch", "created_ms", "expires_ms", "needs_confirmation", "action_count")
    return {
        **{name: getattr(header, name) for name in of_header},
        "status": status,
        "run_id": None if end is None else end.run_id,
        "expired_snapshot_count": len(expired) if isinstance(expired, list) else 0,
        "withdrawn_snapshot_count": len(_paths(plan, before=True)),
        "written_snapshot_count": len(_paths(plan, before=False)),
    }


def _paths(plan: Plan, *, before: bool) -> frozenset[str]:
    """Return the paths of the snapshots that a plan deletes or replaces; or with `before` false, that it writes."""
    snapshots = (action for action in plan.actions if action.kind == "snapshot")
    return frozenset(
        action.path
        for action in snapshots
        if (isinstance(action, Delete) or action.former is not None if before else isinstance(action, Put))
    )


@dataclasses.dataclass(frozen=True, slots=True)
class TableRuns:
    """The runs of one table, of which none has been read."""

    table: Table
    area: ControlArea
    ids: Sequence[str]
    """The newest first."""
    lease: LeaseDocument | FormatError
    days: int | None
    """After how many days the bucket removes deleted objects for good."""
    now_ms: int
    warnings: tuple[str, ...]

    @property
    def under_way(self) -> frozenset[str]:
        """Return the runs that the lease names."""
        return frozenset() if isinstance(self.lease, FormatError) else frozenset(runs_of_lease(self.lease))

    def row(self, run_id: str) -> Document | None:
        """Return the row of one run."""
        return _run(self.area, run_id, self.lease, self.days, self.now_ms)


def runs_of(table: Table, most: int | None, since: str = "") -> TableRuns:
    """Return which runs a table has.

    With a damaged lease the rows of runs without a report are unreadable: it is unknown whether these runs are under
    way.

    Args:
        table: Which one.
        most: How many, the newest first; `None` for all.
        since: Only ids from this one on, and the runs of the lease.
    """
    area = require_control(table)
    days = noncurrent_days(table.store)
    now_ms = 0 if days is None else table.store.now_ms()
    problems: list[str] = []
    lease: LeaseDocument | FormatError
    try:
        lease = read_lease(area)
    except FormatError as error:
        lease = error
        problems.append(f"{error}; a run that has no report may be missing here")
    known = LeaseDocument(None) if isinstance(lease, FormatError) else lease
    ids = known_runs(area, known, most, since)
    return TableRuns(table, area, ids, lease, days, now_ms, tuple(problems))


def list_runs(table: Table, limit: int | None, since: str = "") -> Document:
    """Return the newest runs of a table, newest first; with a limit of `None` all. See `runs_of`."""
    runs = runs_of(table, None if limit is None else max(limit, 1), since)
    return {
        "table": table.ref.location,
        "runs": _newest(runs.ids, limit, "started_ms", runs.row) or none_of(table),
        "warnings": list(runs.warnings),
    }


def _run(area: ControlArea, run_id: str, lease: LeaseDocument | FormatError, days: int | None, now_ms: int) -> Document:
    """Return the row of a run. A report that cannot be read does not affect other rows."""
    row: Document = {**dict.fromkeys(_RUN_ROW), "run_id": run_id}
    try:
        return row | _run_row(area, run_id, lease, days, now_ms)
    except (FormatError, RefusedError) as error:
        return row | {"status": UNREADABLE, "undoable": False, "undoable_reason": error.code, "problem": str(error)}


def _run_row(
    area: ControlArea, run_id: str, lease: LeaseDocument | FormatError, days: int | None, now_ms: int
) -> Document:
    try:
        stored: Document = load_report(area, run_id)
    except RefusedError:
        if isinstance(lease, FormatError):
            raise lease from None
        return unreported_row(area, run_id, lease, days, now_ms)
    report: Document = stored["report"]
    outcome: Document = report.get("outcome") or {}
    return {
        "operation": operation_named(report["operation"]),
        **{name: report.get(name) for name in ("branch", "plan_id", "status")},
        **{name: stored.get(name) for name in ("started_ms", "finished_ms")},
        **{name: outcome.get(name, 0) for name in ("deleted", "bytes")},
        "failed_count": len(outcome.get("failed", ())),
        "usd": usd_in(report.get("receipt")),
        "committed": list(_snapshots_made(report.get("commits"))),
        **undoable(area, run_id, stored["started_ms"], days, now_ms),
    }


def _snapshots_made(commits: object) -> tuple[int, ...]:
    """Return the ids of the snapshots that a stored report says its run committed. The report may be damaged."""
    made = commits.get("made") if isinstance(commits, Mapping) else None
    ids = [each.get("snapshot_id") for each in made if isinstance(each, Mapping)] if isinstance(made, list) else []
    return tuple(each for each in ids if isinstance(each, int))


def stored_report(table: Table, run_id: str) -> Document:
    """Return the report of a run as it is stored.

    Raises:
        RefusedError: The table has no such run.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise RefusedError(f"table {table.ref}: {run_id[:200]!r} is not a run id", code="no_such_run")
    area = require_control(table)
    try:
        return load_report(area, run_id)
    except RefusedError as error:
        lease = read_lease(area)
        told = explained(error, area, f"reports/{run_id}.json", run_id)
        if told is not error or not is_known(area, run_id, lease):
            raise told from error
        run = unreported(area, run_id, lease, area.store.now_ms())
        state = "is under way" if run.status == "running" else "ended before it could write one"
        came = "the number of objects it deleted is unknown, since a part of its ledger cannot be read"
        if run.commit is not None:
            came = f"it committed snapshot {run.commit[1]}, as lakesweep runs TABLE shows"
        elif run.deleted is not None:
            came = f"it deleted {run.deleted} objects so far, as lakesweep runs TABLE shows"
        raise RefusedError(
            f"table {table.ref}: expected a report of run {run_id}, found none: the run {state}; {came}",
            code="run_unfinished",
        ) from error


def _newest(ids: Sequence[str], limit: int | None, time: str, row: Callable[[str], Document | None]) -> list[Document]:
    """Return the newest rows, newest first."""
    asked = newest_ids(ids, limit)
    with ThreadPoolExecutor(max_workers=_PARALLEL) as pool:
        found = [each for each in pool.map(row, asked) if each is not None]
    return sorted(found, key=lambda each: int(each[time] or 0), reverse=True)[:limit]


def newest_ids(ids: Sequence[str], limit: int | None) -> list[str]:
    """Return the newest ids, newest first; with a limit of `None` all.

    Ids do not tell the order within a second, so all of the last second are returned.

    Raises:
        UsageError: The limit is below 1.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit: expected at least 1, found {limit}", code="bad_argument")
    newest = sorted(ids, reverse=True)
    last_second = "" if limit is None else max(newest[limit - 1 : limit], default="").partition("-")[0]
    return [each for each in newest if each >= last_second]
