"""One execution of an operation that commits: finish what a dead run left, commit, and report.

A commit has no stored plan, since it is planned anew on each snapshot that another writer publishes first.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from lakesweep.commit.environment import CommitEnvironment, Committed, Prepare
from lakesweep.commit.loop import commit
from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.control.reports import has_report, store_report
from lakesweep.errors import MaintenanceError, StorageError, note_commit, stop_code, stop_exit_code, stopped_by
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.commits.seen import SeenSnapshot
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.runs.committing.noted import known_of, note_commits
from lakesweep.runs.committing.opened import Opened
from lakesweep.runs.execution import finish_begun, require_area
from lakesweep.runs.fleet import check_policy
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.receipts import run_receipt
from lakesweep.runs.reports import report_of

Note = Callable[[MadeCommit], MadeCommit]
"""Adds to a commit that was made what it took out of the table."""
Show = Callable[[RunReport, tuple[MadeCommit, ...]], RunReport]
"""Adds to a report what the operation says of its commits."""


def _as_it_is(made: MadeCommit) -> MadeCommit:
    return made


class CommitRun:
    """One execution on one branch."""

    def __init__(
        self,
        target: Opened,
        operation: str,
        options: Mapping[str, str],
        *,
        has_lock: bool,
        unattended: bool,
        show: Show,
    ) -> None:
        """Begin an execution.

        Args:
            target: The branch.
            operation: The name of the operation.
            options: The table's options, overridden by the call's.
            has_lock: All writers of the table take its catalog's lock.
            unattended: No person watches the call.
            show: Adds what the operation says of its commits.

        Raises:
            UsageError: The table has no control location.
        """
        self.target = target
        self.made: list[MadeCommit] = []
        self._note: Note = _as_it_is
        self._operation, self._options = operation, options
        self._has_lock, self._unattended, self._show = has_lock, unattended, show
        self.area = require_area(target.table)
        """The table's documents."""
        self._started_ms = target.table.store.now_ms()
        self.id = target.table.run_id or new_id(self._started_ms)
        self._lease: LeaseDocument | None = None
        self._warnings: dict[str, None] = {}
        self._seen: list[SeenSnapshot] = []
        """What was committed, as it was published."""
        self._told: list[tuple[int, int]] = []
        """Ids and numbers of replaced snapshots."""
        self._replaced = 0
        """How many of them no commit of this run counts."""

    def warn(self, sentence: str) -> None:
        """Add a warning to the report, once."""
        self._warnings[sentence] = None

    def report(self, commits: Callable[[], Committed]) -> RunReport:
        """Commit, and return the report. It is stored if anything was committed, or may have been.

        A request that has the id of its run may come twice. What the table holds the second time may have come since
        the first, so then nothing is committed.

        Args:
            commits: Makes all commits by `commit`, and returns how the last one ended.

        Raises:
            MaintenanceError: Nothing was committed.
        """
        self._lease = lease = read_lease(self.area)
        if self._may_have_committed(lease):
            self.warn(
                f"run {self.id} has committed, or may have, so it commits nothing more; if the change is still to be "
                "made, request it again"
            )
            return self._shown(report_of(self.target.table, self._operation, "nothing_to_do", None))
        finished = self._finish_begun(lease)
        if finished is not None:
            return finished
        try:
            last = commits()
        except KeyboardInterrupt as stop:
            self._stopped(stop)
            raise
        except MaintenanceError as error:
            if not self.made:
                raise
            return self._ended("partial", Refusal(error.code, str(error), error.exit_code))
        if last.status in ("committed", "nothing_to_do"):
            if not self.made:
                self._note_seen()
                return self._shown(report_of(self.target.table, self._operation, "nothing_to_do", None))
            return self._ended("done", None)
        is_half = bool(self.made) or last.status != "gave_up"
        return self._ended("partial" if is_half else "stale", Refusal(last.code, last.message))

    def commit(
        self, prepare: Prepare, note: Note = _as_it_is, last_check: Callable[[], None] = lambda: None
    ) -> Committed:
        """Make one commit.

        Args:
            prepare: Makes the snapshot of each attempt.
            note: Adds to a commit that was made what it took out of the table.
            last_check: Called under the lease, right before the snapshot is written; may raise.

        Raises:
            MaintenanceError: See `commit.loop.commit`.
        """
        table = self.target.table
        self._note = note
        lease, self._lease = self._lease, None  # what it says counts for the first commit alone

        def check() -> None:
            check_policy(table, manual=not self._unattended)
            last_check()

        env = CommitEnvironment(
            store=table.store,
            area=self.area,
            branch=table.ref.branch,
            run_id=self.id,
            batch=len(self.made) + 1,
            options=self._options,
            has_lock=self._has_lock,
            sleep=table.sleep,
            check_time=table.check_time,
            check_policy=check,
            first=None if self.made else self.target.base,
            lease=lease,
            clock_ms=table.clock_ms,
            known=lambda: known_of(self.area, table.ref.branch),
        )
        committed = commit(env, prepare)
        for warning in committed.warnings:
            self.warn(warning)
        self._told += committed.told
        if committed.made is not None:
            self._seen.append(committed.made)
        if committed.status != "committed":
            self._replaced += committed.replaced
        else:
            assert committed.snapshot_id is not None and committed.uuid is not None
            made = MadeCommit(
                committed.snapshot_id, committed.uuid, attempts=committed.attempts, replaced=committed.replaced
            )
            self.made.append(note(made))
        return committed

    def _may_have_committed(self, lease: LeaseDocument) -> bool:
        """Tell whether a run with the id that the request has was at work before."""
        table = self.target.table
        if table.run_id is None:
            return False
        record = lease.commits.get(table.ref.branch)
        return (record is not None and record.run_id == self.id) or has_report(self.area, self.id)

    def _finish_begun(self, lease: LeaseDocument) -> RunReport | None:
        """Finish a plan that a dead run left; return its report if it was interrupted again."""
        table = self.target.table
        finished = finish_begun(table, lease) if table.may_delete else None
        if finished is not None:
            self._lease = read_lease(self.area)
            if self._lease.intent is not None:
                return finished
            self.warn(f"run {finished.run_id} first finished a plan that an earlier run had begun")
        return None

    def _stopped(self, stop: KeyboardInterrupt) -> None:
        """Say what a run committed that somebody stops, and store it. The lease knows of the last commit."""
        table = self.target.table
        doubt = ""
        with suppress(MaintenanceError):
            record = read_lease(self.area).commits.get(table.ref.branch)
            if record is not None and record.run_id == self.id and record.uuid not in {made.uuid for made in self.made}:
                if record.state == "published":
                    self.made.append(self._note(MadeCommit(record.id, record.uuid)))
                else:
                    doubt = f" while it committed snapshot {record.id}: lakesweep show TABLE says whether that exists"
        if not self.made and not doubt:
            return
        ids = ", ".join(str(made.snapshot_id) for made in self.made)
        came = doubt or f" after it committed snapshot {ids}"
        sentence = f"table {table.ref}: run {self.id} was stopped by {stopped_by(stop)}{came}"
        stop.args = (sentence,)
        note_commit(stop)
        with suppress(MaintenanceError):
            self._ended("partial", Refusal(stop_code(stop), sentence, stop_exit_code(stop)))

    def _note_seen(self) -> None:
        """Note for the next sweep what was committed. The lease has the last commit in any case."""
        with suppress(MaintenanceError):
            note_commits(self.area, self.target.table.ref.branch, self._seen, self._told)

    def _shown(self, report: RunReport) -> RunReport:
        shown = self._show(report, tuple(self.made))
        if shown.commits is not None and self._replaced:
            shown = replace(shown, commits=replace(shown.commits, replaced=self._replaced))
        return replace(shown, warnings=tuple(self._warnings), requests=self.target.table.counter.snapshot())

    def _ended(self, status: Status, refusal: Refusal | None) -> RunReport:
        table = self.target.table
        self._note_seen()
        report = self._shown(report_of(table, self._operation, status, None))
        report = replace(report, run_id=self.id, executed=True, refusal=refusal or report.refusal)
        times_ms = (self._started_ms, table.store.now_ms())
        report = run_receipt(table, report)
        try:
            store_report(self.area, self.id, report.to_json(), report.all_warnings(), times_ms)
        except StorageError as error:
            ids = ", ".join(str(made.snapshot_id) for made in self.made)
            raise type(error)(
                f"table {table.ref}: snapshot {ids} is committed; the report of run {self.id} could not be written: "
                f"{error}",
                code=error.code,
            ) from error
        return replace(report, requests=table.counter.snapshot())
