"""Steps that follow one another on one branch, and the listing that they share until one of them changes the table."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from lakesweep.control.lease import read_lease
from lakesweep.errors import RefusedError, StalePlanError
from lakesweep.model.plan import Delete, Plan, to_bytes
from lakesweep.model.report import RunReport, Status
from lakesweep.operations.context import Table
from lakesweep.operations.draft import Draft
from lakesweep.operations.run import plan_and_execute, plan_only, require_area
from lakesweep.storage.planned import PlannedStore

DraftPlanner = Callable[[Table, Draft | None], Plan]
"""Plans by a table that was just listed; without one it lists it."""
Step = tuple[str, DraftPlanner]
Take = Callable[[str, RunReport], RunReport | None]


class SharedListing:
    """What was listed when the steps began."""

    def __init__(self) -> None:
        self.draft: Draft | None = None
        """Empty before the first step, and once the table may be another one."""

    def take(self, report: RunReport) -> None:
        """See what a step did."""
        is_unchanged = report.status == "refused" and report.plan is None
        if report.status != "nothing_to_do" and not is_unchanged:
            self.draft = None

    def planner(self, plan_by: DraftPlanner) -> Callable[[Table], Plan]:
        """Return a planner that goes by the listing once; one that finds the table changed lists it again."""

        def plan(table: Table) -> Plan:
            draft, self.draft = self.draft, None
            try:
                planned = plan_by(table, draft)
            except StalePlanError:
                raise
            except RefusedError:
                self.draft = draft
                raise
            if planned.is_empty:
                self.draft = draft
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
    """Carry out steps one after the other, and return with their reports the table as a dry run would leave it.

    Args:
        table: One branch of a table.
        steps: The first one lists the table when it is asked for.
        shared: Where it puts the listing.
        take: Takes the name and the report of each step before the next is asked for, and returns the report as it is
            to be shown, `None` where it says nothing. A step that had nothing to do after it had finished what a dead
            run left has the report of that.
        execute: Otherwise nothing changes, and each step is planned on the table as those before it would leave it.
        max_actions: A plan of more is stored and not carried out.

    Raises:
        RefusedError: Before the first step.
    """
    reports: list[RunReport] = []
    # Before the listing. Whoever has the lease between the two makes the listing old, and the run has to notice.
    lease = read_lease(require_area(table)) if execute else None
    for name, plan_by in steps:
        planner = shared.planner(plan_by)
        if lease is None:
            report = plan_only(table, name, planner)
            table = _after(table, report)
        else:
            known = lease if shared.draft is not None else None
            report = plan_and_execute(table, name, planner, lease=known, max_actions=max_actions)
            if lease.intent is not None:
                shared.draft = None  # what was begun has been finished, and the lease is another one
        shared.take(report)
        if (shown := take(name, report)) is not None:
            reports.append(shown)
    return tuple(reports), table


def _after(table: Table, report: RunReport) -> Table:
    """Return the table as a plan would leave it."""
    if report.plan is None or report.status != "planned":
        return table
    actions = report.plan.actions
    going = frozenset(action.path for action in actions if isinstance(action, Delete))
    written = {action.path: to_bytes(action.body) for action in actions if not isinstance(action, Delete)}
    return replace(table, store=PlannedStore(table.store, going, written), area=None)


def worst(reports: Iterable[RunReport]) -> Status:
    """Return the status that wants attention most."""
    found = {report.status for report in reports}
    order: tuple[Status, ...] = ("stale", "partial", "refused", "done", "planned")
    return next((status for status in order if status in found), "nothing_to_do")
