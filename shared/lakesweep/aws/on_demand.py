"""Answer a manual invocation: plan an operation, and queue the plan for execution.

The function behind this module has no permission to delete. It stores the plan and sends its id to the executor.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from lakesweep.aws.jobs.demand import ask_for_run, ask_for_scan
from lakesweep.aws.messages import Branch, Commit, Work, commits_snapshot, needs_spark
from lakesweep.aws.orphan_arguments import call_of
from lakesweep.aws.recording import record, summary_of
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.scans.demand import ask_for_scans
from lakesweep.control.plans import load_header
from lakesweep.errors import FormatError, MaintenanceError, RefusedError, UsageError
from lakesweep.format.codec import Text, from_json
from lakesweep.model.roots import MAIN, check_whole
from lakesweep.model.safety import MAX_GRACE_MS
from lakesweep.operations.maintenance import maintain
from lakesweep.operations.orphans import local as remove_orphan_files
from lakesweep.operations.registry import run_operation
from lakesweep.operations.tags import steps as tag_steps
from lakesweep.operations.undo import undo
from lakesweep.runs import manual
from lakesweep.runs.execution import require_area
from lakesweep.runs.fleet import watched_ruling
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.parameters.parameter import read_span_ms
from lakesweep.runs.parameters.signatures import operation_named
from lakesweep.runs.receipts import call_receipt
from lakesweep.runs.session import NOT_EXECUTABLE, Table

EXECUTE = "execute"
"""The operation that executes a stored plan."""
PASSES = (maintain.OPERATION, tag_steps.OPERATION)
"""Operations without a plan of their own. The executor runs a pass, which plans each step when it begins."""
SPARK = "spark"
"""The backend of `remove-orphan-files` that is not a function."""
FUNCTIONS = ("lambda", "auto")
"""Backends that are other functions, or that let the first function choose."""
_NAME = "event"


@dataclass(frozen=True, slots=True)
class Demand:
    """What an invocation asks for."""

    operation: Text
    table: Text
    branch: Branch
    arguments: Mapping[str, object]
    execute: bool
    plan_id: Text | None
    """Id of the stored plan, for `execute`."""
    confirm: Text | None


_KEYS = frozenset(each.name for each in fields(Demand))


def parse_demand(event: object) -> Demand:
    """Read an invocation.

    Raises:
        FormatError: It is not a valid request.
    """
    if not isinstance(event, dict):
        raise FormatError(f"{_NAME}: expected an object, found {type(event).__name__}")
    unknown = sorted(str(key) for key in event if key not in _KEYS)
    if unknown:
        raise FormatError(f"{_NAME}: expected some of {', '.join(sorted(_KEYS))}, found {unknown[0][:100]!r}")
    given = {name: value for name, value in event.items() if value is not None and (name, value) != ("branch", "")}
    absent: dict[str, object] = {**dict.fromkeys(_KEYS), "branch": MAIN, "arguments": {}, "execute": False}
    demand: Demand = from_json(Demand, absent | given, _NAME)
    return replace(demand, operation=operation_named(demand.operation))


def answer_demand(runtime: Runtime, event: object, context: Context) -> dict[str, object]:
    """Plan the requested operation, queue the plan if requested, and return what is known so far.

    An error is an answer, too, since a person who invokes a function reads what it returns.
    """
    try:
        demand = parse_demand(event)
        if not runtime.settings.allows(demand.table):
            raise RefusedError(
                f"table {demand.table[:200]}: this deployment does not maintain it; expected a table below "
                f"{', '.join(map(str, runtime.settings.tables))}",
                code="foreign_table",
            )
        table = runtime.open_table(demand.table, demand.branch, context)
        check_whole(table.ref.location)
        if demand.operation == remove_orphan_files.OPERATION:
            engine = demand.arguments.get("engine")
            if engine == SPARK:
                return _on_spark(runtime, table, demand)
            if engine in FUNCTIONS:
                return _on_functions(runtime, table, demand)
        if needs_spark(demand.operation):
            return _run_on_spark(runtime, table, demand)
        return _queued(runtime, table, demand) if demand.operation == EXECUTE else _planned(runtime, table, demand)
    except MaintenanceError as error:
        # The person who asked reads the answer, so a refusal raises no alarm.
        runtime.telemetry.count("EventsRejected" if isinstance(error, FormatError | UsageError) else "RunsSkipped")
        runtime.telemetry.warn(f"on demand: {error}", code=error.code)
        return {"status": "refused", "queued": False, "refusal": {"code": error.code, "message": str(error)}}


def _planned(runtime: Runtime, table: Table, demand: Demand) -> dict[str, object]:
    if demand.operation == undo.OPERATION:
        raise RefusedError(
            "no function has the permission to undo a run; expected `lakesweep undo` with the operator's role",
            code="needs_operator",
        )
    _check_no_plan(demand)
    is_pass = demand.operation in PASSES
    if is_pass and demand.execute and demand.arguments:
        raise UsageError(
            f"{demand.operation} executes by the tables' own options; expected no arguments, or execute to be false"
        )
    if demand.execute:
        _check_mode(runtime, table)
        if demand.operation in manual.OPERATIONS:
            raise manual.manual_only(table, demand.operation, f"{demand.operation} --execute")
    grace_ms = _grace_ms(demand)
    report = call_receipt(table, run_operation(table, demand.operation, demand.arguments, execute=False))
    if report.status != "refused":
        record(runtime.telemetry, report)
    plan_id = report.plan.header.plan_id if report.plan and not report.plan.is_empty and not is_pass else None
    # A whole pass also finishes plans that have begun, which its own plan does not show.
    queued = demand.execute and (report.status != "refused" if is_pass else report.status == "planned")
    if queued and not is_pass and report.plan is not None and report.plan.header.needs_confirmation:
        raise _unconfirmed(plan_id)
    refusals = [warning for warning in report.warnings if warning.startswith(NOT_EXECUTABLE)]
    if queued and refusals:
        raise RefusedError("; ".join(refusals))
    place = table.ref.location, table.ref.branch
    found = {**summary_of(report), **_where(table, plan_id), "run_id": plan_id if queued else None, "queued": queued}
    if queued and commits_snapshot(demand.operation, demand.arguments):
        area = require_area(table)
        run_id = new_id(area.store.now_ms())
        runtime.queues.ask_for_commit(Commit(demand.operation, *place, demand.arguments, manual=True, run_id=run_id))
        return {**found, "run_id": run_id, "report": area.path(f"reports/{run_id}.json")}
    if queued:
        runtime.queues.hand_over(Work(*place, plan_id, grace_ms, manual=True))
    return found


def _on_spark(runtime: Runtime, table: Table, demand: Demand) -> dict[str, object]:
    """Request a scan on Spark. Its document shows the result, hours later."""
    _check_spark(runtime, table)
    _check_scan(demand)
    if demand.execute:
        _check_mode(runtime, table)
    given = {name: value for name, value in demand.arguments.items() if value is not None}
    found = ask_for_scan(runtime.queues, table, given, demand.plan_id, execute=demand.execute)
    return _queued_answer(demand.operation, table, demand.branch, found)


def _run_on_spark(runtime: Runtime, table: Table, demand: Demand) -> dict[str, object]:
    _check_spark(runtime, table)
    _check_no_plan(demand)
    if demand.execute:
        _check_mode(runtime, table)
    found = ask_for_run(runtime.queues, table, demand.operation, demand.arguments, execute=demand.execute)
    return _queued_answer(demand.operation, table, demand.branch, found)


def _on_functions(runtime: Runtime, table: Table, demand: Demand) -> dict[str, object]:
    """Request scans by functions: of a table, or of each table in a folder. Their results are there minutes later."""
    _check_scan(demand)
    if demand.execute:
        _check_mode(runtime, table)
        watched_ruling(table)  # of the table or the folder; a single paused table in the folder is not changed either
    scans = ask_for_scans(runtime, table, demand.arguments, execute=demand.execute)
    is_one = [scan["table"] for scan in scans] == [table.ref.location]
    found = {"plan_id": None, **(scans[0] if is_one else {"scans": scans})}
    return _queued_answer(demand.operation, table, MAIN, found)


def _check_scan(demand: Demand) -> None:
    """Check the request for a scan that other processes run.

    Raises:
        UsageError: It names a plan or a branch, or an argument is not valid.
    """
    _check_no_plan(demand)
    if demand.branch != MAIN:
        raise UsageError(
            f"branch: a scan covers all branches; expected no branch, found {demand.branch!r}", code="bad_argument"
        )
    call_of(demand.arguments)


def _check_no_plan(demand: Demand) -> None:
    if demand.plan_id or demand.confirm:
        raise UsageError(f"{demand.operation} takes no plan_id and no confirm; expected operation {EXECUTE}")


def _queued_answer(operation: str, table: Table, branch: str, found: Mapping[str, object]) -> dict[str, object]:
    """Return the answer for work that other processes do later, with what is found about it."""
    return {
        "status": "queued",
        "operation": operation,
        "table": table.ref.location,
        "branch": branch,
        "refusal": None,
        "run_id": None,
        "queued": True,
        **found,
    }


def _queued(runtime: Runtime, table: Table, demand: Demand) -> dict[str, object]:
    if demand.plan_id is None or not demand.execute:
        raise UsageError(f"{EXECUTE} executes a stored plan; expected plan_id, and execute to be true")
    _check_mode(runtime, table)
    header = load_header(require_area(table), demand.plan_id)
    if header.branch != demand.branch:
        raise RefusedError(
            f"plan {demand.plan_id} is of branch {header.branch}; expected that branch", code="plan_of_another_branch"
        )
    if header.operation in manual.OPERATIONS:
        raise manual.manual_only(table, header.operation, f"{EXECUTE} TABLE {demand.plan_id}")
    if header.needs_confirmation and demand.confirm != demand.plan_id:
        raise _unconfirmed(demand.plan_id)
    if demand.arguments.get("engine") == SPARK:
        _check_spark(runtime, table)
        confirms = demand.confirm is not None
        found = ask_for_scan(runtime.queues, table, {}, demand.plan_id, execute=True, confirms=confirms)
        return _queued_answer(demand.operation, table, demand.branch, found)
    is_confirmed = demand.confirm is not None
    runtime.queues.hand_over(
        Work(table.ref.location, table.ref.branch, demand.plan_id, _grace_ms(demand), confirm=is_confirmed, manual=True)
    )
    found = {**_where(table, demand.plan_id), "run_id": demand.plan_id, "status": "planned"}
    return _queued_answer(header.operation, table, header.branch, found)


def _where(table: Table, plan_id: str | None) -> dict[str, object]:
    """Return where the plan and its report are stored. The first run that executes a plan uses the plan's id."""
    area = require_area(table)
    if plan_id is None:
        return {"plan_id": None, "plan": None, "report": None}
    return {
        "plan_id": plan_id,
        "plan": area.path(f"plans/{plan_id}/header.json"),
        "report": area.path(f"reports/{plan_id}.json"),
    }


def _unconfirmed(plan_id: str | None) -> RefusedError:
    return RefusedError(
        f"plan {plan_id} deletes very much, or may hide a loss, so a person has to look at it first; expected "
        f'{{"operation": "{EXECUTE}", "plan_id": "{plan_id}", "confirm": "{plan_id}", "execute": true}} and the table',
        code="confirmation_needed",
    )


def _grace_ms(demand: Demand) -> int:
    text = demand.arguments.get("grace")
    grace_ms = 0 if text is None else read_span_ms(text, "grace")
    if grace_ms > MAX_GRACE_MS:
        raise UsageError(f"grace: expected {MAX_GRACE_MS // 60_000} min at most, found {text!r}", code="bad_argument")
    return grace_ms


def _check_spark(runtime: Runtime, table: Table) -> None:
    if not runtime.queues.has_spark:
        raise RefusedError(
            f"table {table.ref}: this deployment has no Spark; expected its parameter SparkArtifacts to name the "
            "location of the artifacts, or no engine",
            code="no_spark",
        )


def _check_mode(runtime: Runtime, table: Table) -> None:
    if not runtime.settings.may_delete:
        raise RefusedError(
            f"table {table.ref}: this deployment only observes; expected its parameter Mode to be delete, or execute "
            "to be false",
            code="observed",
        )
