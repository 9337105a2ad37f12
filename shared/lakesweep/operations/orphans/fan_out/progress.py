"""Which tasks of a scan have to end before it can continue, and which have ended."""

from collections.abc import Iterable, Iterator, Sequence

from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.operations.orphans.fan_out.documents import Match, More, Scan, ScanDocuments, State
from lakesweep.operations.orphans.fan_out.heads import FailedHead, Head, ListedHead, error_of, read_head
from lakesweep.operations.orphans.fan_out.names import names_of_table
from lakesweep.operations.orphans.fan_out.spill import Spill
from lakesweep.operations.orphans.fan_out.tasks import DecodeTask, Task, children_of
from lakesweep.operations.orphans.fan_out.worker import place_of
from lakesweep.storage.pools import threads

PARALLEL = 16
"""Heads that are read at the same time."""
MOST_HEADS = 256
"""Most heads that a step reads before it stores their facts. So a step that dies repeatedly still makes progress."""


def tasks_of(documents: ScanDocuments, scan: Scan, state: State, goes_by: Match | None) -> list[Task]:
    """Return the tasks that the steps of a scan made, without the tasks that tasks made."""
    later = [task for name in state.more for task in documents.read(More, name)[0].tasks]
    return [*scan.tasks, *later, *(goes_by.tasks if goes_by is not None else ()), *state.owners]


def unended(first: Iterable[Task], state: State) -> list[Task]:
    """Return the tasks that have to end before the scan can continue, those included that tasks made."""
    found: dict[str, Task] = {}
    waiting = list(first)
    while waiting:
        task = waiting.pop()
        found[task.id] = task
        head, _ = state.heads.get(task.id, (None, None))
        if isinstance(head, ListedHead):
            waiting += children_of(task.id, head.left)
    return [task for name, task in found.items() if name not in state.heads]


def left_of(documents: ScanDocuments) -> list[str]:
    """Return the ids of the tasks that have not ended, or none if the documents cannot be read."""
    try:
        scan = documents.find_scan()
        state, _ = documents.find_state()
        if scan is None:
            return []
        goes_by = None if state.match is None else documents.read(Match, state.match)[0]
        return sorted(task.id for task in unended(tasks_of(documents, scan, state, goes_by), state))
    except (FormatError, ObjectNotFoundError):
        return []


def hear(documents: ScanDocuments, state: State, tasks: Sequence[Task]) -> tuple[bool, bool]:
    """Take the findings that tasks wrote since the last step into the state.

    Returns:
        Whether there were any, and whether there are more than one step takes.

    Raises:
        MaintenanceError: A task met this error.
    """
    taken = 0
    there: set[str] | None = None
    while new := unended(tasks, state):
        if there is None:
            there = documents.tasks()
            if any(isinstance(task, DecodeTask) for task in new):
                there |= set(names_of_table(documents.area).names(""))
        ended = [task for task in new if _name_there(documents, task) in there]
        if not ended:
            break
        ended = ended[: MOST_HEADS - taken]
        if not ended:
            return True, True
        taken += len(ended)
        for task, (head, spill) in zip(ended, _heads(documents, ended), strict=True):
            if isinstance(head, FailedHead):
                raise error_of(head)
            state.heads[task.id] = head, spill
    return taken > 0, False


def _heads(documents: ScanDocuments, tasks: Sequence[Task]) -> Iterator[tuple[Head, Spill]]:
    """Yield what tasks have written, without the rows."""
    with threads(PARALLEL, "head") as pool:
        yield from pool.map(lambda task: read_head(*place_of(documents, task)), tasks)


def _name_there(documents: ScanDocuments, task: Task) -> str:
    _, name = place_of(documents, task)
    return name if isinstance(task, DecodeTask) else name.removeprefix(documents.name("tasks/"))
