"""A scan for orphan files by many workers: how it begins, and how it advances step by step.

No process lives as long as a scan. Each step checks which tasks have ended, sends the next ones, and schedules another
step. The last step makes the plan. Steps and tasks may come twice, late or in any order, and may die anywhere. The
first object written under a name counts. A step schedules the next step first, then writes the state, then sends tasks.
In this order the next step can make up for anything that a dead step left undone.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from lakesweep.control.plans import load_header
from lakesweep.errors import (
    AccessDeniedError,
    FormatError,
    MaintenanceError,
    ObjectNotFoundError,
    RefusedError,
    StalePlanError,
    UsageError,
)
from lakesweep.model.plan import Plan
from lakesweep.model.safety import PLAN_LIFETIME_MS, STEP_DEAD_MS, TASKS_SILENCE_MS
from lakesweep.model.scan_arguments import OrphanArguments
from lakesweep.model.scan_facts import Facts
from lakesweep.operations.orphans.fan_out.begin import begin_scan, check_same
from lakesweep.operations.orphans.fan_out.documents import SCAN, Json, ScanDocuments, State, understood
from lakesweep.operations.orphans.fan_out.finish import finish, keep_names
from lakesweep.operations.orphans.fan_out.gather import gather, match_tasks
from lakesweep.operations.orphans.fan_out.limits import LONGEST_DELAY_S, SHORTEST_DELAY_S
from lakesweep.operations.orphans.fan_out.match import DAMAGED_SEGMENT
from lakesweep.operations.orphans.fan_out.result import result_of
from lakesweep.operations.orphans.fan_out.spill import Spill, head_of
from lakesweep.operations.orphans.fan_out.tasks import DecodeTask, Task, children_of, shard_of, task_of
from lakesweep.operations.orphans.fan_out.worker import Outbox, error_of, place_of
from lakesweep.operations.orphans.scan import check_scan_id
from lakesweep.runs.run import require_area
from lakesweep.runs.session import Table

__all__ = ["Ended", "Outbox", "begin", "find_end", "fold", "give_up", "has_begun"]

PARALLEL = 16
"""Heads that are read at the same time."""
MOST_HEADS = 256
"""Most heads that a step reads before it stores their facts. So a step that dies repeatedly still makes progress."""
_LASTING = (AccessDeniedError, FormatError, RefusedError, UsageError)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a scan ended."""

    status: str
    """`planned`, `nothing_to_do`, `damaged`, `refused` or `failed`."""
    plan: Plan | None
    """The plan's header; the actions are in the stored parts."""
    refusal: Mapping[str, str] | None
    """`code` and `message`."""
    result: Mapping[str, object]
    """The document `result.json`."""


def begin(
    table: Table,
    scan_id: str,
    arguments: OrphanArguments,
    outbox: Outbox,
    basis: Mapping[str, object] | None = None,
    facts: Facts | None = None,
) -> None:
    """Begin a scan, or continue the one with the same id.

    Args:
        table: The table.
        scan_id: Distinguishes the scan from all others of the table.
        arguments: The caller's arguments.
        outbox: Takes the first tasks.
        basis: Additional facts for the scan's result, such as the reason why it runs here.
        facts: Facts known of the table beforehand; the estimate uses them and the roots.

    Raises:
        UsageError: An argument that does not apply.
        RefusedError: This table must not be scanned. The scan's result says so, too.
        StorageError: A request failed; the same call may be made again.
    """
    check_scan_id(scan_id)
    documents = ScanDocuments.of(require_area(table), scan_id)
    if documents.find_result() is not None:
        return
    try:
        scan = documents.find_scan()
        if scan is not None:
            with understood(documents.path(SCAN)):
                check_same(table, scan, arguments)
        else:
            scan = begin_scan(table, documents, arguments, basis, facts)
    except _LASTING as error:
        if not isinstance(error, StalePlanError) and error.code != "other_scan":
            _end_with_error(table, documents, error)
        raise
    outbox.fold(1, SHORTEST_DELAY_S, progress=True)
    outbox.tasks(scan["tasks"])


def has_begun(table: Table, scan_id: str) -> bool:
    """Tell whether a scan has begun, even if its documents are damaged and it cannot continue."""
    try:
        return ScanDocuments.of(require_area(table), scan_id).find_scan() is not None
    except FormatError:
        return True


def fold(table: Table, scan_id: str, turn: int, outbox: Outbox) -> Ended | None:
    """Run one step of a scan; return `None` while it goes on.

    Raises:
        FormatError: There is no such scan.
        StorageError: A request failed; the same step may run again.
    """
    documents = ScanDocuments.of(require_area(table), scan_id)
    before = table.counter.snapshot()
    result = documents.find_result()
    if result is not None:
        return _ended(table, documents, result)
    try:
        scan = documents.find_scan()
        state, etag = documents.find_state()
    except FormatError as error:  # damaged, or of another version: no worker can continue this scan
        return _end_with_error(table, documents, error)
    if scan is None:
        raise FormatError(f"{documents.path(SCAN)}: expected a scan that has begun, found none", code="no_such_scan")
    now_ms = table.store.now_ms()
    if turn <= state.turn and now_ms - state.looked_ms < STEP_DEAD_MS:
        return None  # this step has run, and the next one is scheduled
    if now_ms - scan["now_ms"] > PLAN_LIFETIME_MS:
        return give_up(table, scan_id, "it began more than a day ago, so its plan would have expired")
    state.turn, state.looked_ms = max(turn, state.turn), now_ms
    try:
        with understood(documents.path("")):  # of any document that the scan has written
            mine = _Turn(table, documents, scan, state, etag, outbox, before)
    except (FormatError, ObjectNotFoundError) as error:  # the state names only documents that were written before it
        return _end_with_error(table, documents, error)
    return mine.take()


def give_up(table: Table, scan_id: str, why: str) -> Ended:
    """End a scan without a plan.

    Args:
        table: The table.
        scan_id: The scan.
        why: The reason, in words.
    """
    documents = ScanDocuments.of(require_area(table), scan_id)
    left = _left(documents)
    waiting = f"; {len(left)} tasks have not ended, the first is {left[0]}" if left else ""
    error = MaintenanceError(f"table {table.ref}: scan {scan_id} was given up: {why}{waiting}", code="given_up")
    return _end_with_error(table, documents, error)


def find_end(table: Table, scan_id: str) -> Ended | None:
    """Return how a scan ended; `None` while it goes on, or if there is no such scan."""
    documents = ScanDocuments.of(require_area(table), scan_id)
    result = documents.find_result()
    return None if result is None else _ended(table, documents, result)


class _Turn:
    def __init__(
        self,
        table: Table,
        documents: ScanDocuments,
        scan: Json,
        state: State,
        etag: str | None,
        outbox: Outbox,
        counted: Mapping[str, int],
    ) -> None:
        self._table = table
        self._documents = documents
        self._scan = scan
        self._state = state
        self._etag = etag
        self._outbox = outbox
        self._counted = counted
        self._is_behind = False
        self._goes_by = None if state.match is None else documents.read(state.match)[0]
        self._tasks = _tasks(documents, scan, state, self._goes_by)

    def take(self) -> Ended | None:
        try:
            with understood(self._documents.path("")):
                return self._step()
        except StalePlanError:
            self._pause()
            return None
        except _LASTING as error:
            self._forget_segment(error)
            return _end_with_error(self._table, self._documents, error)

    def _step(self) -> Ended | None:
        heard = self._hear()
        missing = [task for name, task in self._expected().items() if name not in self._state.heads]
        if missing:
            self._wait(missing, heard)
            return None
        return self._go_on()

    def _expected(self) -> dict[str, Task]:
        return _expected(self._tasks, self._state)

    def _hear(self) -> bool:
        """Read the findings that tasks wrote since the last step, and tell whether there were any.

        Raises:
            MaintenanceError: A task met this error.
        """
        state, documents = self._state, self._documents
        heard, taken = False, 0
        there: set[str] | None = None
        while new := [task for name, task in self._expected().items() if name not in state.heads]:
            if there is None:
                there = documents.tasks()
                if any(isinstance(task, DecodeTask) for task in new):
                    area, _ = place_of(documents, next(task for task in new if isinstance(task, DecodeTask)))
                    there |= set(area.names(""))
            ended = [task for task in new if _name_there(documents, task) in there]
            if not ended:
                break
            ended = ended[: MOST_HEADS - taken]
            if not ended:
                self._is_behind = True
                break
            taken += len(ended)
            for task, spill in zip(ended, _heads(documents, ended), strict=True):
                if (error := error_of(spill.info)) is not None:
                    raise error
                state.heads[task.id] = {"kind": task.kind, "info": dict(spill.info), "spill": spill.to_json()}
                heard = True
        return heard

    def _wait(self, missing: Iterable[Task], heard: bool) -> None:
        """Schedule another step. Send the unfinished tasks again if none has reported for long."""
        state, now_ms = self._state, self._state.looked_ms
        if heard:
            state.heard_ms, state.idle = now_ms, 0
        else:
            state.heard_ms = state.heard_ms or now_ms
            state.idle += 1
        again: list[Task] = []
        if now_ms - state.heard_ms > TASKS_SILENCE_MS:
            again, state.heard_ms = list(missing), now_ms
        self._next(progress=heard)
        if self._written() and again:
            self._outbox.tasks([task.to_json() for task in again])

    def _pause(self) -> None:
        """Schedule another step, since the table changes too fast at the moment."""
        self._state.idle += 1
        self._next(progress=False)
        self._written()

    def _next(self, *, progress: bool) -> None:
        delay_s = 0 if self._is_behind else min(SHORTEST_DELAY_S << min(self._state.idle, 10), LONGEST_DELAY_S)
        self._outbox.fold(self._state.turn + 1, delay_s, progress=progress)

    def _written(self, step: str = "wait") -> bool:
        """Store the state; tell whether this worker was first."""
        self._count(step)
        self._state.count(step, {"put": 1})
        self._etag = self._documents.put_state(self._state, self._etag)
        return self._etag is not None

    def _count(self, step: str) -> None:
        """Count the requests since the last count under a step's name."""
        counted = self._table.counter.snapshot()
        self._state.count(step, {kind: count - self._counted[kind] for kind, count in counted.items()})
        self._counted = counted

    def _go_on(self) -> Ended | None:
        """Continue the scan after all tasks of a stage have ended."""
        state, documents = self._state, self._documents
        state.idle, state.heard_ms = 0, state.looked_ms
        if self._goes_by is None:
            found = gather(self._table, documents, self._scan, state)
            documents.put(found.document, found.content, if_absent=True)
            if found.is_match:
                state.stage, state.match = "match", found.document
            else:
                state.more.append(found.document)
            self._send(found.content["tasks"], "gather")
            return None
        if state.stage == "match" and (owners := self._owner_tasks(self._goes_by)):
            state.stage, state.owners = "owners", owners
            self._send(owners, "owners")
            return None
        plan = finish(self._table, documents, self._scan, state, self._goes_by)
        keep_names(documents, self._scan, self._goes_by)
        status = "nothing_to_do" if plan.is_empty else "planned"
        if plan.header.steering.is_damaged:
            status = "damaged"
        self._count("finish")
        result = result_of(documents, self._scan, state, self._goes_by, plan)
        return _ended(self._table, documents, documents.put_result({"status": status, **result}))

    def _send(self, tasks: Iterable[Json], step: str) -> None:
        self._next(progress=True)
        if self._written(step):
            self._outbox.tasks(list(tasks))

    def _owner_tasks(self, goes_by: Json) -> list[Json]:
        """Return the tasks of the second match, for extra files without a reference; none if there are none."""
        sources = []
        for task in goes_by["tasks"]:
            spill = self._state.heads[task["id"]]["spill"]
            if Spill.from_json(spill, task["id"]).rows:
                sources.append({"name": self._documents.name(f"tasks/{task['id']}"), "spill": spill})
        if not sources:
            return []
        document = f"owners-{str(self._state.match).removeprefix('match-')}"
        owned, names = (
            [Spill.from_json(each["spill"], each["name"]).slot_rows for each in rows]
            for rows in (sources, [*goes_by["names"], *goes_by["own_names"]])
        )
        slots = {slot for rows in owned for slot, count in enumerate(rows) if count}
        self._documents.put(document, {**goes_by, "owned": sources, "tasks": []})
        return [task.to_json() for task in match_tasks(document, [*names, *owned], slots, by_owner=True)]

    def _forget_segment(self, error: MaintenanceError) -> None:
        """Let the next scan decode the manifests again whose segment this one found damaged."""
        if error.code == DAMAGED_SEGMENT and self._goes_by is not None:
            # The message may also contain a segment's name as the beginning of another name. Then both are dropped.
            damaged = {row["name"] for row in self._goes_by["names"] if row["name"] in str(error)}
            keep_names(self._documents, self._scan, self._goes_by, without=damaged)


def _tasks(documents: ScanDocuments, scan: Json, state: State, goes_by: Json | None) -> list[Json]:
    """Return the tasks that the steps of a scan made, without the tasks that tasks made."""
    later = [documents.read(name)[0] for name in state.more]
    if goes_by is not None:
        later.append(goes_by)
    return [*scan["tasks"], *(task for each in later for task in each["tasks"]), *state.owners]


def _left(documents: ScanDocuments) -> list[str]:
    """Return the ids of the tasks that have not ended, or none if the documents cannot be read."""
    try:
        scan = documents.find_scan()
        state, _ = documents.find_state()
        if scan is None:
            return []
        goes_by = None if state.match is None else documents.read(state.match)[0]
        with understood(documents.path("")):
            return sorted(_expected(_tasks(documents, scan, state, goes_by), state).keys() - state.heads.keys())
    except (FormatError, ObjectNotFoundError):
        return []


def _expected(first: Iterable[Json], state: State) -> dict[str, Task]:
    """Return all tasks that have to end before the scan can continue."""
    found: dict[str, Task] = {}
    waiting = [task_of(row, "task of a scan") for row in first]
    while waiting:
        task = waiting.pop()
        found[task.id] = task
        head = state.heads.get(task.id)
        if head is not None:
            waiting += children_of(task.id, [shard_of(row, task.id) for row in head["info"].get("left", ())])
    return found


def _heads(documents: ScanDocuments, tasks: Sequence[Task]) -> Iterator[Spill]:
    """Yield what tasks have written, without the rows."""

    def head(task: Task) -> Spill:
        area, name = place_of(documents, task)
        return head_of(area.store, area.prefix + name)

    with ThreadPoolExecutor(max_workers=PARALLEL, thread_name_prefix="head") as pool:
        yield from pool.map(head, tasks)


def _name_there(documents: ScanDocuments, task: Task) -> str:
    _, name = place_of(documents, task)
    return name if isinstance(task, DecodeTask) else name.removeprefix(documents.name("tasks/"))


def _ended(table: Table, documents: ScanDocuments, result: Json) -> Ended:
    plan_id = result.get("plan_id")
    # A plan without actions is stored with the scan.
    area = require_area(table) if result.get("action_count") else documents.area
    plan = None if plan_id is None else Plan(load_header(area, str(plan_id)))
    return Ended(str(result["status"]), plan, result.get("refusal"), result)


def _end_with_error(table: Table, documents: ScanDocuments, error: MaintenanceError) -> Ended:
    result = {
        "status": "refused" if isinstance(error, RefusedError) else "failed",
        "plan_id": None,
        "refusal": {"type": type(error).__name__, "code": error.code, "message": str(error)},
        "ended_ms": table.store.now_ms(),
    }
    return _ended(table, documents, documents.put_result(result))
