"""Carry out the work that a message asks for: a pass over a branch, or a stored plan.

Interrupted work is always finished. If time runs out, another message continues the work. If another maintainer is at
work, the same message comes again later. If a request fails, the queue repeats the message. The stored plan and the
ledger show where to continue, so messages carry no position.
"""

from lakesweep.aws.handing_on import again, go_on, send
from lakesweep.aws.messages import Hint, Work
from lakesweep.aws.queues import MAX_DELAY_S
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.errors import LeaseHeldError, LeaseLostError, MaintenanceError, OutOfTimeError
from lakesweep.model.safety import HELD_AGAIN_S
from lakesweep.operations.maintenance.triage import Triage, triage
from lakesweep.runs.session import Table

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
        found = None
        if isinstance(message, Hint) and not comes_again:
            found = _triage(runtime, table, message)
            if not found.is_due:
                telemetry.count_requests(table.counter.snapshot())
                return
        # A hint that needs no pass has ended above. So a function starts without the modules of a pass.
        from lakesweep.aws import execution

        report = execution.run(runtime, table, message, name, None if found is None else found.state)
    except OutOfTimeError as error:
        _out_of_time(runtime, table, message, error)
    except (LeaseHeldError, LeaseLostError) as error:
        telemetry.count("LeaseHeld")
        again(runtime, message, str(error), HELD_AGAIN_S if message.hop < MINUTES else MAX_DELAY_S)
    except MaintenanceError as error:
        telemetry.count("RunsFailed")
        telemetry.warn(f"{name}: {error}", table=message.table, branch=message.branch, code=error.code)
        raise
    else:
        execution.settle(runtime, message, report)


def _triage(runtime: Runtime, table: Table, hint: Hint) -> Triage:
    """Run triage on a commit once more, since another pass may have seen it meanwhile."""
    if hint.snapshot_id is None:
        return Triage(True)
    found = triage(table, hint.snapshot_id, runtime.settings.min_interval_ms, hint.etag, hint.announced)
    if found.wait_ms:
        send(runtime, hint, "the last pass was too recent", -(-found.wait_ms // 1000))
    return found


def _out_of_time(runtime: Runtime, table: Table, message: Hint | Work, error: OutOfTimeError) -> None:
    if isinstance(message, Work) and not table.counter.snapshot()["delete"]:
        # No function has more time, and another attempt would make no more progress.
        runtime.telemetry.count("RunsFailed")
        runtime.telemetry.warn(
            "the table is too large for a function", table=message.table, branch=message.branch, why=str(error)
        )
    else:
        go_on(runtime, message, str(error))
