"""The tasks of a scan for orphan files: how a step sends them, and how a worker carries one out.

A task lists a part of a table, decodes manifests, or matches names. Its findings are one object, written once. A task
may come twice, or after its first worker died. Then it finds this object or writes the same one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakesweep.aws.messages import HOP_LIMIT, OrphanScan, OrphanTask
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.errors import MaintenanceError
from lakesweep.model.roots import MAIN
from lakesweep.operations.orphans.fan_out.worker import work

Task = Mapping[str, object]


class TaskOutbox:
    """What a worker sends: further tasks of its scan."""

    def __init__(self, runtime: Runtime, table: str, scan_id: str) -> None:
        """Create it for a scan of a table."""
        self._runtime = runtime
        self._table = table
        self._scan_id = scan_id

    def tasks(self, tasks: Sequence[Task]) -> None:
        """Send tasks to the workers, without delay. Each is a new share of the work, so its hop count stays 0.

        Raises:
            StorageError: SQS did not take all of them.
        """
        self._runtime.queues.orphan_tasks(OrphanTask(self._table, self._scan_id, task) for task in tasks)

    def advance(self, step: int, delay_s: int, *, progress: bool) -> None:
        """Refuse: a worker may not schedule the steps of its scan."""
        raise MaintenanceError(f"scan {self._scan_id}: a worker may not schedule step {step}")


class ScanOutbox(TaskOutbox):
    """What a step of a scan sends: tasks, and the next step."""

    def __init__(self, runtime: Runtime, message: OrphanScan) -> None:
        """Create it for the step that a message asked for."""
        super().__init__(runtime, message.table, message.scan_id)
        self._message = message
        self.is_stuck = False
        """Whether the next step was not scheduled, since too many steps in a row made no progress."""

    def advance(self, step: int, delay_s: int, *, progress: bool) -> None:
        """Schedule the next step.

        Args:
            step: Number of the step.
            delay_s: Delay; a quarter of an hour at most.
            progress: Whether there was progress since the last step. Without it the hop limit ends the scan.

        Raises:
            StorageError: SQS did not take the message.
        """
        hop = 0 if progress else self._message.hop + 1
        if hop >= HOP_LIMIT:
            self.is_stuck = True
            return
        self._runtime.queues.ask_for_orphan_scan(replace(self._message, step=step, hop=hop), delay_s)


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
