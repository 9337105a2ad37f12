"""Carry out the work that a message asks for: a pass over a branch, or a stored plan.

Interrupted work is always finished. If time runs out, another message continues the work. If another maintainer is at
work, the same message comes again later. If a request fails, the queue repeats the message. The stored plan and the
ledger show where to continue, so messages carry no position.
"""

from collections.abc import Iterable
from dataclasses import replace

from lakesweep.aws.messages import Hint, NewerMessageError, Work
from lakesweep.aws.queues import MAX_DELAY_S
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.telemetry import PASSING, REFUSED, SKIPPED, status_metric
from lakesweep.errors import LeaseHeldError, LeaseLostError, MaintenanceError, OutOfTimeError
from lakesweep.model.report import RunReport
from lakesweep.model.safety import HELD_AGAIN_S, REST_MS
from lakesweep.model.steering import UNSUPPORTED_PLAN
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.maintenance.triage import triage
from lakesweep.operations.orphans import local as remove_orphan_files
from lakesweep.runs.pass_notes import note_refusal, wants_more
from lakesweep.runs.run import TOO_MANY_ACTIONS, execute_stored
from lakesweep.runs.session import Table

MAX_ACTIONS_IN_PLACE = 10_000
"""A plan with more actions is left to the larger executor, which has time for it."""
AT_ONCE_S = 0
SOON_S = 5
MINUTES = 12
"""Attempts to get a held lease at intervals of a minute. No maintainer holds a lease for so long without a pause."""


def carry_out(
    runtime: Runtime, message: Hint | Work, context: Context, name: str, *, comes_again: bool = False
) -> None:
    """Carry out the work that a message asks for.

    Args:
        runtime: The function's runtime.
        message: A hint asks for a pass with a small plan, `Work` for any amount of work.
        context: The context of this invocation.
        name: Name of the message in log lines.
        comes_again: Whether an earlier attempt did not finish. The state of the last pass may be from that attempt, and
            its follow-up messages were not sent.

    Raises:
        MaintenanceError: It failed, and another attempt may succeed.
    """
    telemetry = runtime.telemetry
    if not runtime.is_ours(message.table, name):
        return
    try:
        table = runtime.open_table(message.table, message.branch, context)
        if isinstance(message, Hint) and not comes_again and not _is_due(runtime, table, message):
            telemetry.count_requests(table.counter.snapshot())
            return
        report = _run(runtime, table, message)
        if report.refusal is not None and report.refusal.code == UNSUPPORTED_PLAN:
            raise NewerMessageError(f"{name}: {report.refusal.message}")
        if report.refusal is not None and (isinstance(message, Hint) or message.plan_id is None):
            note_refusal(table, status_metric(report) == REFUSED)
    except OutOfTimeError as error:
        _out_of_time(runtime, table, message, error)
    except (LeaseHeldError, LeaseLostError) as error:
        telemetry.count("LeaseHeld")
        _again(runtime, message, str(error), HELD_AGAIN_S if message.hop < MINUTES else MAX_DELAY_S)
    except MaintenanceError as error:
        telemetry.count("RunsFailed")
        telemetry.warn(f"{name}: {error}", table=message.table, branch=message.branch, code=error.code)
        raise
    else:
        telemetry.record(report)
        _follow_up(runtime, message, report)


def _run(runtime: Runtime, table: Table, message: Hint | Work) -> RunReport:
    may_delete = runtime.settings.may_delete
    if isinstance(message, Work) and message.plan_id is not None:
        if not may_delete:
            raise MaintenanceError(
                f"table {table.ref}: plan {message.plan_id} was not executed, since this deployment only observes; "
                "expected its parameter Mode to be delete",
                code="observed",
            )
        confirm = message.plan_id if message.confirm else None
        return execute_stored(
            table,
            message.plan_id,
            confirm=confirm,
            grace_ms=message.grace_ms,
            run_id=message.plan_id,
            manual=message.manual,
        )
    arguments = MaintainArguments(max_actions=MAX_ACTIONS_IN_PLACE if isinstance(message, Hint) else None, is_due=True)
    return maintain(table, arguments, execute=may_delete)


def _is_due(runtime: Runtime, table: Table, hint: Hint) -> bool:
    """Run triage on a commit once more, since another pass may have seen it meanwhile."""
    if hint.snapshot_id is None:
        return True
    found = triage(table, hint.snapshot_id, runtime.settings.min_interval_ms, hint.etag)
    if found.wait_ms:
        _send(runtime, hint, "the last pass was too recent", -(-found.wait_ms // 1000))
    return found.is_due


def _follow_up(runtime: Runtime, message: Hint | Work, report: RunReport) -> None:
    # A plan that a policy stopped half way is continued only on request.
    leaves = tuple(step for step in report.leaves() if not (step.status == "partial" and _is_skipped(step)))
    for step in leaves:
        if step.plan is not None and step.refusal is not None and step.refusal.code == TOO_MANY_ACTIONS:
            runtime.queues.hand_over(Work(message.table, message.branch, step.plan.header.plan_id))
            runtime.telemetry.count("Continuations")
    codes = {step.refusal.code for step in leaves if step.refusal is not None} - SKIPPED
    if "out_of_time" in codes:
        # A plan deletes each object once. So a plan that made progress ends, however often it is handed on.
        came_further = isinstance(message, Work) and message.plan_id is not None and _settled(leaves)
        # Pause, so that another maintainer can get the lease. Otherwise Lakesweep would hold it until the epoch ends.
        delay_s = REST_MS // 1000 if any(map(_is_put_off, leaves)) else AT_ONCE_S
        _go_on(runtime, replace(message, hop=0) if came_further else message, "out of time", delay_s)
    elif any(step.status == "stale" for step in leaves):
        # A stale plan is never executed. Another pass finds out what the table needs now.
        _again(runtime, _pass_like(message), "stale")
    elif any(step.status == "partial" and step.refusal is not None for step in leaves):
        _again(runtime, message, "interrupted")
    elif codes & PASSING and not (isinstance(message, Work) and message.manual):
        # A plan that a person requested is refused and reported. A pass creates the tag when the other run has ended.
        _again(runtime, _pass_like(message), "another run is deleting a snapshot that a due tag needs", HELD_AGAIN_S)
    elif left := [step.plan.header.plan_id for step in leaves if step.status == "partial" and step.plan is not None]:
        # The documents are already deleted, so no later plan would name these objects again.
        runtime.telemetry.count("RunsFailed")
        manual = isinstance(message, Work) and message.manual
        for plan_id in left:
            work = Work(message.table, message.branch, plan_id, manual=manual, hop=message.hop)
            _send(runtime, work, "objects could not be deleted", None)
    elif any(wants_more(step) for step in leaves):
        # A pass expires at most `snapshot.expire.limit` snapshots. A table with more commits than that must not fall
        # behind. Each pass leaves fewer snapshots, so this ends without a hop count.
        _send(runtime, replace(_pass_like(message), hop=0), "a pass ended at its limit", SOON_S)


def _is_skipped(step: RunReport) -> bool:
    return step.refusal is not None and step.refusal.code in SKIPPED


def _is_put_off(step: RunReport) -> bool:
    """Tell whether a step left a plan of orphan files, which other maintainers need not finish first."""
    return step.status == "partial" and step.operation == remove_orphan_files.OPERATION


def _settled(leaves: Iterable[RunReport]) -> bool:
    """Tell whether a run deleted an object or found it already gone."""
    return any(step.outcome.deleted or step.outcome.already_gone for step in leaves if step.outcome is not None)


def _out_of_time(runtime: Runtime, table: Table, message: Hint | Work, error: OutOfTimeError) -> None:
    if isinstance(message, Work) and not table.counter.snapshot()["delete"]:
        # No function has more time, and another attempt would make no more progress.
        runtime.telemetry.count("RunsFailed")
        runtime.telemetry.warn(
            "the table is too large for a function", table=message.table, branch=message.branch, why=str(error)
        )
    else:
        _go_on(runtime, message, str(error))


def _go_on(runtime: Runtime, message: Hint | Work, why: str, delay_s: int = AT_ONCE_S) -> None:
    """Continue with more time: the larger executor finishes plans that have begun."""
    work = message if isinstance(message, Work) else Work(message.table, message.branch, hop=message.hop)
    runtime.telemetry.count("Continuations")
    _send(runtime, work, why, delay_s)


def _again(runtime: Runtime, message: Hint | Work, why: str, delay_s: int | None = None) -> None:
    _send(runtime, _pass_like(message) if isinstance(message, Hint) else message, why, delay_s)


def _pass_like(message: Hint | Work) -> Hint | Work:
    """Return a message that asks the same function for a whole pass."""
    if isinstance(message, Work):
        return Work(message.table, message.branch, hop=message.hop)
    # Drop the commit's number: by then another commit may be the newest.
    return replace(message, snapshot_id=None, etag=None)


def _send(runtime: Runtime, message: Hint | Work, why: str, delay_s: int | None) -> None:
    facts = {"table": message.table, "branch": message.branch, "hop": message.hop, "why": why}
    if runtime.queues.again(message, delay_s):
        runtime.telemetry.tell("another message continues the work", **facts)
        return
    runtime.telemetry.count("HopLimitReached")
    if isinstance(message, Work) and message.plan_id is not None:
        # A sweep finds due work, but no plans. The documents that named the plan's objects may already be deleted.
        runtime.telemetry.warn(
            "the plan was handed on too often; lakesweep execute continues it", plan_id=message.plan_id, **facts
        )
    else:
        runtime.telemetry.warn("the work was handed on too often; the next sweep requests it again", **facts)
