"""Hand work on: another message continues it, later or with more time."""

from dataclasses import replace
from typing import TYPE_CHECKING

from lakesweep.aws.messages import BY_POLICY_ALONE, Commit, Hint, SparkRun, Work, needs_spark
from lakesweep.aws.runtime import Runtime
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.session import COMMITS_ELSEWHERE
from lakesweep.storage.clock import wall_ms

if TYPE_CHECKING:  # a hint that needs no pass has no report
    from lakesweep.model.report import RunReport

AT_ONCE_S = 0
SOON_S = 5


def go_on(runtime: Runtime, message: Hint | Work, why: str, delay_s: int = AT_ONCE_S) -> None:
    """Continue with more time: the larger executor finishes plans that have begun."""
    work = message
    if isinstance(message, Hint):
        work = Work(message.table, message.branch, announced=message.announced, hop=message.hop)
    runtime.telemetry.count("Continuations")
    send(runtime, work, why, delay_s)


def again(runtime: Runtime, message: Hint | Work, why: str, delay_s: int | None = None) -> None:
    """Ask for the same work once more, later. A pass may then find another commit."""
    send(runtime, pass_like(message) if isinstance(message, Hint) else message, why, delay_s)


def ask_for_commits(runtime: Runtime, report: "RunReport") -> None:
    """Request the commits that a pass planned and may not make. Data files are rewritten by a job on Spark."""
    for step in report.leaves():
        is_left = step.status == "planned" and any(COMMITS_ELSEWHERE in warning for warning in step.warnings)
        if not is_left or step.branch is None:
            continue
        if not needs_spark(step.operation):
            runtime.queues.ask_for_commit(Commit(step.operation, step.table, step.branch))
        elif runtime.queues.has_spark:
            job_id = new_id(wall_ms())
            runtime.queues.ask_for_scan(
                SparkRun(step.operation, step.table, job_id, step.branch, BY_POLICY_ALONE, execute=True)
            )
        else:
            runtime.telemetry.warn(
                f"this deployment has no Spark; run `lakesweep {step.operation} TABLE --by-policy --execute` elsewhere",
                table=step.table,
                branch=step.branch,
            )
            continue
        runtime.telemetry.count("Continuations")


def pass_like(message: Hint | Work) -> Hint | Work:
    """Return a message that asks the same function for a whole pass."""
    if isinstance(message, Work):
        return Work(message.table, message.branch, announced=message.announced, hop=message.hop)
    # Drop the commit's number: by then another commit may be the newest.
    return replace(message, snapshot_id=None, etag=None)


def send(runtime: Runtime, message: Hint | Work, why: str, delay_s: int | None) -> None:
    """Send a message that continues the work, or say that it was handed on too often."""
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
