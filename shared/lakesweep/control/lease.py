"""One maintainer of a table at a time.

The lease is one document that only conditional writes change, so it works on any store that has them. Its token grows
with every change. A delete may start only while the lease outlasts it, and a successor waits for the same margin beyond
the expiry. So two runs never delete at the same time, even if one was suspended for hours.

A request may be sent long after the run decided on it: the process stood still, or botocore sends the request again. So
each attempt is refused once the lease has ended (`Lease.refuse_late`). This uses clocks of the machine that do not stop
while the process does. They count from the moment before the lease was written.

The lease also says what its holder is about to remove (`control/intent.py`). A lease that ended with an intent was left
by a run that died. The plan in that intent is finished before any other work, and no run can take the lease for another
plan by accident.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.control.commit_record import CommitRecord, commits_of
from lakesweep.control.intent import Intent, intent_of
from lakesweep.control.month_sums import Ended, MonthSum, added, sums_of
from lakesweep.errors import (
    FormatError,
    LeaseHeldError,
    LeaseLostError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
)
from lakesweep.format.codec import is_count, is_id
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_LOOK_MS, LEASE_LOOKS, LEASE_MS, REST_MS
from lakesweep.model.who import Who, who_of
from lakesweep.storage.clock import CLOCKS, Clocks, Stopwatch
from lakesweep.storage.guard import TimeLimit

_NAME = "lease.json"


@dataclass(frozen=True, slots=True)
class LeaseDocument:
    """The lease as it was read."""

    etag: str | None
    """`None`: there is no lease document yet."""
    run_id: str = ""
    token: int = 0
    expires_ms: int = 0
    """0: the lease was released."""
    intent: Intent | None = None
    since_ms: int = 0
    """Since when its run has held it; 0: not stated."""
    by: Who | None = None
    """Who runs; `None`: not stated."""
    commits: Mapping[str, CommitRecord] = field(default_factory=dict)
    """Branch -> the last commit of Lakesweep."""
    receipts: Mapping[str, MonthSum] | None = field(default_factory=dict)
    """What the runs of each month cost and freed; `None`: the sums are damaged."""


class Lease:
    """The lease of one table, as one run holds it."""

    def __init__(self, area: ControlArea, run_id: str, intent: Intent | None, clocks: Clocks = CLOCKS) -> None:
        self._area = area
        self._clocks = clocks
        self._run_id = run_id
        self._intent = intent
        self._etag: str | None = None
        self._token = 0
        self._since_ms = 0
        self._expires_ms = 0
        self._limit = self._limit_of(Stopwatch(clocks), 0)
        self.commits: dict[str, CommitRecord] = {}
        """Branch -> the last commit of Lakesweep, as the next change of the lease writes it."""
        self.freed_bytes: int | None = 0
        """What the run has freed, for the sums; `None`: unknown."""
        self._receipts: Mapping[str, MonthSum] | None = {}
        self._is_counted = False
        """The sums already count this run."""
        self._former_commits: Mapping[str, CommitRecord] = {}
        self.is_as_known = False
        """Nobody has held the lease since the caller read it."""
        self.is_let_go = False
        """The lease is released so that others have their turn."""
        self.lent_until_ms = 0
        """Until this time another process, which gave no answer, may still delete under the lease. A release keeps the
        lease until then."""

    @property
    def token(self) -> int:
        """Return the number that grows with every change of the lease."""
        return self._token

    def take(self, known: LeaseDocument, commits: Mapping[str, CommitRecord] | None = None) -> None:
        """Replace a lease that is free.

        Args:
            known: The lease as it was read.
            commits: What this run is about to commit, by branch. All other commits are carried on.

        Raises:
            PreconditionFailedError: The lease has changed since it was read.
        """
        self._etag, self._token = known.etag, known.token
        self.commits = {**known.commits, **(commits or {})}
        self._former_commits = known.commits
        self._receipts = known.receipts
        self._is_counted |= known.run_id == self._run_id
        self._put(self._area.store.now_ms() + LEASE_MS)

    def forget_commits(self) -> None:
        """Let a release write the commits of earlier runs again: this run has sent no snapshot that may exist."""
        self.commits = dict(self._former_commits)

    def document(self) -> LeaseDocument:
        """Return the lease as this run wrote it last, so that it can be taken again without a read."""
        return LeaseDocument(
            self._etag,
            self._run_id,
            self._token,
            self._expires_ms,
            self._intent,
            self._since_ms,
            commits=self.commits,
            receipts=self._receipts,
        )

    @property
    def expires_ms(self) -> int:
        """Return when the lease ends unless it is renewed, by the control location's clock."""
        return self._expires_ms

    def refuse_late(self) -> None:
        """Make sure that the lease lasts, without a request; called before each attempt to change a table.

        The answer comes from clocks of this machine that do not stop while the process does. Once the lease has ended,
        every call raises until the lease is renewed.

        Raises:
            LeaseLostError: It ended, or was released.
        """
        self._limit()

    def check(self, left_ms: int = LEASE_MS // 2) -> None:
        """Make sure that a batch of deletes that starts now ends under this lease; renew it when it runs low.

        Args:
            left_ms: The lease runs low when no more than this is left.

        Raises:
            LeaseLostError: Another run took the lease.
        """
        now_ms = self._area.store.now_ms()
        if min(self._expires_ms - now_ms, self._limit.left_ms()) > left_ms:
            return
        self._write(now_ms + LEASE_MS)
        if min(self._expires_ms - self._area.store.now_ms(), self._limit.left_ms()) <= DELETE_MARGIN_MS:
            raise LeaseLostError(
                f"{self._area.path(_NAME)}: renewing the lease took longer than it lasts; run {self._run_id} stopped"
            )

    def rest(self, sleep: Callable[[float], None], before_return: Callable[[], None] = lambda: None) -> None:
        """Release the lease for a moment, and take it again.

        The intent is withdrawn meanwhile, so that others need not finish the plan first.

        Args:
            sleep: Waits for so many seconds.
            before_return: Raises when this run must not continue the plan. It is called between reading the lease and
                taking it. A run that changes the answer in between has held the lease, so this run cannot take it.

        Raises:
            LeaseHeldError: Others held it for too long.
            LeaseLostError: Another run has taken over the plan.
        """
        intent = self._intent
        self.is_let_go = True
        self.release(ended=True)
        for attempt in range(LEASE_LOOKS):
            sleep((LEASE_LOOK_MS if attempt else REST_MS) / 1000)
            try:
                found = read_lease(self._area)
                self._refuse_taken_on(found, intent)
                refuse_held(self._area, found, intent)
                before_return()
                self._intent = intent
                self.take(found)
            except (LeaseHeldError, StorageError) as error:
                if attempt == LEASE_LOOKS - 1:
                    raise LeaseHeldError(
                        f"table {self._area.table}: others held the lease for {LEASE_LOOKS * LEASE_LOOK_MS // 1000} s "
                        f"while run {self._run_id} let them have it; expected it free"
                    ) from error
            else:
                self.is_let_go = False
                return

    def _refuse_taken_on(self, found: LeaseDocument, intent: Intent | None) -> None:
        if intent is not None and found.intent is not None and found.intent.plan_id == intent.plan_id:
            raise LeaseLostError(
                f"table {self._area.table}: run {found.run_id} took over plan {intent.plan_id} while run "
                f"{self._run_id} let others have the lease; expected no run to do so"
            )

    def release(self, *, ended: bool) -> None:
        """Release the lease.

        A lease that another run took meanwhile is left alone. A lease that cannot be written ends by itself. Neither
        changes what the run did.

        Args:
            ended: Withdraw the intent. Otherwise the next run finishes the plan.
        """
        if ended:
            self._intent = None
        try:
            self._count()
            self._write(self.lent_until_ms if self._area.store.now_ms() < self.lent_until_ms else 0)
        except (LeaseLostError, StorageError):
            return

    def _count(self) -> None:
        """Add what was used to the sums, with the put that follows."""
        meter = self._area.meter
        if meter is None:
            return
        is_run = not (self._is_counted or self.is_let_go)
        used = meter.take(1 if self._area.is_in_s3 else 0)
        ended = Ended(used, meter.usd_per_second, is_run, None if self.is_let_go else self.freed_bytes)
        self._receipts = added(self._receipts, ended, self._area.store.now_ms())
        self._is_counted |= is_run

    def _write(self, expires_ms: int) -> None:
        try:
            self._put(expires_ms)
        except (PreconditionFailedError, ObjectNotFoundError) as error:
            raise LeaseLostError(
                f"{self._area.path(_NAME)}: expected the lease of run {self._run_id}, found that another run took it"
            ) from error

    def _put(self, expires_ms: int) -> None:
        self._since_ms = self._since_ms or self._area.store.now_ms()
        document = {
            "by": self._area.who().to_json(),
            "since_ms": self._since_ms,
            "run_id": self._run_id,
            "token": self._token + 1,
            "expires_at_ms": expires_ms,
            "intent": self._intent.to_json() if self._intent else None,
        }
        if self.commits:
            document["commits"] = {branch: record.to_json() for branch, record in self.commits.items()}
        if self._receipts:
            document["receipts"] = {month: each.to_json() for month, each in self._receipts.items()}
        body = to_json_bytes(document)
        if expires_ms == 0:
            self._limit = self._limit_of(Stopwatch(self._clocks), 0)
        written = Stopwatch(self._clocks)
        self._etag = self._area.put(_NAME, body, if_absent=self._etag is None, if_match=self._etag)
        self._token += 1
        self._expires_ms = expires_ms
        # The time in the store's answer is later than the moment of the request. So this limit ends no later than the
        # lease does, however long anything stood still since.
        self._limit = self._limit_of(written, expires_ms - self._area.store.now_ms())

    def _limit_of(self, begun: Stopwatch, length_ms: int) -> TimeLimit:
        return TimeLimit(
            begun,
            length_ms,
            f"table {self._area.table}: run {self._run_id} may change nothing after the end of its lease",
        )


class NoLease(Lease):
    """Take the place of a lease where a table is only read. Every attempt to change the table is refused."""

    def __init__(self, area: ControlArea) -> None:
        super().__init__(area, "", None)

    def check(self, left_ms: int = 0) -> None:
        """Allow reads."""


def read_lease(area: ControlArea) -> LeaseDocument:
    """Return the lease of a table as it is now.

    Raises:
        FormatError: The document does not parse.
    """
    try:
        body = area.read(_NAME)
    except ObjectNotFoundError:
        return LeaseDocument(None)
    path = area.path(_NAME)
    document = from_json_bytes(body.data, path)
    holder, token, expires_ms = document.get("run_id"), document.get("token"), document.get("expires_at_ms")
    if not is_id(holder) or not is_count(token) or not is_count(expires_ms):
        raise FormatError(f"{path}: expected run_id, and the numbers token and expires_at_ms, of a lease")
    since_ms = document.get("since_ms")
    return LeaseDocument(
        body.etag,
        holder,
        token,
        expires_ms,
        intent_of(document.get("intent"), path),
        since_ms if is_count(since_ms) else 0,
        who_of(document.get("by")),
        commits_of(document.get("commits"), path),
        sums_of(document.get("receipts")),
    )


def acquire(
    area: ControlArea,
    run_id: str,
    intent: Intent | None = None,
    known: LeaseDocument | None = None,
    *,
    exactly: bool = False,
    commits: Mapping[str, CommitRecord] | None = None,
) -> Lease:
    """Take the lease of a table, and publish with it what the run is about to remove.

    Args:
        area: The table's documents.
        run_id: The run that takes it.
        intent: What the run is about to remove; `None` for a run that removes nothing from the table.
        known: The lease as it was read before. If it has changed since, it is read again.
        exactly: Refuse a lease that has changed since, instead of reading it again: other facts that the caller relies
            on may have changed with it.
        commits: What the run is about to commit, by branch.

    Raises:
        LeaseHeldError: Another run holds it, or died and left a different plan to finish.
        FormatError: The lease document does not parse.
    """
    lease = Lease(area, run_id, intent)
    if known is not None and _is_free(area, known, intent):
        try:
            lease.take(known, commits)
        except (PreconditionFailedError, ObjectNotFoundError):
            if exactly:
                raise LeaseHeldError(
                    f"table {area.table}: another run has held the lease since it was read; expected none. Try again"
                ) from None
        else:
            lease.is_as_known = True
            return lease
    found = known if exactly and known is not None else read_lease(area)
    refuse_held(area, found, intent)
    try:
        lease.take(found, commits)
    except (PreconditionFailedError, ObjectNotFoundError) as error:
        raise LeaseHeldError(f"table {area.table}: another run took the lease first; expected it free") from error
    return lease


def _is_free(area: ControlArea, found: LeaseDocument, intent: Intent | None) -> bool:
    try:
        refuse_held(area, found, intent)
    except LeaseHeldError:
        return False
    return True


def _holder(found: LeaseDocument) -> str:
    since = f", since {datetime.fromtimestamp(found.since_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}" if found.since_ms else ""
    return since + ("" if found.by is None else f", by {found.by}")


def refuse_held(area: ControlArea, found: LeaseDocument, intent: Intent | None) -> None:
    """Make sure that a run with this intent may take a lease.

    Raises:
        LeaseHeldError: Another run holds it, or died and left a different plan to finish.
    """
    free_at_ms = found.expires_ms + DELETE_MARGIN_MS if found.expires_ms else 0
    now_ms = area.store.now_ms()
    if now_ms < free_at_ms:
        raise LeaseHeldError(
            f"table {area.table}: run {found.run_id} holds the lease for {(free_at_ms - now_ms + 999) // 1000} s at "
            f"most{_holder(found)}; expected it free. Wait and run again; if that run died, the next run finishes "
            "its plan. lakesweep runs TABLE shows what the run does"
        )
    left = found.intent
    if left is not None and (intent is None or intent.plan_id != left.plan_id):
        raise LeaseHeldError(
            f"table {area.table}: run {found.run_id} left plan {left.plan_id} unfinished; expected that plan to be "
            "finished first. The next maintenance of the table finishes it"
        )
