"""`maintain`: the pass that follows a commit.

It applies the table's own options and nothing else, in the engine's order: consumers, snapshots, changelogs. A step
that refuses does not keep the next from running, except that nothing runs where no retention is stated. All branches
of a table are maintained one after the other (`operations/all_branches.py`).

In a dry run each step is planned on the table as the steps before it would leave it, so it shows what the pass would do
as a whole. Such a plan is not stored: its turn comes when the others are done.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.errors import RefusedError
from lakesweep.model.plan import Action, Delete, Plan
from lakesweep.model.report import RunReport, Status
from lakesweep.model.roots import TableListing
from lakesweep.operations import expire_changelogs, expire_consumers, expire_snapshots
from lakesweep.operations.context import Table
from lakesweep.operations.draft import begin
from lakesweep.operations.expire_changelogs import ExpireChangelogsArguments, plan_expire_changelogs
from lakesweep.operations.expire_consumers import EXPIRATION_TIME, ConsumerArguments, plan_expire_consumers
from lakesweep.operations.expire_snapshots import plan_expire_snapshots
from lakesweep.operations.fleet import Ruling, limited, may_delete, watched_ruling, why_observed
from lakesweep.operations.retention_options import ExpireArguments, has_decoupled_changelog
from lakesweep.operations.run import plan_and_execute, plan_only, refused, require_area
from lakesweep.operations.shortcut import needs_nothing, remember
from lakesweep.storage.planned import PlannedStore

OPERATION = "maintain"

Step = tuple[str, Callable[[Table], Plan]]


@dataclass(frozen=True, slots=True)
class MaintainArguments:
    """Table options for this call, on top of the table's own."""

    options: Mapping[str, str] = field(default_factory=dict)
    min_interval_ms: int = 0
    """Do nothing when the last pass is not longer ago than this."""
    committed_id: int | None = None
    """The snapshot of this branch that an event told of; saves a look at LATEST."""
    protect_commit_users: tuple[str, ...] = ()
    """The last snapshot of each of these commit users stays, and every later one."""

    max_actions: int | None = None
    """A plan of more is stored and not carried out."""
    is_due: bool = False
    """The caller has held the state of the last pass against the commit already (`operations/triage.py`). So the pass
    is made, and its time is kept for the next commit, whatever it finds."""

    def may_skip(self, *, execute: bool) -> bool:
        """Tell whether the state of the last pass may answer this one: it was made by the table's own options."""
        return execute and not self.options


def maintain(table: Table, arguments: MaintainArguments, *, execute: bool) -> RunReport:
    """Run the maintenance that the stated options of one branch ask for.

    A commit that needs nothing costs four requests at most and writes nothing: the state of the last pass answers it.
    """
    quick = arguments.may_skip(execute=execute) and not arguments.is_due
    if quick and needs_nothing(table, arguments.min_interval_ms, arguments.committed_id):
        return nothing(table)
    try:
        ruling = watched_ruling(table)
    except RefusedError as error:
        return fold(table, (refused(table, expire_snapshots.OPERATION, error),))
    report, _ = one_pass(table, arguments, ruling, execute=execute)
    return replace(report, warnings=why_observed(ruling))


def one_pass(
    table: Table,
    arguments: MaintainArguments,
    ruling: Ruling | None,
    *,
    execute: bool,
    listing: TableListing | None = None,
) -> tuple[RunReport, Table]:
    """Maintain one branch, and return with the report the table as it is then, or in a dry run would be.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        ruling: What the fleet policy says about the table.
        execute: Otherwise nothing changes.
        listing: The table as it was just listed, when it was.
    """
    after = table
    steps: tuple[RunReport, ...] = ()
    try:
        asked = _steps(table, arguments, ruling, listing)
        if execute and may_delete(ruling):
            # Before the first step lists the table. The later ones list it anew.
            lease: LeaseDocument | None = read_lease(require_area(table))
            for name, planner in asked:
                done = plan_and_execute(table, name, planner, lease=lease, max_actions=arguments.max_actions)
                steps, lease = (*steps, done), None
        else:
            steps, after = _planned(table, asked)
    except RefusedError as error:
        steps = (refused(table, expire_snapshots.OPERATION, error),)
    if arguments.may_skip(execute=execute or arguments.is_due):
        remember(table, steps, keeps_time=arguments.is_due or arguments.min_interval_ms > 0)
    return fold(table, steps), after


def nothing(table: Table) -> RunReport:
    """Return the report of a pass that the state of the last one answered."""
    return RunReport(
        operation=OPERATION,
        table=table.ref.location,
        branch=table.ref.branch,
        status="nothing_to_do",
        requests=table.counter.snapshot(),
        steps=(),
    )


def _planned(table: Table, steps: Iterator[Step]) -> tuple[tuple[RunReport, ...], Table]:
    reports = []
    for name, planner in steps:
        report = plan_only(table, name, planner)
        reports.append(report)
        if report.plan is not None and report.status == "planned":
            table = replace(table, store=_after(table, report.plan.actions), area=None)
    return tuple(reports), table


def _after(table: Table, actions: tuple[Action, ...]) -> PlannedStore:
    going = frozenset(action.path for action in actions if isinstance(action, Delete))
    written = {
        action.path: action.body.encode("utf-8", "surrogateescape")
        for action in actions
        if not isinstance(action, Delete)
    }
    return PlannedStore(table.store, going, written)


def _steps(
    table: Table, arguments: MaintainArguments, ruling: Ruling | None, listing: TableListing | None
) -> Iterator[Step]:
    """Yield the steps that the table's options ask for, within what a fleet policy allows.

    Raises:
        RefusedError: Before the first step: not a table, or an option whose value does not parse.
    """
    options = arguments.options
    users = arguments.protect_commit_users
    limits = limited(ExpireArguments(options=options, unattended=True, protect_commit_users=users), ruling)
    drafts = [begin(table, OPERATION, listing)]
    stated = {**drafts[0].schema.options, **options}
    is_decoupled = has_decoupled_changelog(stated)
    if EXPIRATION_TIME in stated:
        drafts.clear()  # the step changes what it shows
        yield (
            expire_consumers.EXPIRE,
            lambda target: plan_expire_consumers(target, ConsumerArguments(options=options), limits),
        )

    def snapshots(target: Table) -> Plan:
        # What was listed serves the first attempt; one that finds the table changed lists it again.
        return plan_expire_snapshots(target, limits, drafts.pop() if drafts else None)

    yield expire_snapshots.OPERATION, snapshots
    if is_decoupled:
        by_options = ExpireChangelogsArguments(limits=limits, by_options=True)
        yield expire_changelogs.OPERATION, lambda target: plan_expire_changelogs(target, by_options)


def fold(table: Table, steps: tuple[RunReport, ...]) -> RunReport:
    """Fold the reports of the steps into one; plan and outcome are those of the snapshots' step."""
    main = next((step for step in steps if step.operation == expire_snapshots.OPERATION), steps[0])
    return RunReport(
        operation=OPERATION,
        table=table.ref.location,
        branch=table.ref.branch,
        status=worst(steps),
        plan=main.plan,
        run_id=main.run_id or next((step.run_id for step in steps if step.run_id), None),
        executed=any(step.executed for step in steps),
        refusal=next((step.refusal for step in steps if step.refusal), None),
        outcome=main.outcome,
        requests=table.counter.snapshot(),
        steps=steps,
    )


def worst(reports: Iterable[RunReport]) -> Status:
    """Return the status that wants attention most."""
    found = {report.status for report in reports}
    order: tuple[Status, ...] = ("stale", "partial", "refused", "done", "planned")
    return next((status for status in order if status in found), "nothing_to_do")
