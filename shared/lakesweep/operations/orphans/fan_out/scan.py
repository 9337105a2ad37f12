"""A scan for orphan files by many workers: how it begins, and how it advances step by step.

No process lives as long as a scan. Each step checks which tasks have ended, sends the next ones, and schedules another
step. The last step makes the plan. Steps and tasks may come twice, late or in any order, and may die anywhere. The
first object written under a name counts. A step schedules the next step first, then writes the state, then sends tasks.
In this order the next step can make up for anything that a dead step left undone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from lakesweep.errors import FormatError, MaintenanceError, ObjectNotFoundError, StalePlanError
from lakesweep.format.codec import to_json
from lakesweep.model.safety import PLAN_LIFETIME_MS, STEP_DEAD_MS, TASKS_SILENCE_MS
from lakesweep.model.scans import Facts, OrphanArguments, check_scan_id
from lakesweep.operations.orphans.fan_out.begin import begin_scan, check_same
from lakesweep.operations.orphans.fan_out.documents import SCAN, Match, Scan, ScanDocuments, Source, State, understood
from lakesweep.operations.orphans.fan_out.finish import (
    Ended,
    end_with_error,
    ended_of,
    find_end,
    finish,
    keep_names,
    result_of,
)
from lakesweep.operations.orphans.fan_out.gather import gather, match_tasks
from lakesweep.operations.orphans.fan_out.heads import LASTING
from lakesweep.operations.orphans.fan_out.limits import LONGEST_DELAY_S, SHORTEST_DELAY_S
from lakesweep.operations.orphans.fan_out.match import DAMAGED_SEGMENT
from lakesweep.operations.orphans.fan_out.progress import hear, left_of, tasks_of, unended
from lakesweep.operations.orphans.fan_out.tasks import MatchTask, Task
from lakesweep.operations.orphans.fan_out.worker import Outbox
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table

__all__ = ["Ended", "Outbox", "advance", "begin", "find_end", "give_up", "has_begun"]


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
            check_same(table, scan, arguments)
        else:
            scan = begin_scan(table, documents, arguments, basis, facts)
    except LASTING as error:
        if not isinstance(error, StalePlanError) and error.code != "other_scan":
            end_with_error(table, documents, error)
        raise
    outbox.advance(1, SHORTEST_DELAY_S, progress=True)
    outbox.tasks([to_json(task) for task in scan.tasks])


def has_begun(table: Table, scan_id: str) -> bool:
    """Tell whether a scan has begun, even if its documents are damaged and it cannot continue."""
    try:
        return ScanDocuments.of(require_area(table), scan_id).find_scan() is not None
    except FormatError:
        return True


def advance(table: Table, scan_id: str, step: int, outbox: Outbox) -> Ended | None:
    """Run one step of a scan; return `None` while it goes on.

    Raises:
        FormatError: There is no such scan.
        StorageError: A request failed; the same step may run again.
    """
    documents = ScanDocuments.of(require_area(table), scan_id)
    before = table.counter.snapshot()
    result = documents.find_result()
    if result is not None:
        return ended_of(table, documents, result)
    try:
        scan = documents.find_scan()
        state, etag = documents.find_state()
    except FormatError as error:  # damaged, or of another version: no worker can continue this scan
        return end_with_error(table, documents, error)
    if scan is None:
        raise FormatError(f"{documents.path(SCAN)}: expected a scan that has begun, found none", code="no_such_scan")
    now_ms = table.store.now_ms()
    if step <= state.step and now_ms - state.looked_ms < STEP_DEAD_MS:
        return None  # this step has run, and the next one is scheduled
    if now_ms - scan.now_ms > PLAN_LIFETIME_MS:
        return give_up(table, scan_id, "it began more than a day ago, so its plan would have expired")
    state.step, state.looked_ms = max(step, state.step), now_ms
    try:
        with understood(documents.path("")):  # of any document that the scan has written
            mine = _Step(table, documents, scan, state, etag, outbox, before)
    except (FormatError, ObjectNotFoundError) as error:  # the state names only documents that were written before it
        return end_with_error(table, documents, error)
    return mine.take()


def give_up(table: Table, scan_id: str, why: str) -> Ended:
    """End a scan without a plan.

    Args:
        table: The table.
        scan_id: The scan.
        why: The reason, in words.
    """
    documents = ScanDocuments.of(require_area(table), scan_id)
    left = left_of(documents)
    waiting = f"; {len(left)} tasks have not ended, the first is {left[0]}" if left else ""
    error = MaintenanceError(f"table {table.ref}: scan {scan_id} was given up: {why}{waiting}", code="given_up")
    return end_with_error(table, documents, error)


@dataclass(slots=True)
class _Step:
    table: Table
    documents: ScanDocuments
    scan: Scan
    state: State
    etag: str | None
    outbox: Outbox
    counted: Mapping[str, int]
    """Requests that are in the state already."""
    goes_by: Match | None = field(init=False)
    tasks: list[Task] = field(init=False)
    is_behind: bool = False

    def __post_init__(self) -> None:
        match = self.state.match
        self.goes_by = None if match is None else self.documents.read(Match, match)[0]
        self.tasks = tasks_of(self.documents, self.scan, self.state, self.goes_by)

    def take(self) -> Ended | None:
        try:
            with understood(self.documents.path("")):
                return self._step()
        except StalePlanError:
            self._pause()
            return None
        except LASTING as error:
            self._forget_segment(error)
            return end_with_error(self.table, self.documents, error)

    def _step(self) -> Ended | None:
        heard, self.is_behind = hear(self.documents, self.state, self.tasks)
        missing = unended(self.tasks, self.state)
        if missing:
            self._wait(missing, heard)
            return None
        return self._go_on()

    def _wait(self, missing: Iterable[Task], heard: bool) -> None:
        """Schedule another step. Send the unfinished tasks again if none has reported for long."""
        state, now_ms = self.state, self.state.looked_ms
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
            self.outbox.tasks([to_json(task) for task in again])

    def _pause(self) -> None:
        """Schedule another step, since the table changes too fast at the moment."""
        self.state.idle += 1
        self._next(progress=False)
        self._written()

    def _next(self, *, progress: bool) -> None:
        delay_s = 0 if self.is_behind else min(SHORTEST_DELAY_S << min(self.state.idle, 10), LONGEST_DELAY_S)
        self.outbox.advance(self.state.step + 1, delay_s, progress=progress)

    def _written(self, step: str = "wait") -> bool:
        """Store the state; tell whether this worker was first."""
        self._count(step)
        self.state.count(step, {"put": 1})
        self.etag = self.documents.put_state(self.state, self.etag)
        return self.etag is not None

    def _count(self, step: str) -> None:
        """Count the requests since the last count under a step's name."""
        counted = self.table.counter.snapshot()
        self.state.count(step, {kind: count - self.counted[kind] for kind, count in counted.items()})
        self.counted = counted

    def _go_on(self) -> Ended | None:
        """Continue the scan after all tasks of a stage have ended."""
        state, documents = self.state, self.documents
        state.idle, state.heard_ms = 0, state.looked_ms
        if self.goes_by is None:
            document, content = gather(self.table, documents, self.scan, state)
            documents.put(document, content, if_absent=True)
            if isinstance(content, Match):
                state.match = document
            else:
                state.more.append(document)
            self._send(content.tasks, "gather")
            return None
        if not state.owners and (owners := self._owner_tasks(self.goes_by)):
            state.owners = owners
            self._send(owners, "owners")
            return None
        plan = finish(self.table, documents, self.scan, state, self.goes_by)
        keep_names(documents, self.scan, self.goes_by)
        status = "nothing_to_do" if plan.is_empty else "planned"
        if plan.header.steering.is_damaged:
            status = "damaged"
        self._count("finish")
        result = result_of(documents, self.scan, state, self.goes_by, plan)
        return ended_of(self.table, documents, documents.put_result({"status": status, **result}))

    def _send(self, tasks: Iterable[Task], step: str) -> None:
        self._next(progress=True)
        if self._written(step):
            self.outbox.tasks([to_json(task) for task in tasks])

    def _owner_tasks(self, goes_by: Match) -> list[MatchTask]:
        """Return the tasks of the second match, for extra files without a reference; none if there are none."""
        spills = [(task.id, self.state.heads[task.id][1]) for task in goes_by.tasks]
        owned = tuple(Source(self.documents.name(f"tasks/{name}"), spill) for name, spill in spills if spill.rows)
        if not owned:
            return []
        document = f"owners-{str(self.state.match).removeprefix('match-')}"
        self.documents.put(document, replace(goes_by, objects=owned, tasks=()))
        rows = [source.spill.slot_rows for source in (*goes_by.names, *goes_by.own_names, *owned)]
        slots = {slot for source in owned for slot, count in enumerate(source.spill.slot_rows) if count}
        return list(match_tasks(document, rows, slots, by_owner=True))

    def _forget_segment(self, error: MaintenanceError) -> None:
        """Let the next scan decode the manifests again whose segment this one found damaged."""
        if error.code == DAMAGED_SEGMENT and self.goes_by is not None:
            # The message may also contain a segment's name as the beginning of another name. Then both are dropped.
            damaged = {source.name for source in self.goes_by.names if source.name in str(error)}
            keep_names(self.documents, self.scan, self.goes_by, without=damaged)
