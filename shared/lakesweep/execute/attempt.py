"""One run's work on a stored plan: what it works with, how it ends, and the lease that it holds meanwhile."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import Chain
from lakesweep.control.intent import Intent
from lakesweep.control.lease import Lease, LeaseDocument, acquire
from lakesweep.control.ledger import Ledger
from lakesweep.errors import MaintenanceError, stop_code, stopped_by
from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import PlanHeader
from lakesweep.model.progress import Progress, no_progress
from lakesweep.storage.store import Store
from lakesweep.table.stores import TableStores

_STEP_S = 5.0


@dataclass(frozen=True, slots=True)
class Executed:
    """How an execution ended."""

    status: str
    """`done`, `partial` (some objects still exist), `stale` (the table changed), `interrupted` (an error came after the
    first deletion; the next run finishes the plan) or `put_off` (a plan of files alone that continues when somebody
    executes it again)."""
    outcome: Outcome
    message: str = ""
    """Why the status is not `done`."""
    code: str = ""
    """The code word for the message."""
    warnings: tuple[str, ...] = ()
    """Further facts that people should know."""
    is_overtaken: bool = False
    """Another run deleted all documents of the plan before this run began, so this run deleted nothing."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The stores, limits and callbacks that an execution works with."""

    stores: TableStores
    area: ControlArea
    known: Store
    """The table's store, possibly with a cache of lists and manifests."""
    sleep: Callable[[float], None] = time.sleep
    check_time: Callable[[str], None] = lambda what: None
    """Called before each batch; raises OutOfTimeError when the caller's time is nearly over."""
    check_policy: Callable[[], None] = lambda: None
    """Called now and then during a long execution; raises HeldBackError when it must stop."""
    throttled: Callable[[], int] = lambda: 0
    """How many answers so far asked for fewer requests."""
    progress: Progress = no_progress
    say: Callable[[str], None] = lambda sentence: None
    """Called with a sentence for the person who waits."""
    clear: frozenset[str] = frozenset()
    """Manifests that name no file of the plan."""

    def under(self, lease: Lease) -> "Environment":
        """Return a copy whose stores send no attempt of any request to change something after the lease has ended."""
        return replace(self, stores=self.stores.guarded(lease.refuse_late))

    def wait(self, seconds: float, what: str) -> None:
        """Sleep in steps, so that the end of the caller's time is noticed.

        Args:
            seconds: How long.
            what: What waits, for messages.

        Raises:
            OutOfTimeError: The caller's time is nearly over.
        """
        while seconds > 0:
            self.check_time(what)
            self.sleep(min(seconds, _STEP_S))
            seconds -= _STEP_S


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run's work on a stored plan."""

    run_id: str
    on_end: Callable[[Executed], None]
    """Called under the lease once the plan has ended, to record the end before the intent is withdrawn."""
    on_rest: Callable[[], None] = lambda: None
    """Called before the lease is released for a while, to record that the plan will continue. A run that dies meanwhile
    leaves no intent that would say so."""
    on_stop: Callable[[Executed], None] = lambda executed: None
    """Called under the lease when somebody stops this process, to record how far it came."""
    before_return: Callable[[], None] = lambda: None
    """Called before the lease is taken again after a rest; raises when the plan must not continue in this run."""
    policy_etag: str | None = None
    """Of the fleet policy, as this call read it."""
    chain: Chain | None = None
    """Of the ledger."""
    grace_ms: int = 0
    """How long readers that opened an expiring snapshot may continue before its files are deleted."""
    earlier_runs: tuple[str, ...] = ()
    """Runs that began this plan and did not end it. Objects that their ledgers settle are not deleted again."""
    lease: LeaseDocument | None = None
    """The lease, if the caller has just read it."""
    has_just_planned: bool = False
    """The same call made the plan, after it read the lease."""
    asks_roots: bool = False
    """This call made the plan from documents that others wrote into the control location, so it asks the present roots
    in any case."""


class UnderLease:
    """One run's execution of a stored plan, while it holds the lease."""

    def __init__(self, env: Environment, header: PlanHeader, attempt: Attempt, lease: Lease) -> None:
        self._env = env
        self._header = header
        self._attempt = attempt
        self._lease = lease

    @property
    def _what(self) -> str:
        return f"plan {self._header.plan_id} of table {self._header.table}"

    def _still_ours(self) -> None:
        self._env.check_time(self._what)
        self._lease.check()


def under_lease(
    area: ControlArea,
    header: PlanHeader,
    attempt: Attempt,
    run: Callable[[Lease], Executed],
    snapshot_ids: tuple[int, ...] = (),
) -> Executed:
    """Take a table's lease with the intent to carry out a plan, carry it out, and release the lease.

    Args:
        area: Of the table.
        header: Of the plan.
        attempt: The run, and what earlier runs did.
        run: Carries out the plan under the lease.
        snapshot_ids: See `expiring_snapshots`.

    Raises:
        LeaseHeldError: Another run maintains this table.
        LeaseLostError: The lease went to another run; this one stopped.
        StorageError: A request failed before anything was deleted; the intent is kept, and the next run continues the
            plan.
    """
    # The intent becomes visible with the lease, before the next recheck. A run that tags a snapshot writes the tag
    # first and reads the intent afterwards. So one of the two always sees the other.
    intent = Intent(
        plan_id=header.plan_id,
        branch=header.branch,
        end_id=header.end_id,
        runs=(*attempt.earlier_runs, attempt.run_id),
        created_ms=area.store.now_ms(),
        grace_ms=attempt.grace_ms,
        snapshot_ids=snapshot_ids,
        plan_hash=header.content_hash,
        policy_etag=attempt.policy_etag,
    )
    # Right after reading the lease, the caller read whether the stored plan has ended and which runs worked on it. A
    # plan that was made since needs only the rechecks.
    is_stored = attempt.lease is not None and not attempt.has_just_planned
    lease = acquire(area, attempt.run_id, intent, attempt.lease, exactly=is_stored)
    ended = False
    lease.freed_bytes = None  # until it is known
    try:
        executed = run(lease)
        lease.freed_bytes = executed.outcome.deleted_bytes
        if executed.status != "interrupted":
            lease.check()
            attempt.on_end(executed)
            ended = True
        return executed
    finally:
        lease.release(ended=ended)


def forget(area: ControlArea, found: LeaseDocument, run_id: str, before: Callable[[], None] = lambda: None) -> None:
    """Withdraw the intent of a plan that is put off, or that cannot be loaded anymore.

    Args:
        area: Of the table.
        found: The lease with the intent, as it was just read. A run that held it since may have ended the plan.
        run_id: The run that withdraws it.
        before: Called under the lease, to record what becomes of the plan.

    Raises:
        LeaseHeldError: Another run maintains this table.
    """
    lease = acquire(area, run_id, found.intent, found, exactly=True)
    ended = False
    try:
        before()
        ended = True
    finally:
        lease.release(ended=ended)


def record_stop(attempt: Attempt, ledger: Ledger, outcome: Outcome, stop: KeyboardInterrupt) -> None:
    """Record how far a run came that somebody stops: first the ledger, as far as it can be written."""
    with suppress(MaintenanceError):
        ledger.flush()
    attempt.on_stop(stopped(outcome, stop))


def stopped(outcome: Outcome, stop: KeyboardInterrupt) -> Executed:
    """Return the result of an execution that somebody stopped."""
    return Executed("interrupted", outcome, f"the run was stopped by {stopped_by(stop)}", stop_code(stop))
