"""Consecutive steps on one branch, and the listing that they share until one of them changes the table."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.errors import RefusedError, StalePlanError
from lakesweep.model.plan import Delete, Plan, to_bytes
from lakesweep.model.report import RunReport, Status
from lakesweep.runs.execution import finish_begun, require_area
from lakesweep.runs.reports import refused
from lakesweep.runs.run import plan_and_execute, plan_only
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView
from lakesweep.storage.wrappers.planned import PlannedStore

ViewPlanner = Callable[[Table, TableView | None], Plan]
"""Plans from the given listing; lists the table if none is given."""


@dataclass(frozen=True, slots=True)
class CommitStep:
    """A step that commits snapshots. It has no stored plan, since it plans anew if another writer commits first."""

    run: Callable[[Table, TableView | None, bool], RunReport]
    """Makes the commits, if its last argument is true. It lists the table if no listing is given."""


Step = tuple[str, ViewPlanner | CommitStep]
Take = Callable[[str, RunReport], RunReport | None]


class SharedListing:
    """The listing that was made when the steps began."""

    def __init__(self) -> None:
        self.view: TableView | None = None
        """`None` before the first step, and after a step that may have changed the table."""
        self.lease: LeaseDocument | None = None
        """The lease before the first step; `None` if nothing is executed."""

    def take(self, report: RunReport) -> None:
        """Drop the listing if a step may have changed the table."""
        is_unchanged = report.status == "refused" and report.plan is None
        if report.status != "nothing_to_do" and not is_unchanged:
            self.view = None

    def planner(self, plan_by: ViewPlanner) -> Callable[[Table], Plan]:
        """Return a planner that uses the listing once. If the table has changed, it lists the table again."""

        def plan(table: Table) -> Plan:
            view, self.view = self.view, None
            try:
                planned = plan_by(table, view)
            except StalePlanError:
                raise
            except RefusedError:
                self.view = view
                raise
            if planned.is_empty:
                self.view = view
            return planned

        return plan


def carry_out(
    table: Table,
    steps: Iterator[Step],
    shared: SharedListing,
    take: Take,
    *,
    execute: bool,
    max_actions: int | None = None,
) -> tuple[tuple[RunReport, ...], Table]:
    """Run steps one after another. Return their reports, and the table as a dry run would leave it.

    Args:
        table: One branch of a table.
        steps: The first step lists the table.
        shared: Receives that listing.
        take: Called with the name and report of each step before the next step. It returns the report to show, or
            `None` to show nothing. If a step finished what a dead run left and then had nothing to do, it passes the
            report of that.
        execute: If false, nothing changes, and each step is planned on the table as the steps before it would leave it.
        max_actions: A plan with more actions is stored but not executed.

    Raises:
        RefusedError: Before the first step.
    """
    reports: list[RunReport] = []
    # Read the lease before the listing. A run that holds it in between makes the listing old, and this run must notice.
    lease = shared.lease = read_lease(require_area(table)) if execute else None
    for name, plan_by in steps:
        if isinstance(plan_by, CommitStep):
            report = _commit(table, name, plan_by, shared, lease)
            if (shown := take(name, report)) is not None:
                reports.append(shown)
            continue
        planner = shared.planner(plan_by)
        if lease is None:
            report = plan_only(table, name, planner)
            table = _after(table, report)
        else:
            known = lease if shared.view is not None else None
            report = plan_and_execute(table, name, planner, lease=known, max_actions=max_actions)
            if lease.intent is not None:
                shared.view = None  # the begun plan has been finished, and the lease document has changed
        shared.take(report)
        if (shown := take(name, report)) is not None:
            reports.append(shown)
    return tuple(reports), table


def _commit(table: Table, name: str, step: CommitStep, shared: SharedListing, lease: LeaseDocument | None) -> RunReport:
    """Run a step that commits, after what a dead run left, and drop the listing if the table may have changed.

    A dry run plans the later steps without the commit.
    """
    if lease is None:
        return step.run(table, shared.view, False)
    if lease.intent is not None:
        shared.view = None
        try:
            area = require_area(table)
            finished = finish_begun(table, read_lease(area))
            if finished is not None and read_lease(area).intent is not None:
                return finished  # it was interrupted again, so nothing else may begin
        except RefusedError as error:
            return refused(table, name, error)
    puts = table.counter.snapshot().get("put", 0)
    view, shared.view = shared.view, None
    report = step.run(table, view, True)
    if not report.executed and table.counter.snapshot().get("put", 0) == puts:
        shared.view = view
    return report


def _after(table: Table, report: RunReport) -> Table:
    """Return the table as a plan would leave it."""
    if report.plan is None or report.status != "planned":
        return table
    actions = report.plan.actions
    going = frozenset(action.path for action in actions if isinstance(action, Delete))
    written = {action.path: to_bytes(action.body) for action in actions if not isinstance(action, Delete)}
    return replace(table, store=PlannedStore(table.store, going, written), area=None)


def folded(table: Table, operation: str, reports: tuple[RunReport, ...]) -> RunReport:
    """Fold the reports of steps, or of branches, into one."""
    return RunReport(
        operation=operation,
        table=table.ref.location,
        branch=table.ref.branch,
        status=worst(reports),
        executed=any(report.executed for report in reports),
        refusal=next((report.refusal for report in reports if report.refusal), None),
        requests=table.counter.snapshot(),
        steps=reports,
    )


def first_run(reports: Iterable[RunReport]) -> str | None:
    """Return the first run of the steps that executed something."""
    return next((report.run_id for report in reports if report.run_id), None)


def worst(reports: Iterable[RunReport]) -> Status:
    """Return the status that needs attention most."""
    found = {report.status for report in reports}
    order: tuple[Status, ...] = ("stale", "partial", "refused", "done", "planned")
    return next((status for status in order if status in found), "nothing_to_do")
