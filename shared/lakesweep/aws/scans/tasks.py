"""Carry out a task of a scan for orphan files: list a part of a table, decode manifests, or match names.

The findings of a task are one object, written once. A task may come twice, or after its first worker died. Then it
finds this object or writes the same one.
"""

from lakesweep.aws.messages import OrphanTask
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.scans.outbox import TaskOutbox
from lakesweep.errors import MaintenanceError
from lakesweep.model.roots import MAIN
from lakesweep.operations.orphans.fan_out.worker import work


def do_task(runtime: Runtime, message: OrphanTask, context: Context, name: str) -> None:
    """Carry out the task in a message.

    Args:
        runtime: The function's runtime.
        message: The message with the task.
        context: The context of this invocation.
        name: Name of the message in log lines.

    Raises:
        MaintenanceError: The task failed; SQS repeats the message.
    """
    telemetry = runtime.telemetry
    if not runtime.is_ours(message.table, name):
        return
    table = runtime.open_table(message.table, MAIN, context)
    try:
        work(table, message.scan_id, message.task, TaskOutbox(runtime, message.table, message.scan_id))
    except MaintenanceError as error:
        if error.code == "no_such_scan":  # the scan ended long ago, and a bucket rule has deleted its documents
            telemetry.tell(f"{name}: {error}", table=message.table, scan_id=message.scan_id)
            return
        telemetry.count("OrphanTasksFailed")
        telemetry.warn(
            f"{name}: {error}",
            table=message.table,
            scan_id=message.scan_id,
            task=str(message.task.get("id"))[:100],
            code=error.code,
        )
        raise
    finally:
        telemetry.count_requests(table.counter.snapshot())
    telemetry.count("OrphanTasks")
