"""Run what a message asks for, a pass or a stored plan, and send the messages that follow from its result."""

from collections.abc import Iterable
from dataclasses import replace

from lakesweep.aws.handing_on import AT_ONCE_S, SOON_S, again, ask_for_commits, go_on, pass_like, send
from lakesweep.aws.messages import Hint, NewerMessageError, Work
from lakesweep.aws.recording import PASSING, REFUSED, SKIPPED, record, status_metric
from lakesweep.aws.runtime import Runtime
from lakesweep.control.state import BranchState
from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.model.safety import HELD_AGAIN_S, REST_MS
from lakesweep.model.steering import UNSUPPORTED_PLAN
from lakesweep.operations.maintenance.commit_steps import COMMIT_STEPS
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.orphans import local as remove_orphan_files
from lakesweep.runs.pass_notes import note_refusal, wants_more
from lakesweep.runs.receipts import call_receipt
from lakesweep.runs.run import TOO_MANY_ACTIONS, execute_stored
from lakesweep.runs.session import Table

MAX_ACTIONS_IN_PLACE = 10_000
"""A plan with more actions is left to the larger executor, which has time for it."""


def run(runtime: Runtime, table: Table, message: Hint | Work, name: str, known: BranchState | None = None) -> RunReport:
    """Run it. The table remembers whether it was refused.

    Args:
        runtime: The function's runtime.
        table: The branch that the message names.
        message: What to run.
        name: Name of the message in log lines.
        known: The state of the last pass over the branch, if it was just read.

    Raises:
        NewerMessageError: The plan needs a newer function.
        MaintenanceError: It failed.
    """
    report = _run(runtime, table, message, known)
    if report.refusal is not None and report.refusal.code == UNSUPPORTED_PLAN:
        raise NewerMessageError(f"{name}: {report.refusal.message}")
    if report.refusal is not None and (isinstance(message, Hint) or message.plan_id is None):
        note_refusal(table, status_metric(report) == REFUSED)
    return call_receipt(table, report)


def settle(runtime: Runtime, message: Hint | Work, report: RunReport) -> None:
    """Log and count a run, and send what follows."""
    record(runtime.telemetry, report)
    for step in report.leaves():
        if step.operation in COMMIT_STEPS and step.status == "nothing_to_do":
            for warning in step.all_warnings():  # what this table leaves undone, and nothing counts as refused
                runtime.telemetry.warn(warning, table=step.table, branch=step.branch)
    ask_for_commits(runtime, report)
    _follow_up(runtime, message, report)


def _run(runtime: Runtime, table: Table, message: Hint | Work, known: BranchState | None) -> RunReport:
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
    arguments = MaintainArguments(
        announced=message.announced,
        max_actions=MAX_ACTIONS_IN_PLACE if isinstance(message, Hint) else None,
        is_due=True,
        known=known,
    )
    return maintain(table, arguments, execute=may_delete)


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
        go_on(runtime, replace(message, hop=0) if came_further else message, "out of time", delay_s)
    elif any(step.status == "stale" for step in leaves):
        # A stale plan is never executed. Another pass finds out what the table needs now.
        again(runtime, pass_like(message), "stale")
    elif any(step.status == "partial" and step.refusal is not None for step in leaves):
        again(runtime, message, "interrupted")
    elif codes & PASSING and not (isinstance(message, Work) and message.manual):
        # A plan that a person requested is refused and reported. A pass creates the tag when the other run has ended.
        again(runtime, pass_like(message), "another run is deleting a snapshot that a due tag needs", HELD_AGAIN_S)
    elif left := [step.plan.header.plan_id for step in leaves if step.status == "partial" and step.plan is not None]:
        # The documents are already deleted, so no later plan would name these objects again.
        runtime.telemetry.count("RunsFailed")
        manual = isinstance(message, Work) and message.manual
        for plan_id in left:
            work = Work(message.table, message.branch, plan_id, manual=manual, hop=message.hop)
            send(runtime, work, "objects could not be deleted", None)
    elif any(wants_more(step) for step in leaves):
        # A pass expires at most `snapshot.expire.limit` snapshots. A table with more commits than that must not fall
        # behind. Each pass leaves fewer snapshots, so this ends without a hop count.
        send(runtime, replace(pass_like(message), hop=0), "a pass ended at its limit", SOON_S)


def _is_skipped(step: RunReport) -> bool:
    return step.refusal is not None and step.refusal.code in SKIPPED


def _is_put_off(step: RunReport) -> bool:
    """Tell whether a step left a plan of orphan files, which other maintainers need not finish first."""
    return step.status == "partial" and step.operation == remove_orphan_files.OPERATION


def _settled(leaves: Iterable[RunReport]) -> bool:
    """Tell whether a run deleted an object or found it already gone."""
    return any(step.outcome.deleted or step.outcome.already_gone for step in leaves if step.outcome is not None)
