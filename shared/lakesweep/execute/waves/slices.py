"""One slice of a stored plan, deleted by one of many processes that carry out the plan.

The process that holds the lease decides what to delete and when (`execute/waves/driver.py`). It hands out slices in
*lanes*. A lane is a list of slices for one process. The process deletes them one after the other, at its share of the
rate.

A process that works on a lane does not hold the lease. It knows when the lease ends, and begins a request only if the
lease outlasts it. It sends no attempt of a request after the end. So a process that was believed dead and wakes up
later deletes nothing more.

A slice may be begun twice: its process was lost, or somebody ran it twice. Every object is deleted by its ETag, so the
second attempt finds it gone. Each attempt has its own parts in the ledger. An attempt that finds the results of another
one continues from them.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.control.area import ControlArea
from lakesweep.control.ledger import SliceLedger
from lakesweep.control.ledger_rows import slice_answers, slice_intents
from lakesweep.errors import LeaseLostError, MaintenanceError, OutOfTimeError
from lakesweep.execute.deletions.deleting import (
    BY_INTENT,
    BY_MARKER,
    REWRITTEN,
    EarlierDeletions,
    earlier_deletions,
    send,
)
from lakesweep.execute.part_actions import PartActions
from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.model.paths.stays import Stays, count_stays
from lakesweep.model.plan import Delete
from lakesweep.model.safety import DELETE_MARGIN_MS
from lakesweep.storage.clock import CLOCKS, Clocks, Stopwatch, monotonic_s
from lakesweep.storage.guard import TimeLimit
from lakesweep.storage.store import DeleteResult
from lakesweep.table.stores import TableStores

SLICE_KEYS = 1000
"""As many as one DeleteObjects request takes."""
NOT_BEGUN = "not_begun"
"""Code of a slice that was not begun: too little time or lease was left, or a slice before it failed."""
THROTTLED = frozenset({"SlowDown", "ServiceUnavailable", "InternalError", "OperationAborted", "not_tried"})
"""Codes of a store that asks for fewer requests."""
SHOWN_FAILURES = 20
"""At most this many objects that could not be deleted are named for each slice; the ledger names all."""
_KEPT = "kept_by_recheck"
GONE = ("deleted", "already_gone")
_STEP_S = 5.0
"""A wait is split into steps of this length, so that the end of the available time is noticed."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Consecutive actions of one part of a plan."""

    number: int
    """Counted through the whole plan."""
    part: int
    """Number of the part in the header."""
    start: int
    stop: int
    """The first action of the part after the slice."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Path -> why it is kept."""
    earlier: tuple[str, ...] = ()
    """Ledger parts of earlier runs on this slice: results, and intents without an answer."""

    @property
    def count(self) -> int:
        """Return how many actions it has."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Assignment:
    """The slices that one process deletes, one after the other."""

    plan_id: str
    run_id: str
    until_ms: int
    """When the lease ends, by the control location's clock."""
    keys_per_s: float
    """Its share of the rate."""
    delay_s: float
    """How long it waits before its first request, so that lanes that begin together do not all send at once."""
    slices: tuple[Slice, ...]
    content_hash: str = ""
    """Of the plan that the coordinator has checked. The stored plan must still have this hash."""


@dataclass(frozen=True, slots=True)
class SliceResult:
    """The result of a slice in this run, over all its attempts."""

    number: int
    code: str = ""
    """Empty when the slice is done, otherwise why not. The counts of a slice that is not done have no meaning."""
    message: str = ""
    deleted: int = 0
    already_gone: int = 0
    kept: int = 0
    deleted_bytes: int = 0
    failures: int = 0
    """Objects that still exist and should not."""
    throttled: int = 0
    """Failures because of throttling; a later attempt can delete these objects."""
    failed: tuple[FailedDelete, ...] = ()
    """The first failures."""
    is_slowed: bool = False
    """The store asked for fewer requests; the repeated requests succeeded."""
    chain: str = field(default="", compare=False)
    """The writer in the ledger, and the hash of its last part."""
    is_doubled: bool = False
    """Another process began the slice in this run and gave no answer. It may still be alive."""
    stays: tuple[Stays, ...] = ()
    """Objects outside the table that may not be deleted there."""

    @property
    def outcome(self) -> Outcome:
        """Return the result as part of a run's outcome."""
        return Outcome(self.deleted, self.already_gone, self.failed, self.kept, self.deleted_bytes)


@dataclass(frozen=True, slots=True)
class Site:
    """The stores, clocks and limits that a process works with."""

    stores: TableStores
    area: ControlArea
    sleep: Callable[[float], None] = time.sleep
    clock_s: Callable[[], float] = monotonic_s
    throttled: Callable[[], int] = lambda: 0
    """How many answers so far asked for fewer requests."""
    check_time: Callable[[str], None] = lambda what: None
    """Called before a slice is begun, and while it waits; raises OutOfTimeError when this process's time is nearly
    over."""
    clocks: Clocks = CLOCKS
    """Measures how long this process stood still."""
    actions: PartActions | None = None
    """Actions of the plan, where the lanes of one process share them; otherwise each lane reads its own."""


class _LeaseEndsError(Exception):
    """Too little is left of the lease for another request."""


def work(site: Site, assignment: Assignment) -> Iterator[SliceResult]:
    """Delete the slices of a lane and yield the result of each.

    Errors are results. After a failed slice no further slice is begun, since it would fail as well.
    """
    pace = _Pace(assignment, site)
    actions = site.actions or PartActions(site.area, assignment.plan_id, content_hash=assignment.content_hash)
    stopped = False
    for each in assignment.slices:
        result = SliceResult(each.number, NOT_BEGUN)
        if not stopped:
            try:
                result = _Work(site, assignment, each, pace).run(actions.of(each.part, each.start, each.stop))
            except (_LeaseEndsError, LeaseLostError, OutOfTimeError):
                pass
            except MaintenanceError as error:
                result = SliceResult(each.number, error.code, str(error))
        stopped = stopped or bool(result.code)
        yield result


class _Pace:
    """Makes a lane wait, so that it sends no more keys per second than its share."""

    def __init__(self, assignment: Assignment, site: Site) -> None:
        self._rate = assignment.keys_per_s
        self._sleep = site.sleep
        self._clock_s = site.clock_s
        self._check_time = site.check_time
        self._what = f"plan {assignment.plan_id}"
        self._next_s = site.clock_s() + assignment.delay_s

    @property
    def wait_s(self) -> float:
        """Return how long the next request must wait."""
        return max(0.0, self._next_s - self._clock_s())

    def take(self, keys: int) -> None:
        """Wait until the next request may be sent; it is for this many keys.

        Raises:
            OutOfTimeError: This process has no time left for it.
        """
        wait_s = self.wait_s
        while wait_s > 0:
            self._check_time(self._what)
            self._sleep(min(wait_s, _STEP_S))
            wait_s -= _STEP_S
        self._check_time(self._what)
        self._next_s = max(self._next_s, self._clock_s()) + keys / self._rate


class _Work:
    """One process's work on one slice."""

    def __init__(self, site: Site, assignment: Assignment, each: Slice, pace: _Pace) -> None:
        self._site = site
        self._assignment = assignment
        self._slice = each
        self._pace = pace
        self._ledger = SliceLedger(site.area, assignment.run_id, assignment.plan_id, each.number)
        self._is_doubled = False
        self._is_slowed = False
        self._stays: tuple[Stays, ...] = ()

    def run(self, deletes: Sequence[Delete]) -> SliceResult:
        earlier = slice_answers(self._site.area, self._assignment.plan_id, self._slice.earlier)
        kept_before = {path: "an earlier run kept it" for path, answer in earlier.items() if answer == _KEPT}
        why = {**self._slice.kept, **kept_before}
        left = [delete for delete in deletes if earlier.get(delete.path) not in GONE]
        if not left:
            return SliceResult(self._slice.number)
        outside = self._site.stores.stays((delete.kind, delete.path) for delete in left)
        self._stays = count_stays(outside.values())
        why |= {path: str(stay) for path, stay in outside.items()}
        own = self._of_earlier_runs([delete for delete in left if delete.path not in why])
        settled = why.keys() | own.deleted.keys()
        answers: dict[str, str] = {}
        begun = Stopwatch(self._site.clocks)
        if self._site.area.store.now_ms() + self._pace.wait_s * 1000 >= self._last_ms:
            raise _LeaseEndsError
        self._pace.take(sum(delete.path not in settled for delete in left))
        while not self._ledger.intend([delete for delete in left if delete.path not in settled]):
            found_before = self._ledger.answers()
            self._is_doubled = self._is_doubled or not found_before
            answers |= found_before
            left = [delete for delete in left if answers.get(delete.path) not in (*GONE, _KEPT)]
            if not left:
                return self._result(deletes, answers)
        throttled = self._site.throttled()
        going = [delete for delete in left if delete.path not in settled]
        answered: dict[str, DeleteResult] = {}
        try:
            found = send(self._stores(begun), going, self._check_lease, answered)
        except LeaseLostError:
            self._ledger.record([delete for delete in going if delete.path in answered], answered, ())
            raise
        self._is_slowed = self._site.throttled() > throttled
        kept = [(delete, why[delete.path]) for delete in left if delete.path in why]
        kept += [(delete, REWRITTEN) for delete in left if _is_rewritten(found.get(delete.path))]
        stays = {delete.path for delete, _ in kept}
        by_intent = {path for path in own.untold if path in found and found[path].code == "already_gone"}
        found |= own.deleted | {path: DeleteResult(found[path].key, "deleted") for path in by_intent}
        told = dict.fromkeys(own.deleted, BY_MARKER) | dict.fromkeys(by_intent, BY_INTENT)
        self._ledger.record([delete for delete in left if delete.path not in stays], found, kept, told)
        answers |= {path: result.code for path, result in found.items()} | dict.fromkeys(stays, _KEPT)
        return self._result(deletes, answers)

    def _of_earlier_runs(self, deletes: Sequence[Delete]) -> EarlierDeletions:
        """Return what earlier runs deleted without recording it. Each object of such a plan has its ETag."""
        intended = slice_intents(self._site.area, self._assignment.plan_id, self._slice.earlier)
        suspects = [delete for delete in deletes if delete.path in intended and delete.etag is not None]
        return earlier_deletions(self._site.stores, suspects, 0, self._check_lease)

    def _stores(self, begun: Stopwatch) -> TableStores:
        """Return stores that change nothing after the end of the lease.

        The ledger's intent was written after `begun`, so the time in the store's answer is later than `begun`. So the
        limit ends no later than the lease does, however long this process stood still.
        """
        left_ms = self._assignment.until_ms - self._site.area.store.now_ms()
        what = f"plan {self._assignment.plan_id}: a slice may delete nothing after the end of the lease"
        return self._site.stores.guarded(TimeLimit(begun, left_ms, what))

    @property
    def _last_ms(self) -> int:
        """When the last request may be sent."""
        return self._assignment.until_ms - DELETE_MARGIN_MS

    def _check_lease(self) -> None:
        if self._site.area.store.now_ms() >= self._last_ms:
            raise _LeaseEndsError

    def _result(self, deletes: Sequence[Delete], answers: Mapping[str, str]) -> SliceResult:
        codes = list(answers.values())
        failed = [
            FailedDelete(delete.path, answers[delete.path])
            for delete in deletes
            if answers.get(delete.path, _KEPT) not in (*GONE, _KEPT)
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
            chain=self._ledger.end,
            is_doubled=self._is_doubled,
            stays=self._stays,
        )


def _is_rewritten(result: DeleteResult | None) -> bool:
    return result is not None and result.code == "precondition_failed"
