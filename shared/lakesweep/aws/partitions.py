"""Run the operations that commit a snapshot, in the one function that may write manifests and snapshots.

A commit deletes no file, and the function behind this module has no permission to delete. Nothing of an interrupted
commit is visible. So a message may be taken again: the operation plans anew, on the newest snapshot of that time.
"""

from lakesweep.aws.messages import Commit, next_hop
from lakesweep.aws.recording import record
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.errors import LeaseHeldError, LeaseLostError, MaintenanceError, OutOfTimeError
from lakesweep.model.report import RunReport
from lakesweep.model.safety import HELD_AGAIN_S
from lakesweep.operations.registry import run_operation
from lakesweep.runs.fleet import may_delete, ruling_of
from lakesweep.runs.session import COMMITS_ELSEWHERE, Table

_END_MS = 20_000
"""So much of an invocation's time is left when it stops to wait."""


def carry_out(runtime: Runtime, commit: Commit, context: Context, name: str) -> None:
    """Carry out a request for a commit.

    Args:
        runtime: The function's runtime.
        commit: The request.
        context: The context of this invocation.
        name: Name of the message in log lines.

    Raises:
        MaintenanceError: It failed, and another attempt may succeed.
    """
    telemetry = runtime.telemetry
    if not runtime.is_ours(commit.table, name):
        return
    facts = {"table": commit.table, "branch": commit.branch, "operation": commit.operation}
    try:
        table = runtime.open_table(commit.table, commit.branch, context, may_commit=True)
        if not _is_wanted(runtime, table, commit):
            telemetry.count("RunsSkipped")
            telemetry.tell("nothing is committed, since the table or the deployment is only observed", **facts)
            return
        report = run_operation(table, commit.operation, commit.arguments, execute=True)
    except OutOfTimeError as error:
        # No function has more time, and another attempt would make no more progress.
        telemetry.count("RunsFailed")
        telemetry.warn("the table is too large for a function", why=str(error), **facts)
    except (LeaseHeldError, LeaseLostError) as error:
        telemetry.count("LeaseHeld")
        _again(runtime, table, commit, context, str(error))
    except MaintenanceError as error:
        telemetry.count("RunsFailed")
        telemetry.warn(f"{name}: {error}", code=error.code, **facts)
        raise
    else:
        record(telemetry, report)


def ask_for_commits(runtime: Runtime, report: RunReport) -> None:
    """Request the commits that a pass planned and may not make."""
    for step in report.leaves():
        if step.status == "planned" and COMMITS_ELSEWHERE in step.warnings and step.branch is not None:
            runtime.queues.ask_for_commit(Commit("expire-partitions", step.table, step.branch))
            runtime.telemetry.count("Continuations")


def _is_wanted(runtime: Runtime, table: Table, commit: Commit) -> bool:
    """Tell whether the deployment and the policy still allow the request; its pause is checked with the operation."""
    return runtime.settings.may_delete and (commit.manual or may_delete(ruling_of(table)))


def _again(runtime: Runtime, table: Table, commit: Commit, context: Context, why: str) -> None:
    """Send the request again, after a wait in this process: a FIFO queue cannot delay single messages."""
    facts = {
        "table": commit.table,
        "branch": commit.branch,
        "operation": commit.operation,
        "hop": commit.hop,
        "why": why,
    }
    handed_on = next_hop(commit)
    if not isinstance(handed_on, Commit):
        runtime.telemetry.count("HopLimitReached")
        runtime.telemetry.warn("the commit was handed on too often; a pass, or a person, requests it again", **facts)
        return
    table.sleep(max(0.0, min(HELD_AGAIN_S, (context.get_remaining_time_in_millis() - _END_MS) / 1000)))
    runtime.queues.ask_for_commit(handed_on)
    runtime.telemetry.tell("another message continues the work", **facts)
