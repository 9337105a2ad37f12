"""Run an operation: finish what a dead run left, plan, store the plan, execute it, report.

A dry run makes the same plan and does not execute it. A run that finds nothing to do writes nothing.
"""

from collections.abc import Callable
from dataclasses import replace

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.control.plans import load_plan, store_plan
from lakesweep.control.reports import PUT_OFF, PlanEnd, end_plan, is_apart, plan_end, store_report
from lakesweep.errors import RefusedError, StalePlanError, StorageError
from lakesweep.execute.part_actions import check_unchanged
from lakesweep.execute.tags import WithdrawnError, write_tags, writes_tags
from lakesweep.model.plan import Action, Plan
from lakesweep.model.report import Refusal, RunReport
from lakesweep.runs.execution import (
    LOCAL,
    Begin,
    PlanExecutor,
    check_not_undone,
    execute_plan,
    finish_begun,
    require_area,
)
from lakesweep.runs.expiry_conflict import refuse_stored
from lakesweep.runs.fleet import check_policy
from lakesweep.runs.manual import check_hand
from lakesweep.runs.metadata_cache import keep
from lakesweep.runs.receipts import run_receipt
from lakesweep.runs.reports import executed_report, refused, report_of, unconfirmed
from lakesweep.runs.session import Table
from lakesweep.runs.stored.ended import check_open, executed_before
from lakesweep.runs.stored.recreated import check_same_table
from lakesweep.runs.tags.documents import note_ends

SHOWN_ACTIONS = 100_000
"""A plan that other processes wrote is shown with its actions up to this number; a larger plan only with counts."""
PLAN_ATTEMPTS = 3
"""How many times a run plans at most, if the table changes while it is read."""
TOO_MANY_ACTIONS = "too_many_actions"
"""Code of a plan that was stored but not executed, since it has more actions than the call allows."""
Planner = Callable[[Table], Plan]


def plan_only(table: Table, operation: str, planner: Planner) -> RunReport:
    """Plan, and store the plan if there is a control location."""
    try:
        plan = _plan(table, planner)
    except RefusedError as error:
        return refused(table, operation, error)
    if plan.is_empty:
        return report_of(table, operation, "nothing_to_do", plan)
    if table.area is not None:
        store_plan(table.area, plan)
        keep(table)
        if plan.is_chunked and plan.header.action_count <= SHOWN_ACTIONS:
            plan = load_plan(table.area, plan.header.plan_id)
    return report_of(table, operation, "planned", plan)


def plan_and_write(table: Table, operation: str, planner: Planner) -> RunReport:
    """Plan tags and write them.

    This needs no lease and no stored plan: see `execute/tags.py`. So it neither waits for running maintenance
    nor finishes what a dead run left.
    """
    require_area(table)
    try:
        plan = _plan(table, planner)
        if plan.is_empty:
            return report_of(table, operation, "nothing_to_do", plan)
        return _write(table, plan, plan.header.plan_id, just_planned=True)
    except RefusedError as error:
        return refused(table, operation, error)


def _write(table: Table, plan: Plan, run_id: str, *, just_planned: bool) -> RunReport:
    """Write the tags of a plan, and the report of the run, which describes documents that are now in the table."""
    area = require_area(table)
    operation, plan_id = plan.header.operation, plan.header.plan_id
    started_ms = table.store.now_ms()
    try:
        executed, made = write_tags(table.store, area, plan, just_planned=just_planned, check_time=table.check_time)
    except RefusedError as error:
        report = refused(table, operation, error, None if just_planned else plan)
        return replace(report, is_withdrawn=isinstance(error, WithdrawnError))
    plan = _of_actions(plan, made)
    if executed.status == "nothing_to_do":
        return replace(report_of(table, operation, "nothing_to_do", plan), warnings=executed.warnings)
    if not plan.header.next_pass:  # a pass that makes tags records itself when the next one is due
        note_ends(table, made)
    report = executed_report(table, plan, run_id, executed, executed.warnings)
    times_ms = (started_ms, table.store.now_ms())
    end = PlanEnd(executed.status, run_id, (run_id,))
    report = run_receipt(table, report, 1 + is_apart(plan_id, end, apart=False))
    try:
        store_report(area, run_id, report.to_json(), report.all_warnings(), times_ms, ended=executed.status)
        end_plan(area, plan_id, end)
    except StorageError as error:
        written = ", ".join(put.path for put in made)
        raise type(error)(
            f"table {table.ref}: {written} is written and kept; "
            f"the report of run {run_id} could not be written: {error}",
            code=error.code,
        ) from error
    return replace(report, requests=table.counter.snapshot())


def _of_actions(plan: Plan, actions: tuple[Action, ...]) -> Plan:
    """Return the plan as if it had only these actions."""
    if actions == plan.actions:
        return plan
    header = replace(plan.header, action_count=len(actions))
    return Plan(header if actions else replace(header, findings={}, warnings=()), actions)


def plan_and_execute(
    table: Table,
    operation: str,
    planner: Planner,
    *,
    grace_ms: int = 0,
    lease: LeaseDocument | None = None,
    max_actions: int | None = None,
) -> RunReport:
    """Plan and execute. If an earlier run began a plan, finish that plan first.

    Args:
        table: The table.
        operation: Its name, for the report.
        planner: Makes the plan.
        grace_ms: How long readers of expiring snapshots may continue.
        lease: The lease as read before the listing that the planner uses, if the planner makes no listing of its own.
            If another run held the lease in between, that listing is out of date.
        max_actions: A plan with more actions is stored but not executed; its status is `planned`.
    """
    area = require_area(table)
    try:
        lease = lease or read_lease(area)
        finished = finish_begun(table, lease)
        if finished is not None and read_lease(area).intent is not None:
            return finished  # it was interrupted again, so no other plan may begin
        plan = _plan(table, planner)
    except RefusedError as error:
        return refused(table, operation, error)
    if plan.is_empty:
        return finished or report_of(table, operation, "nothing_to_do", plan)
    if writes_tags(plan):
        written = _write(table, plan, plan.header.plan_id, just_planned=True)
        keep(table)
        warnings = (*_finished_first(finished), *written.warnings)
        return replace(written, warnings=warnings, is_withdrawn=written.is_withdrawn and finished is None)
    store_plan(area, plan)
    if plan.header.needs_confirmation:
        return refused(table, operation, unconfirmed(plan), plan)
    if max_actions is not None and plan.header.action_count > max_actions:
        keep(table)
        left = Refusal(
            TOO_MANY_ACTIONS,
            f"table {table.ref}: plan {plan.header.plan_id} has {plan.header.action_count} actions; expected "
            f"{max_actions} at most in this call; lakesweep execute TABLE {plan.header.plan_id} executes it",
        )
        return replace(report_of(table, operation, "planned", plan), warnings=_finished_first(finished), refusal=left)
    # A plan in parts was made from documents that tasks wrote into the control location, as others could do.
    begin = Begin(grace_ms, lease=lease, run_id=plan.header.plan_id, has_just_planned=True, asks_roots=plan.is_chunked)
    if plan.is_chunked:
        try:
            made, plan = plan, LOCAL.load(area, plan.header.plan_id)
            check_unchanged(plan.header, made.header.content_hash)
        except RefusedError as error:
            return refused(table, operation, error, plan)
    report = execute_plan(table, plan, begin, _finished_first(finished))
    keep(table)
    return report


def execute_stored(
    table: Table,
    plan_id: str,
    *,
    confirm: str | None = None,
    grace_ms: int = 0,
    run_id: str | None = None,
    manual: bool = True,
    engine: PlanExecutor = LOCAL,
    show: Callable[[Plan], None] = lambda plan: None,
) -> RunReport:
    """Execute a plan that was stored earlier. A second call is harmless.

    Args:
        table: The branch of the plan.
        plan_id: The plan.
        confirm: The plan's id again, if the plan needs confirmation.
        grace_ms: How long readers of expiring snapshots may continue.
        run_id: The id of this run, if it is the first run of the plan; else a new id is made.
        manual: A person asked for it. Otherwise nothing is deleted if the fleet policy now says to observe.
        engine: The executor.
        show: Called with the plan before it is executed, once nothing known refuses it.
    """
    area = require_area(table)
    try:
        check_policy(table, manual=manual)  # nothing is deleted from a paused table
        plan = engine.load(area, plan_id)
        if plan.header.branch != table.ref.branch:
            raise RefusedError(
                f"plan {plan_id} is of branch {plan.header.branch}; expected one of branch {table.ref.branch}",
                code="plan_of_another_branch",
            )
        if writes_tags(plan):
            return _write_stored(table, area, plan, run_id, show)
        check_hand(table, plan)
        lease = read_lease(area)
        begun = lease.intent
        if begun is not None and begun.plan_id != plan_id:
            refuse_stored(area, str(table.ref), plan.header, begun)
            finish_begun(table, lease, engine)
            lease, begun = read_lease(area), None
        end = plan_end(area, plan_id)
        if end is not None and end.status == "done":
            check_not_undone(area, plan_id)
            return executed_before(table, area, plan, end)
        earlier = begun.runs if begun is not None else end.runs if end is not None else ()
        is_put_off = begun is None and end is not None and end.status == PUT_OFF
        check_open(area, plan.header, end, table.store.now_ms(), has_begun=begun is not None)
        if not earlier or is_put_off:
            check_same_table(table, plan.header)
        if plan.header.needs_confirmation and confirm != plan_id and not earlier:
            raise unconfirmed(plan)
    except RefusedError as error:
        return refused(table, "execute", error)
    show(plan)
    begin = Begin(grace_ms, earlier, lease, None if earlier else run_id, manual=manual)
    return execute_plan(table, plan, begin, engine=engine)


def _write_stored(
    table: Table, area: ControlArea, plan: Plan, run_id: str | None, show: Callable[[Plan], None]
) -> RunReport:
    """Write the tags of a stored plan, once.

    Raises:
        RefusedError: The plan has expired.
    """
    plan_id = plan.header.plan_id
    end = plan_end(area, plan_id)
    if end is not None and end.status == "done":
        return executed_before(table, area, plan, end)
    check_open(area, plan.header, None, table.store.now_ms())  # also after a partial run: it left nothing half done
    check_same_table(table, plan.header)
    show(plan)
    return _write(table, plan, run_id or plan_id, just_planned=False)


def _plan(table: Table, planner: Planner) -> Plan:
    for _ in range(PLAN_ATTEMPTS - 1):
        try:
            return planner(table)
        except StalePlanError:
            continue
    return planner(table)


def _finished_first(finished: RunReport | None) -> tuple[str, ...]:
    if finished is None or finished.plan is None:
        return ()
    outcome = finished.outcome.deleted if finished.outcome else 0
    return (
        f"run {finished.run_id} first finished plan {finished.plan.header.plan_id}, which an earlier run had begun: "
        f"{finished.status}, {outcome} deleted",
    )
