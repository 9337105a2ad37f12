"""One slice of a stored plan, deleted by one of many processes that carry the plan out.

The process that holds the lease decides what goes and when (`execute/waves.py`). It hands slices out in *lanes*: what
one process deletes one after the other, at its share of the rate. Who works on a lane holds no lease, so it knows when
the lease ends, and begins no request unless the lease outlasts it. A process that was taken for dead and wakes up later
deletes nothing any more.

A slice may be begun twice: its process was lost, or somebody ran it twice. Every object goes by its ETag, so the second
time finds it gone. Each attempt has its own parts in the ledger, and one that finds the results of another goes on from
there.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from lakesweep.control.area import ControlArea
from lakesweep.control.lease import DELETE_MARGIN_MS
from lakesweep.control.ledger import SliceLedger, slice_answers
from lakesweep.control.plans import load_header, load_part, load_plan
from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.execute.batches import FILES_STEP, step_of
from lakesweep.execute.deleting import REWRITTEN, send
from lakesweep.model.facts import FileKind
from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.model.plan import Action, Delete, PlanHeader
from lakesweep.storage.store import DeleteResult
from lakesweep.table.stores import TableStores

SLICE_KEYS = 1000
"""As many as one DeleteObjects request takes."""
NOT_FILES_ALONE = "not_files_alone"
NOT_BEGUN = "not_begun"
"""Code of a slice that found too little left of the lease, or that stood behind one that failed."""
THROTTLED = frozenset({"SlowDown", "ServiceUnavailable", "InternalError", "OperationAborted", "not_tried"})
"""Codes of a store that wants to be asked more slowly."""
SHOWN_FAILURES = 20
"""So many objects that stay are named of each slice; the ledger names all."""
_KEPT = "kept_by_look"
_GONE = ("deleted", "already_gone")
FILES = frozenset({*get_args(FileKind), "temp"})
"""Kinds that go in any order."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Some actions of one part of a plan, that follow each other."""

    number: int
    """Counted through the plan."""
    part: int
    """Which one, of the header."""
    start: int
    stop: int
    """Of the part's actions, the first that is not meant."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Path -> why it stays."""
    earlier: tuple[str, ...] = ()
    """Ledger parts in which earlier runs say what they did here."""

    @property
    def count(self) -> int:
        """Return how many actions it has."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Lane:
    """What one process does, one slice after the other."""

    plan_id: str
    run_id: str
    until_ms: int
    """When the lease ends, by the control location's clock."""
    keys_per_s: float
    """Its share of the rate."""
    delay_s: float
    """How long it waits before its first request, so that lanes that begin together do not all send at once."""
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class SliceResult:
    """What became of a slice in this run, whichever attempts that took."""

    number: int
    code: str = ""
    """Empty when it is done; else why not. Of one that is not done the counts say nothing."""
    message: str = ""
    deleted: int = 0
    already_gone: int = 0
    kept: int = 0
    deleted_bytes: int = 0
    failures: int = 0
    """Objects that are still there and should not be."""
    throttled: int = 0
    """Those of them that the store had no time for; asked again later, they go."""
    failed: tuple[FailedDelete, ...] = ()
    """The first of them."""
    is_slowed: bool = False
    """The store asked for fewer requests; repeated, they went well."""
    is_doubled: bool = False
    """Another process began it in this run and gave no answer. It may still live."""

    @property
    def outcome(self) -> Outcome:
        """Return it as part of a run's outcome."""
        return Outcome(self.deleted, self.already_gone, self.failed, self.kept, self.deleted_bytes)


@dataclass(frozen=True, slots=True)
class Site:
    """What a process works with."""

    stores: TableStores
    area: ControlArea
    sleep: Callable[[float], None] = time.sleep
    clock_s: Callable[[], float] = time.monotonic
    throttled: Callable[[], int] = lambda: 0
    """How many answers so far asked for fewer requests."""


class _LeaseEndsError(Exception):
    """Too little is left of the lease for another request."""


def work(site: Site, lane: Lane) -> Iterator[SliceResult]:
    """Delete the slices of a lane and yield what became of each.

    Errors are results: behind one that failed nothing more is begun, since the next would fail alike.
    """
    pace = _Pace(lane, site)
    actions = _Actions(site.area, lane.plan_id)
    stopped = False
    for each in lane.slices:
        result = SliceResult(each.number, NOT_BEGUN)
        if not stopped:
            try:
                result = _Work(site, lane, each, pace).run(actions.of(each))
            except _LeaseEndsError:
                pass
            except MaintenanceError as error:
                result = SliceResult(each.number, error.code, str(error))
        stopped = stopped or bool(result.code)
        yield result


class _Pace:
    """Makes a lane wait, so that it sends no more keys a second than its share."""

    def __init__(self, lane: Lane, site: Site) -> None:
        self._rate = lane.keys_per_s
        self._sleep = site.sleep
        self._clock_s = site.clock_s
        self._next_s = site.clock_s() + lane.delay_s

    @property
    def wait_s(self) -> float:
        """Return how long the next request has to wait."""
        return max(0.0, self._next_s - self._clock_s())

    def take(self, keys: int) -> None:
        """Wait until the next request may be sent, which is for so many keys."""
        if (wait_s := self.wait_s) > 0:
            self._sleep(wait_s)
        self._next_s = max(self._next_s, self._clock_s()) + keys / self._rate


class _Actions:
    """Reads parts of a plan, each once as long as slices of it follow each other."""

    def __init__(self, area: ControlArea, plan_id: str) -> None:
        self._area = area
        self._plan_id = plan_id
        self._header: PlanHeader | None = None
        self._part: int | None = None
        self._found: Sequence[Action] = ()

    def of(self, each: Slice) -> Sequence[Delete]:
        """Return the deletions of a slice.

        Raises:
            FormatError: The plan is damaged.
            RefusedError: An action that no plan of files holds.
        """
        self._header = self._header or load_header(self._area, self._plan_id)
        if self._part != each.part:
            self._found = actions_of_part(self._area, self._header, each.part)
            self._part = each.part
        return deletions_of(self._found[each.start : each.stop], self._header)


def actions_of_part(area: ControlArea, header: PlanHeader, part: int) -> Sequence[Action]:
    """Return the actions of one part of a plan, checked; of a plan without parts, all of them."""
    if not header.parts:
        return load_plan(area, header.plan_id).actions
    return load_part(area, header, header.parts[part])


def deletions_of(actions: Sequence[Action], header: PlanHeader) -> list[Delete]:
    """Return `actions`, all of which delete files.

    Raises:
        RefusedError: One of them does something else. In parallel there is no order, and other things need one.
    """
    deletes = [action for action in actions if isinstance(action, Delete) and _is_file(action)]
    if len(deletes) < len(actions):
        raise not_files_alone(header)
    return deletes


def not_files_alone(header: PlanHeader) -> RefusedError:
    """Return the refusal of a plan that many processes cannot carry out."""
    return RefusedError(
        f"plan {header.plan_id} of table {header.table} holds more than files, and the rest goes in a certain order; "
        f"expected a plan of orphan files alone: lakesweep execute TABLE {header.plan_id} --engine local carries this "
        "one out",
        code=NOT_FILES_ALONE,
    )


def _is_file(delete: Delete) -> bool:
    return delete.kind in FILES and step_of(delete) == FILES_STEP


class _Work:
    """One process's work on one slice."""

    def __init__(self, site: Site, lane: Lane, each: Slice, pace: _Pace) -> None:
        self._site = site
        self._lane = lane
        self._slice = each
        self._pace = pace
        self._ledger = SliceLedger(site.area, lane.run_id, lane.plan_id, each.number)
        self._is_doubled = False
        self._is_slowed = False

    def run(self, deletes: Sequence[Delete]) -> SliceResult:
        earlier = slice_answers(self._site.area, self._lane.plan_id, self._slice.earlier)
        kept_before = {path: "an earlier run kept it" for path, answer in earlier.items() if answer == _KEPT}
        why = {**self._slice.kept, **kept_before}
        left = [delete for delete in deletes if earlier.get(delete.path) not in _GONE]
        if not left:
            return SliceResult(self._slice.number)
        answers: dict[str, str] = {}
        if self._site.area.store.now_ms() + self._pace.wait_s * 1000 >= self._last_ms:
            raise _LeaseEndsError
        self._pace.take(sum(delete.path not in why for delete in left))
        while not self._ledger.intend([delete for delete in left if delete.path not in why]):
            found_before = self._ledger.answers()
            self._is_doubled = self._is_doubled or not found_before
            answers |= found_before
            left = [delete for delete in left if answers.get(delete.path) not in (*_GONE, _KEPT)]
            if not left:
                return self._result(deletes, answers)
        throttled = self._site.throttled()
        found = send(self._site.stores, [delete for delete in left if delete.path not in why], self._check_lease)
        self._is_slowed = self._site.throttled() > throttled
        kept = [(delete, why[delete.path]) for delete in left if delete.path in why]
        kept += [(delete, REWRITTEN) for delete in left if _is_rewritten(found.get(delete.path))]
        stays = {delete.path for delete, _ in kept}
        self._ledger.record([delete for delete in left if delete.path not in stays], found, kept)
        answers |= {path: result.code for path, result in found.items()} | dict.fromkeys(stays, _KEPT)
        return self._result(deletes, answers)

    @property
    def _last_ms(self) -> int:
        """When the last request may be sent."""
        return self._lane.until_ms - DELETE_MARGIN_MS

    def _check_lease(self) -> None:
        if self._site.area.store.now_ms() >= self._last_ms:
            raise _LeaseEndsError

    def _result(self, deletes: Sequence[Delete], answers: Mapping[str, str]) -> SliceResult:
        codes = list(answers.values())
        failed = [
            FailedDelete(delete.path, answers[delete.path])
            for delete in deletes
            if answers.get(delete.path, _KEPT) not in (*_GONE, _KEPT)
        ]
        return SliceResult(
            number=self._slice.number,
            deleted=codes.count("deleted"),
            already_gone=codes.count("already_gone"),
            kept=codes.count(_KEPT),
            deleted_bytes=sum(d.size_bytes or 0 for d in deletes if answers.get(d.path) == "deleted"),
            failures=len(failed),
            throttled=sum(each.code in THROTTLED for each in failed),
            failed=tuple(failed[:SHOWN_FAILURES]),
            is_slowed=self._is_slowed,
            is_doubled=self._is_doubled,
        )


def _is_rewritten(result: DeleteResult | None) -> bool:
    return result is not None and result.code == "precondition_failed"
