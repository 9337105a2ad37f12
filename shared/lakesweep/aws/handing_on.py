"""Hand work on: another message continues it, later or with more time."""

from dataclasses import replace
from typing import TYPE_CHECKING

from lakesweep.aws.messages import Commit, Hint, Work
from lakesweep.aws.runtime import Runtime
from lakesweep.runs.session import COMMITS_ELSEWHERE

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
    """Request the commits that a pass planned and may not make."""
    for step in report.leaves():
        is_left = step.status == "planned" and any(COMMITS_ELSEWHERE in warning for warning in step.warnings)
        if is_left and step.branch is not None:
            runtime.queues.ask_for_commit(Commit(step.operation, step.table, step.branch))
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
