"""Run an operation: finish what a dead run left, plan, store the plan, execute it, report.

A dry run makes the same plan and does not execute it. A run that finds nothing to do writes nothing.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import Beginning, Chain
from lakesweep.control.ends import PUT_OFF, PlanEnd, end_plan, plan_end, record_undone, undone_by
from lakesweep.control.intent import Intent
from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.control.plans import load_header, load_plan, store_plan
from lakesweep.control.reports import store_report
from lakesweep.errors import (
    FormatError,
    LeaseLostError,
    MaintenanceError,
    RefusedError,
    StalePlanError,
    StorageError,
    UsageError,
    stopped_by,
)
from lakesweep.execute.branch_rewrites.progress import moved_branch
from lakesweep.execute.deletions.executor import Attempt, Environment, Executed, forget
from lakesweep.execute.part_actions import NOT_FILES_ALONE, check_unchanged
from lakesweep.execute.tags import write_tags, writes_tags
from lakesweep.model.facts import DATA_KINDS
from lakesweep.model.plan import Action, Plan, moves_roots
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.model.safety import DELETE_MARGIN_MS
from lakesweep.runs import local_engine
from lakesweep.runs.expiry_conflict import refuse_stored
from lakesweep.runs.fleet import POLICY_ETAG, check_policy
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.manual import check_hand
from lakesweep.runs.memory import keep
from lakesweep.runs.pass_state import doubt
from lakesweep.runs.session import Table
from lakesweep.runs.table_environment import environment
from lakesweep.runs.tag_ends import note_ends

SHOWN_ACTIONS = 100_000
"""A plan that other processes wrote is shown with its actions up to this number; a larger plan only with counts."""
PLAN_ATTEMPTS = 3
"""How many times a run plans at most, if the table changes while it is read."""

PLAN_UNDONE = "plan_undone"
"""Code of a plan that was undone; the rest of it is not executed."""
TOO_MANY_ACTIONS = "too_many_actions"
"""Code of a plan that was stored but not executed, since it has more actions than the call allows."""

Planner = Callable[[Table], Plan]


@dataclass(frozen=True, slots=True)
class Engine:
    """A way to execute plans."""

    load: Callable[[ControlArea, str], Plan]
    """Reads a stored plan. An executor of files alone refuses any other plan as `not_files_alone`."""
    execute: Callable[[Environment, Plan, Attempt], Executed]


LOCAL = Engine(local_engine.load, local_engine.carry_out)
"""Executes plans in this process."""


def require_area(table: Table, what: str = "--execute") -> ControlArea:
    """Return the control area of the table.

    Args:
        table: The table.
        what: The option or command that needs it, for the message.

    Raises:
        UsageError: No control location was given.
    """
    if table.area is None:
        raise UsageError(
            f"table {table.ref}: {what} needs a control location; expected --control or $LAKESWEEP_CONTROL, "
            "the same for every maintainer of this table, since they meet at one lease there",
            code="control_missing",
        )
    return table.area


def plan_only(table: Table, operation: str, planner: Planner) -> RunReport:
    """Plan, and store the plan if there is a control location."""
    try:
        plan = _plan(table, planner)
    except RefusedError as error:
        return refused(table, operation, error)
    if plan.is_empty:
        return _report(table, operation, "nothing_to_do", plan)
    if table.area is not None:
        store_plan(table.area, plan)
        keep(table)
        if plan.is_apart and plan.header.action_count <= SHOWN_ACTIONS:
            plan = load_plan(table.area, plan.header.plan_id)
    return _report(table, operation, "planned", plan)


def plan_and_write(table: Table, operation: str, planner: Planner) -> RunReport:
    """Plan tags and write them.

    This needs no lease and no stored plan: see `execute/tags.py`. So it neither waits for running maintenance
    nor finishes what a dead run left.
    """
    require_area(table)
    try:
        plan = _plan(table, planner)
        if plan.is_empty:
            return _report(table, operation, "nothing_to_do", plan)
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
        return refused(table, operation, error, None if just_planned else plan)
    plan = _of_actions(plan, made)
    if executed.status == "nothing_to_do":
        return replace(_report(table, operation, "nothing_to_do", plan), warnings=executed.warnings)
    if not plan.header.next_pass:  # a pass that makes tags records itself when the next one is due
        note_ends(table, made)
    report = _executed_report(table, plan, run_id, executed, executed.warnings)
    times_ms = (started_ms, table.store.now_ms())
    try:
        store_report(area, run_id, report.to_json(), report.all_warnings(), times_ms, ended=executed.status)
        end_plan(area, plan_id, PlanEnd(executed.status, run_id, (run_id,)))
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
        return finished or _report(table, operation, "nothing_to_do", plan)
    if writes_tags(plan):
        written = _write(table, plan, plan.header.plan_id, just_planned=True)
        keep(table)
        return replace(written, warnings=(*_finished_first(finished), *written.warnings))
    store_plan(area, plan)
    if plan.header.needs_confirmation:
        return refused(table, operation, _unconfirmed(plan), plan)
    if max_actions is not None and plan.header.action_count > max_actions:
        keep(table)
        left = Refusal(
            TOO_MANY_ACTIONS,
            f"table {table.ref}: plan {plan.header.plan_id} has {plan.header.action_count} actions; expected "
            f"{max_actions} at most in this call; lakesweep execute TABLE {plan.header.plan_id} executes it",
        )
        return replace(_report(table, operation, "planned", plan), warnings=_finished_first(finished), refusal=left)
    # A plan in parts was made from documents that tasks wrote into the control location, as others could do.
    begin = _Begin(grace_ms, lease=lease, run_id=plan.header.plan_id, has_just_planned=True, asks_roots=plan.is_apart)
    if plan.is_apart:
        try:
            made, plan = plan, LOCAL.load(area, plan.header.plan_id)
            check_unchanged(plan.header, made.header.content_hash)
        except RefusedError as error:
            return refused(table, operation, error, plan)
    report = _execute(table, plan, begin, _finished_first(finished))
    keep(table)
    return report


def execute_stored(
    table: Table,
    plan_id: str,
    *,
    confirm: str | None = None,
    grace_ms: int = 0,
    run_id: str | None = None,
    by_hand: bool = True,
    engine: Engine = LOCAL,
) -> RunReport:
    """Execute a plan that was stored earlier. A second call is harmless.

    Args:
        table: The branch of the plan.
        plan_id: The plan.
        confirm: The plan's id again, if the plan needs confirmation.
        grace_ms: How long readers of expiring snapshots may continue.
        run_id: The id of this run, if it is the first run of the plan; else a new id is made.
        by_hand: A person asked for it. Otherwise nothing is deleted if the fleet policy now says to observe.
        engine: The executor.
    """
    area = require_area(table)
    try:
        check_policy(table, by_hand=by_hand)  # nothing is deleted from a paused table
        plan = engine.load(area, plan_id)
        if plan.header.branch != table.ref.branch:
            raise RefusedError(
                f"plan {plan_id} is of branch {plan.header.branch}; expected one of branch {table.ref.branch}",
                code="plan_of_another_branch",
            )
        if writes_tags(plan):
            return _write_stored(table, area, plan, run_id)
        check_hand(table, plan)
        lease = read_lease(area)
        begun = lease.intent
        if begun is not None and begun.plan_id != plan_id:
            refuse_stored(area, str(table.ref), plan.header, begun)
            finish_begun(table, lease, engine)
            lease, begun = read_lease(area), None
        end = plan_end(area, plan_id)
        if end is not None and end.status == "done":
            _check_not_undone(area, plan_id)
            done = f"plan {plan_id} was executed before, by run {end.run_id}"
            nothing = _report(table, plan.header.operation, "nothing_to_do", plan)
            return replace(nothing, warnings=(done,), is_stored_plan=True)
        if end is not None and end.status == "stale":
            raise RefusedError(
                f"plan {plan_id} ended stale in run {end.run_id}; expected a new plan", code="plan_stale"
            )
        earlier = begun.runs if begun is not None else end.runs if end is not None else ()
        is_put_off = begun is None and end is not None and end.status == PUT_OFF
        if is_put_off:
            _check_not_undone(area, plan_id)
        if (not earlier or is_put_off) and table.store.now_ms() >= plan.header.expires_ms:
            raise RefusedError(f"plan {plan_id} is past its expiry; expected a new plan", code="plan_expired")
        if plan.header.needs_confirmation and confirm != plan_id and not earlier:
            raise _unconfirmed(plan)
    except RefusedError as error:
        return refused(table, "execute", error)
    begin = _Begin(grace_ms, earlier, lease, None if earlier else run_id, by_hand=by_hand)
    return _execute(table, plan, begin, engine=engine)


def _write_stored(table: Table, area: ControlArea, plan: Plan, run_id: str | None) -> RunReport:
    """Write the tags of a stored plan, once.

    Raises:
        RefusedError: The plan has expired.
    """
    plan_id = plan.header.plan_id
    end = plan_end(area, plan_id)
    if end is not None and end.status == "done":
        return _report(table, plan.header.operation, "nothing_to_do", plan)
    if table.store.now_ms() >= plan.header.expires_ms:  # also after a partial run: it left nothing half done
        raise RefusedError(f"plan {plan_id} is past its expiry; expected a new plan", code="plan_expired")
    return _write(table, plan, run_id or plan_id, just_planned=False)


def finish_begun(table: Table, lease: LeaseDocument, engine: Engine = LOCAL) -> RunReport | None:
    """Finish the plan that an earlier run began and did not end, if there is one.

    A lost plan cannot be finished. The files that it would still have deleted remain, and are now orphans. A large plan
    of orphan files is put off. It leaves nothing half done, so other operations need not wait for it. The next
    execution of it continues.

    Args:
        table: The table.
        lease: The lease as it was just read.
        engine: The executor, used if it supports the plan.
    """
    area = require_area(table)
    begun = lease.intent
    if begun is None:
        return None
    try:
        if local_engine.is_large(load_header(area, begun.plan_id)):
            _put_off(area, lease, begun, new_id(table.store.now_ms()))
            return None
        engine, plan = _loaded(area, begun.plan_id, engine)
    except (FormatError, RefusedError) as error:
        if isinstance(error, RefusedError) and error.code != "no_such_plan":
            raise  # the plan is intact, but of a newer version or another table, so this run must not drop its intent
        forget(area, lease, new_id(table.store.now_ms()))
        last_run = begun.runs[-1] if begun.runs else "(unknown)"
        raise RefusedError(
            f"plan {begun.plan_id}, which run {last_run} began, is lost ({error}); the files that it had "
            "still to delete are orphans now, and nothing else is wrong; run the operation again",
            code="begun_plan_lost",
        ) from error
    if area.store.now_ms() > lease.expires_ms + DELETE_MARGIN_MS:  # before that, the run that began it may still work
        check_hand(table, plan)
    return _execute(table, plan, _Begin(begun.grace_ms, begun.runs, lease), engine=engine)


def _put_off(area: ControlArea, lease: LeaseDocument, begun: Intent, run_id: str) -> None:
    """Withdraw the intent of a plan of files alone."""
    end = PlanEnd(PUT_OFF, run_id, (*begun.runs, run_id))
    forget(area, lease, run_id, lambda: end_plan(area, begun.plan_id, end))


def _loaded(area: ControlArea, plan_id: str, engine: Engine) -> tuple[Engine, Plan]:
    """Return a stored plan, and an executor for it."""
    try:
        return engine, engine.load(area, plan_id)
    except RefusedError as error:
        if error.code != NOT_FILES_ALONE:
            raise
        return LOCAL, LOCAL.load(area, plan_id)


def _check_not_undone(area: ControlArea, plan_id: str) -> None:
    """Raise RefusedError if a plan was undone, since the user no longer wants the rest of it executed."""
    if (undoing := undone_by(area, plan_id)) is not None:
        raise RefusedError(f"plan {plan_id} was undone by run {undoing}; expected a new plan", code=PLAN_UNDONE)


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


@dataclass(frozen=True, slots=True)
class _Begin:
    """The facts with which the execution of a plan begins."""

    grace_ms: int = 0
    earlier_runs: tuple[str, ...] = ()
    lease: LeaseDocument | None = None
    run_id: str | None = None
    """`None`: make a new id."""
    has_just_planned: bool = False
    asks_roots: bool = False
    """See `Attempt`."""
    by_hand: bool = True
    """A person asked for the execution."""


def _execute(
    table: Table, plan: Plan, begin: _Begin, warnings: tuple[str, ...] = (), engine: Engine = LOCAL
) -> RunReport:
    area, plan_id = require_area(table), plan.header.plan_id
    started_ms = table.store.now_ms()
    run_id = begin.run_id or new_id(started_ms)
    reports: list[RunReport] = []
    etag = table.notes.get(POLICY_ETAG)
    began = Beginning(area.table, run_id, plan_id, plan.header.content_hash or None, etag, area.who())
    chain = Chain(began)

    def store(executed: Executed) -> None:
        report = _executed_report(table, plan, run_id, executed, warnings + executed.warnings)
        report = replace(report, is_stored_plan=not begin.has_just_planned)
        ended = None if executed.status == "interrupted" else executed.status
        times_ms = (started_ms, table.store.now_ms())
        store_report(
            area,
            run_id,
            report.to_json(),
            report.all_warnings(),
            times_ms,
            ended=ended,
            chain=chain,
            policy_etag=etag,
            plan_hash=plan.header.content_hash,
        )
        reports.append(report)

    def stop(executed: Executed) -> None:
        with suppress(MaintenanceError):  # without a report, only the ledger and the lease show this run
            store(executed)

    has_rested = False
    resting = PlanEnd(PUT_OFF, run_id, (*begin.earlier_runs, run_id))

    def end(executed: Executed) -> None:
        undone = plan.header.steering.undone
        if executed.status == "done" and undone is not None:
            # Whichever run finishes the undo records it, before the plan counts as ended.
            record_undone(area, undone.plan_id, run_id)
        store(executed)
        end_plan(area, plan_id, replace(resting, status=executed.status), apart=has_rested)

    def rest() -> None:
        nonlocal has_rested
        has_rested = True
        end_plan(area, plan_id, resting, apart=True)

    def check_return() -> None:
        if plan_end(area, plan_id) != resting:
            raise LeaseLostError(
                f"table {table.ref}: another run continued plan {plan_id} while run {run_id} had released the "
                "lease; expected only one run to execute it"
            )
        _check_not_undone(area, plan_id)

    try:
        if plan.header.arguments:
            # This plan follows other rules than the last pass. If this run dies, a pass by the table's own rules could
            # find nothing to do, and the unfinished plan would wait until the next due pass.
            doubt(table, plan.header.branch)
        if moves_roots(plan.actions):
            # A rollback leaves the other tags as the last pass saw them. Other branch rewrites may replace them.
            doubt(table, moved_branch(plan.actions), keeps_tags=plan.header.operation == "rollback")
        believes_memory = begin.has_just_planned and not begin.asks_roots
        env = environment(table, area, plan, believes_memory=believes_memory)
        env = replace(env, check_policy=lambda: check_policy(table, by_hand=begin.by_hand))
        attempt = Attempt(
            run_id,
            end,
            rest,
            stop,
            check_return,
            etag,
            chain,
            begin.grace_ms,
            begin.earlier_runs,
            begin.lease,
            begin.has_just_planned,
            begin.asks_roots,
        )
        executed = engine.execute(env, plan, attempt)
    except KeyboardInterrupt as error:
        error.args = (_stopped(table, plan_id, run_id, error, reports),)
        raise
    except RefusedError as error:
        return refused(table, plan.header.operation, error, plan)
    finally:
        table.memory.forget(delete.path for delete in plan.deletes)
    if executed.status == "interrupted":
        store(executed)
    return reports[-1]


def _stopped(table: Table, plan_id: str, run_id: str, stop: KeyboardInterrupt, reports: list[RunReport]) -> str:
    """Say how far a run came before it was stopped."""
    report = reports[-1] if reports else None
    if report is not None and report.status == "done":
        came = "when it was done"
    elif report is not None and report.outcome is not None:
        came = f"after {report.outcome.deleted} deletions, which the ledger has; the next run finishes plan {plan_id}"
    else:
        came = f"; the next run with --execute finishes plan {plan_id}, if it was begun"
    return f"table {table.ref}: run {run_id} was stopped by {stopped_by(stop)}{'' if came[0] == ';' else ' '}{came}"


_STATUS: Mapping[str, Status] = {
    "done": "done",
    "partial": "partial",
    "stale": "stale",
    "interrupted": "partial",
    PUT_OFF: "partial",
}


def _executed_report(table: Table, plan: Plan, run_id: str, executed: Executed, warnings: tuple[str, ...]) -> RunReport:
    plan_id = plan.header.plan_id
    after = {
        "interrupted": f"; the next run finishes plan {plan_id}",
        PUT_OFF: f"; plan {plan_id} continues where it stopped when it is executed again",
    }.get(executed.status, "")
    if executed.code == PLAN_UNDONE:
        after = ""
    elif executed.code == LeaseLostError.code:
        after = f"; the run that took the lease has finished plan {plan_id}, or the next run does"
    return RunReport(
        operation=plan.header.operation,
        table=table.ref.location,
        branch=plan.header.branch,
        status=_STATUS[executed.status],
        plan=plan,
        run_id=run_id,
        executed=True,
        warnings=warnings,
        refusal=Refusal(executed.code, executed.message + after) if executed.message else None,
        outcome=executed.outcome,
        requests=table.counter.snapshot(),
    )


def refused(table: Table, operation: str, error: RefusedError, plan: Plan | None = None) -> RunReport:
    """Return the report of an operation that was refused. Its message names the table."""
    sentence = str(error)
    if table.ref.location not in sentence:
        sentence = f"table {table.ref}: {sentence}"
    return RunReport(
        operation=operation,
        table=table.ref.location,
        branch=table.ref.branch,
        status="stale" if isinstance(error, StalePlanError) else "refused",
        plan=plan,
        refusal=Refusal(error.code, sentence),
        requests=table.counter.snapshot(),
    )


def _report(table: Table, operation: str, status: Status, plan: Plan) -> RunReport:
    return RunReport(
        operation=operation,
        table=table.ref.location,
        branch=table.ref.branch,
        status=status,
        plan=plan,
        requests=table.counter.snapshot(),
    )


def _unconfirmed(plan: Plan) -> RefusedError:
    header = plan.header
    if any(delete.kind == "tag" for delete in plan.deletes):
        data = sum(delete.phase == "data" for delete in plan.deletes)
        what = f"deletes {data} data files that only tags hold, more than the newest snapshot has"
    elif header.end_id is None:  # the plan expires no snapshot, so these are orphans
        data = sum(count for kind, count in plan.delete_kinds.items() if kind in DATA_KINDS)
        what = f"deletes {data} data files, more than half of the table"
    else:
        data = sum(delete.phase == "data" for delete in plan.deletes)
        what = f"overrides the table's own retention and deletes {data} data files, more than it leaves"
    return RefusedError(
        f"plan {header.plan_id} {what}; expected: lakesweep execute TABLE {header.plan_id} --confirm {header.plan_id}",
        code="confirmation_needed",
    )
