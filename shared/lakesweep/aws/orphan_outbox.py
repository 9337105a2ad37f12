"""What a scan for orphan files sends through SQS: tasks for its workers, and its own next turn."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakesweep.aws.messages import HOP_LIMIT, OrphanScan, OrphanTask
from lakesweep.aws.runtime import Runtime
from lakesweep.errors import MaintenanceError

Task = Mapping[str, object]


class TaskOutbox:
    """What a worker sends: further tasks of its scan."""

    def __init__(self, runtime: Runtime, table: str, scan_id: str) -> None:
        """Make it for a scan of a table."""
        self._runtime = runtime
        self._table = table
        self._scan_id = scan_id

    def tasks(self, tasks: Sequence[Task]) -> None:
        """Give tasks to the workers, at once. Each gets on with its own share, so none counts as handed on.

        Raises:
            StorageError: Not all of them were taken.
        """
        self._runtime.queues.orphan_tasks(OrphanTask(self._table, self._scan_id, task) for task in tasks)

    def fold(self, turn: int, delay_s: int, *, progress: bool) -> None:
        """Refuse: a worker has no say in the turns of its scan."""
        raise MaintenanceError(f"scan {self._scan_id}: a worker asked for turn {turn}")


class ScanOutbox(TaskOutbox):
    """What a turn sends: tasks, and the next turn."""

    def __init__(self, runtime: Runtime, message: OrphanScan) -> None:
        """Make it for the turn that a message asked for."""
        super().__init__(runtime, message.table, message.scan_id)
        self._message = message
        self.is_stuck = False
        """The next turn was not asked for, since too many in a row saw nothing move on."""

    def fold(self, turn: int, delay_s: int, *, progress: bool) -> None:
        """Ask for the next turn later.

        Args:
            turn: Which one.
            delay_s: How much later; a quarter of an hour at most.
            progress: Something has been done since the last turn. Turns without it end at the hop limit.

        Raises:
            StorageError: The message was not taken.
        """
        hop = 0 if progress else self._message.hop + 1
        if hop >= HOP_LIMIT:
            self.is_stuck = True
            return
        self._runtime.queues.ask_for_orphan_scan(replace(self._message, turn=turn, hop=hop), delay_s)
