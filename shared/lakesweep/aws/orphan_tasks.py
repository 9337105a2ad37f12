"""Do a task of a scan for orphan files: list a part of a table, decode manifests, or match names.

What a task found is one object, written once. A task that comes twice, or after the death of the worker before, finds
it there or writes the same.
"""

from lakesweep.aws.messages import OrphanTask
from lakesweep.aws.orphan_outbox import TaskOutbox
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.errors import MaintenanceError
from lakesweep.fan_out.worker import work
from lakesweep.model.table_ref import MAIN


def do_task(runtime: Runtime, message: OrphanTask, context: Context, name: str) -> None:
    """Do what a message asks for.

    Args:
        runtime: Of the function.
        message: Of the task.
        context: Of this invocation.
        name: What log lines call the message.

    Raises:
        MaintenanceError: It failed; the message comes again.
    """
    telemetry = runtime.telemetry
    if not runtime.is_ours(message.table, name):
        return
    table = runtime.open_table(message.table, MAIN, context)
    try:
        work(table, message.scan_id, message.task, TaskOutbox(runtime, message.table, message.scan_id))
    except MaintenanceError as error:
        if error.code == "no_such_scan":  # it is long over, and a rule of the bucket has removed it
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
