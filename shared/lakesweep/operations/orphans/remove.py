"""Run a scan for orphan files on the requested or cheapest backend, and record what it cost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakesweep.control.plans import load_plan
from lakesweep.errors import RefusedError, UsageError
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.backends import choose, describe_estimate
from lakesweep.operations.orphans.costs import compare, happened, note
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.operations.orphans.rules.backend_choice import Choice
from lakesweep.operations.orphans.scan import OPERATION
from lakesweep.runs.execution import require_area
from lakesweep.runs.receipts import is_paid
from lakesweep.runs.reports import refused
from lakesweep.runs.run import SHOWN_ACTIONS, execute_stored, plan_and_execute, plan_only
from lakesweep.runs.session import RemoteBackend, ScanBackend, Table

AUTO, LOCAL, LAMBDA, SPARK = ENGINES = ("auto", "local", "lambda", "spark")
_NOT_THERE = {
    LAMBDA: "it has no queue of a deployment; expected --scan-queue or $LAKESWEEP_SCAN_QUEUE",
    SPARK: "this process has no Spark; expected the command line, or jobs/remove_orphan_files.py",
}
_CODES = {LAMBDA: "no_functions", SPARK: "no_spark"}


@dataclass(slots=True)
class _Scan:
    """One call, from the choice of the backend to the record of its cost."""

    table: Table
    arguments: OrphanArguments
    engine: str
    choice: Choice | None = None
    began_ms: int = 0
    ended_ms: int = 0
    requests: Mapping[str, int] | None = None
    """Only of the planning; `None`: no plan was made."""

    @property
    def estimate(self) -> Mapping[str, object] | None:
        return self.choice.estimate.to_json() if self.choice is not None else None

    def plan(self, plan: Callable[[Table, OrphanArguments], Plan], table: Table) -> Plan:
        """Plan, and count the requests."""
        before = table.counter.snapshot()
        self.began_ms = table.clock_ms()
        made = plan(table, self.arguments)
        self.ended_ms = table.clock_ms()
        after = table.counter.snapshot()
        self.requests = {kind: after[kind] - before[kind] for kind in after}
        return made

    def happened(self) -> dict[str, Any] | None:
        """Return what the planning cost."""
        if self.requests is None:
            return None
        seconds = (self.ended_ms - self.began_ms) / 1000
        return happened(self.engine, self.requests, seconds, self.estimate, is_paid=is_paid(self.table))


def remove_orphan_files(table: Table, arguments: OrphanArguments, engine: str | None, *, execute: bool) -> RunReport:
    """Find orphan files, and delete them.

    Args:
        table: All branches of it.
        arguments: The arguments of the call.
        engine: One of `ENGINES`; `None` means this process.
        execute: If false, nothing in the table changes.

    Raises:
        UsageError: The backend is not available here, or an argument is invalid.
        MaintenanceError: As `plan_remove_orphan_files`.
    """
    scan = _Scan(table, arguments, engine or LOCAL)
    if engine == AUTO:
        try:
            _choose(scan)
        except RefusedError as error:
            return refused(table, OPERATION, error)
    elsewhere = _elsewhere(table, scan.engine)
    planner = plan_remove_orphan_files if elsewhere is None else elsewhere.plan
    run = _run_stored if isinstance(elsewhere, RemoteBackend) else _run
    report = run(table, lambda target: scan.plan(planner, target), execute=execute)
    if elsewhere is not None:
        elsewhere.finished(table, report)
    what: Mapping[str, Any] | None = scan.happened()
    estimate = scan.estimate
    if isinstance(elsewhere, RemoteBackend):
        what, estimate = elsewhere.happened, elsewhere.estimate or estimate
    if estimate is not None and what is not None:
        table.say(f"engine {scan.engine}: {compare(estimate, what)}")
    _remember(scan, report, what)
    if engine is None:
        return report
    reason = scan.choice.reason if scan.choice is not None else None
    return replace(report, engine={"name": scan.engine, "reason": reason, "estimate": estimate, "happened": what})


def _choose(scan: _Scan) -> None:
    """Choose a backend, and say which and why."""
    table = scan.table
    scan.engine = LOCAL
    if table.available is None:
        return
    scan.choice = choice = choose(table, scan.arguments, table.available)
    scan.engine = choice.engine
    if not choice.use_inventory:
        scan.arguments = replace(scan.arguments, inventory=None)
    table.say(f"engine {choice.engine}: {choice.reason}; {describe_estimate(choice.estimate)}")


def _elsewhere(table: Table, engine: str) -> ScanBackend | None:
    """Return the backend that finds the orphan files; `None` means this process."""
    if engine == LOCAL:
        return None
    found = table.scan_backends.get(engine)
    if found is None:
        raise UsageError(f"engine {engine}: {_NOT_THERE[engine]}", code=_CODES[engine])
    return found


def _run(table: Table, planner: Callable[[Table], Plan], *, execute: bool) -> RunReport:
    if execute:
        return plan_and_execute(table, OPERATION, planner)
    return plan_only(table, OPERATION, planner)


def _run_stored(table: Table, planner: Callable[[Table], Plan], *, execute: bool) -> RunReport:
    """Continue with the plan of a remote backend, which has already stored it."""
    area = require_area(table)
    try:
        plan = planner(table)
    except RefusedError as error:
        return refused(table, OPERATION, error)
    if execute and not plan.is_empty:
        return replace(execute_stored(table, plan.header.plan_id), is_stored_plan=False)
    if plan.is_chunked and plan.header.action_count <= SHOWN_ACTIONS:
        plan = load_plan(area, plan.header.plan_id)
    return RunReport(
        operation=OPERATION,
        table=table.ref.location,
        branch=table.ref.branch,
        status="nothing_to_do" if plan.is_empty else "planned",
        plan=plan,
        requests=table.counter.snapshot(),
    )


def _remember(scan: _Scan, report: RunReport, what: Mapping[str, Any] | None) -> None:
    """Record what a scan found, if the run wrote anything else. A failure to do so does not affect the run."""
    area = scan.table.area
    wrote = report.status not in ("nothing_to_do", "refused") or scan.arguments.quarantine_ms is not None
    # A fan-out scan records its own facts when it ends.
    if area is None or report.plan is None or what is None or scan.engine == LAMBDA or not wrote:
        return
    note(
        area,
        report.plan,
        what,
        engine=scan.engine,
        status=report.told_status,
        began_ms=scan.began_ms,
        ended_ms=scan.ended_ms,
        estimate=scan.estimate,
        reason=scan.choice.reason if scan.choice is not None else None,
        deleted=report.outcome.deleted if report.outcome is not None else None,
    )
