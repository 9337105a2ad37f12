"""Run the operations that commit a snapshot, in the one function that may write manifests and snapshots.

A commit deletes no file, and the function behind this module has no permission to delete. No reader sees anything of an
interrupted commit. So a message may be taken again: the operation plans anew, on the newest snapshot of that time. The
request of a person has the id of its run, and a run that may have committed commits nothing more: rows that came since
then are not what the person asked about.
"""

from dataclasses import replace

from lakesweep.aws.messages import Commit, Message, next_hop
from lakesweep.aws.recording import record
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.errors import HeldBackError, LeaseHeldError, LeaseLostError, MaintenanceError, OutOfTimeError
from lakesweep.model.report import RunReport
from lakesweep.model.safety import HELD_AGAIN_S
from lakesweep.operations.maintenance.commit_steps import commit_for_pass
from lakesweep.operations.registry import run_operation
from lakesweep.runs.fleet import OBSERVED, may_delete, watched_ruling, why_observed
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.receipts import call_receipt
from lakesweep.runs.reports import refused
from lakesweep.runs.session import Table

MAX_WARNINGS = 20
_END_S = 20
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
    facts = _facts_of(commit)
    if not runtime.settings.may_delete:
        telemetry.count("RunsSkipped")
        telemetry.tell("nothing is committed, since this deployment only observes", **facts)
        return
    try:
        table = runtime.open_table(commit.table, commit.branch, context, may_commit=True)
        report = call_receipt(table, _run(table, commit))
    except OutOfTimeError as error:
        # No function has more time, and another attempt would make no more progress.
        telemetry.count("RunsFailed")
        telemetry.warn(
            f"the table is too large for a function; run lakesweep {commit.operation} where no time limit is",
            why=str(error),
            **facts,
        )
    except (LeaseHeldError, LeaseLostError) as error:
        telemetry.count("LeaseHeld")
        # A FIFO queue cannot delay single messages, so this process waits.
        left_s = context.get_remaining_time_in_millis() / 1000 - _END_S
        table.sleep(max(0.0, min(HELD_AGAIN_S, left_s)))
        _ask_again(runtime, next_hop(commit), facts, str(error))
    except MaintenanceError as error:
        telemetry.count("RunsFailed")
        telemetry.warn(f"{name}: {error}", code=error.code, **facts)
        raise
    else:
        record(telemetry, report)
        for warning in report.all_warnings()[:MAX_WARNINGS]:
            telemetry.warn(warning, run_id=report.run_id, **facts)
        if report.refusal is not None and report.refusal.code == OutOfTimeError.code:
            # At least one batch of partitions was committed. So this ends, however often it is handed on.
            run_id = new_id(table.store.now_ms()) if commit.manual else None
            _ask_again(runtime, next_hop(replace(commit, hop=0, run_id=run_id)), facts, report.refusal.message)


def _run(table: Table, commit: Commit) -> RunReport:
    if commit.manual:
        return run_operation(replace(table, run_id=commit.run_id), commit.operation, commit.arguments, execute=True)
    try:
        ruling = watched_ruling(table)
        if not may_delete(ruling):
            raise HeldBackError("; ".join(why_observed(ruling)), code=OBSERVED)
    except HeldBackError as error:
        return refused(table, commit.operation, error)
    return commit_for_pass(table, commit.operation, ruling)


def _ask_again(runtime: Runtime, message: Message | None, facts: dict[str, object], why: str) -> None:
    if isinstance(message, Commit):
        runtime.queues.ask_for_commit(message)
        runtime.telemetry.count("Continuations")
        runtime.telemetry.tell("another message continues the work", why=why, **facts)
    else:
        runtime.telemetry.count("HopLimitReached")
        runtime.telemetry.warn("the commit was handed on too often, and has to be requested again", why=why, **facts)


def _facts_of(commit: Commit) -> dict[str, object]:
    return {"table": commit.table, "branch": commit.branch, "operation": commit.operation, "hop": commit.hop}
