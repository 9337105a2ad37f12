"""Execute one plan: take the executor, record the beginning and the end, and finish what a dead run left."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import Beginning, Chain
from lakesweep.control.intent import Intent
from lakesweep.control.lease import LeaseDocument
from lakesweep.control.plans import load_header
from lakesweep.control.reports import (
    PUT_OFF,
    PlanEnd,
    end_plan,
    is_apart,
    plan_end,
    record_undone,
    store_report,
    undone_by,
)
from lakesweep.errors import FormatError, LeaseLostError, MaintenanceError, RefusedError, UsageError, stopped_by
from lakesweep.execute.attempt import Attempt, Environment, Executed, forget
from lakesweep.execute.branch_rewrites.progress import moved_branch
from lakesweep.execute.part_actions import NOT_FILES_ALONE
from lakesweep.execute.waves.driver import Workers, execute_in_waves
from lakesweep.model.plan import Plan, moves_roots
from lakesweep.model.report import RunReport
from lakesweep.model.safety import DELETE_MARGIN_MS
from lakesweep.runs import local_executor
from lakesweep.runs.fleet import POLICY_ETAG, check_policy
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.manual import check_hand
from lakesweep.runs.metadata_cache import is_kept, keep
from lakesweep.runs.pass_notes import invalidate, moved_from
from lakesweep.runs.receipts import run_receipt
from lakesweep.runs.reports import PLAN_UNDONE, executed_report, refused
from lakesweep.runs.session import Table
from lakesweep.runs.table_environment import environment
from lakesweep.storage.together import both, waits


@dataclass(frozen=True, slots=True)
class PlanExecutor:
    """A way to execute plans."""

    load: Callable[[ControlArea, str], Plan]
    """Reads a stored plan. An executor of files alone refuses any other plan as `not_files_alone`."""
    execute: Callable[[Environment, Plan, Attempt], Executed]


LOCAL = PlanExecutor(local_executor.load, local_executor.carry_out)
"""Executes plans in this process."""


def executor_of(workers: Callable[[Environment], Workers]) -> PlanExecutor:
    """Return the executor that runs a large plan of files with many processes.

    Args:
        workers: Provides the workers, given the environment that they work with.
    """

    def execute(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
        return execute_in_waves(env, plan.header, attempt, workers(env))

    return PlanExecutor(local_executor.load_files_plan, execute)


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


@dataclass(frozen=True, slots=True)
class Begin:
    """The facts with which the execution of a plan begins."""

    grace_ms: int = 0
    earlier_runs: tuple[str, ...] = ()
    lease: LeaseDocument | None = None
    run_id: str | None = None
    """`None`: make a new id."""
    has_just_planned: bool = False
    asks_roots: bool = False
    """See `Attempt`."""
    manual: bool = True
    """A person asked for the execution."""


def execute_plan(
    table: Table, plan: Plan, begin: Begin, warnings: tuple[str, ...] = (), engine: PlanExecutor = LOCAL
) -> RunReport:
    """Execute a plan, store the report, and record how the plan ended."""
    area, plan_id = require_area(table), plan.header.plan_id
    started_ms = table.store.now_ms()
    run_id = begin.run_id or new_id(started_ms)
    reports: list[RunReport] = []
    etag = table.notes.get(POLICY_ETAG)
    began = Beginning(area.table, run_id, plan_id, plan.header.content_hash or None, etag, area.who())
    chain = Chain(began)

    def store(executed: Executed, *, keeps_cache: bool = False, puts: int = 1) -> None:
        report = executed_report(table, plan, run_id, executed, warnings + executed.warnings)
        report = replace(report, is_stored_plan=not begin.has_just_planned)
        if executed.is_overtaken and report.is_stored_plan:  # after a new plan, later steps must list the table again
            report = replace(report, status="nothing_to_do")
        ended = None if executed.status == "interrupted" else executed.status
        times_ms = (started_ms, table.store.now_ms())
        if keeps_cache:
            table.memory.forget(delete.path for delete in plan.deletes)
            puts += is_kept(table)
        report = run_receipt(table, report, puts)
        document, all_warnings = report.to_json(), report.all_warnings()
        reports.append(report)  # somebody may stop this process while it writes

        def write() -> None:
            store_report(
                area,
                run_id,
                document,
                all_warnings,
                times_ms,
                ended=ended,
                chain=chain,
                policy_etag=etag,
                plan_hash=plan.header.content_hash,
            )

        if keeps_cache:
            # The cache is true however this run ends, so neither document waits for the other.
            both(write, lambda: keep(table))
        else:
            write()

    def stop(executed: Executed) -> None:
        with suppress(MaintenanceError):  # without a report, only the ledger and the lease show this run
            store(executed, puts=2)  # the lease is released after it

    has_rested = False
    resting = PlanEnd(PUT_OFF, run_id, (*begin.earlier_runs, run_id))

    def end(executed: Executed) -> None:
        undone = plan.header.steering.undone
        if executed.status == "done" and undone is not None:
            # Whichever run finishes the undo records it, before the plan counts as ended.
            record_undone(area, undone.plan_id, run_id)
        ending = replace(resting, status=executed.status)
        puts = 2 + is_apart(plan_id, ending, apart=has_rested)  # the report, the end of the plan, the lease's release
        store(executed, keeps_cache=begin.has_just_planned and waits(area.store), puts=puts)
        end_plan(area, plan_id, ending, apart=has_rested)

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
        check_not_undone(area, plan_id)

    try:
        if plan.header.arguments:
            # This plan follows other rules than the last pass. If this run dies, a pass by the table's own rules could
            # find nothing to do, and the unfinished plan would wait until the next due pass.
            invalidate(table, plan.header.branch)
        if moves_roots(plan.actions):
            # A rollback leaves the other tags as the last pass saw them. Other branch rewrites may replace them.
            moved_from(table, moved_branch(plan.actions), keeps_tags=plan.header.operation == "rollback")
        trusts_cache = begin.has_just_planned and not begin.asks_roots
        env = environment(table, area, plan, trusts_cache=trusts_cache)
        env = replace(env, check_policy=lambda: check_policy(table, manual=begin.manual))
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


def check_not_undone(area: ControlArea, plan_id: str) -> None:
    """Raise RefusedError if a plan was undone, since the user no longer wants the rest of it executed."""
    if (undoing := undone_by(area, plan_id)) is not None:
        raise RefusedError(f"plan {plan_id} was undone by run {undoing}; expected a new plan", code=PLAN_UNDONE)


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


def finish_begun(table: Table, lease: LeaseDocument, engine: PlanExecutor = LOCAL) -> RunReport | None:
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
        if local_executor.is_large(load_header(area, begun.plan_id)):
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
    return execute_plan(table, plan, Begin(begun.grace_ms, begun.runs, lease), engine=engine)


def _put_off(area: ControlArea, lease: LeaseDocument, begun: Intent, run_id: str) -> None:
    """Withdraw the intent of a plan of files alone."""
    end = PlanEnd(PUT_OFF, run_id, (*begun.runs, run_id))
    forget(area, lease, run_id, lambda: end_plan(area, begun.plan_id, end))


def _loaded(area: ControlArea, plan_id: str, engine: PlanExecutor) -> tuple[PlanExecutor, Plan]:
    """Return a stored plan, and an executor for it."""
    try:
        return engine, engine.load(area, plan_id)
    except RefusedError as error:
        if error.code != NOT_FILES_ALONE:
            raise
        return LOCAL, LOCAL.load(area, plan_id)
