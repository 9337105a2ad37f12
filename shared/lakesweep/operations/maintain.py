"""`maintain`: the pass that follows a commit.

It applies the table's own options and nothing else: tags that are due, tags that are over, and in the engine's order
consumers, snapshots, changelogs. A step that refuses does not keep the next from running, with two exceptions: where no
retention is stated, nothing is removed by it, and where a tag that is due could not be made, no snapshot goes, since it
may be the one. All branches of a table are maintained one after the other (`operations/all_branches.py`).

The pass lists the table once, for all steps until one of them changes it.

In a dry run each step is planned on the table as the steps before it would leave it, so it shows what the pass would do
as a whole. Such a plan is not stored: its turn comes when the others are done.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakesweep.errors import RefusedError
from lakesweep.model.identity import Identity, identity_of
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableListing
from lakesweep.operations import expire_changelogs, expire_consumers, expire_snapshots
from lakesweep.operations.auto_tags import AutoTagArguments
from lakesweep.operations.context import Table
from lakesweep.operations.draft import Draft, begin
from lakesweep.operations.expire_changelogs import ExpireChangelogsArguments, plan_expire_changelogs
from lakesweep.operations.expire_consumers import EXPIRATION_TIME, ConsumerArguments, plan_expire_consumers
from lakesweep.operations.expire_snapshots import plan_expire_snapshots
from lakesweep.operations.fleet import Ruling, limited, may_delete, watched_ruling, why_observed
from lakesweep.operations.retention_options import ExpireArguments, has_decoupled_changelog
from lakesweep.operations.run import refused
from lakesweep.operations.shortcut import TagNote, needs_nothing, remember
from lakesweep.operations.steps import SharedListing, Step, carry_out, worst
from lakesweep.operations.tag_steps import TAG_STEPS, TagSteps

OPERATION = "maintain"


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
    steps: tuple[RunReport, ...] = ()
    after, walk = table, _Pass(table, arguments, ruling, listing)
    try:
        steps, after = carry_out(
            table,
            walk.steps(),
            walk.shared,
            walk.take,
            execute=execute and may_delete(ruling),
            max_actions=arguments.max_actions,
        )
    except RefusedError as error:
        steps = (refused(table, expire_snapshots.OPERATION, error),)
    if arguments.may_skip(execute=execute or arguments.is_due):
        others = [step for step in steps if step.operation not in TAG_STEPS]
        keeps_time = arguments.is_due or arguments.min_interval_ms > 0
        remember(table, others, walk.identity, walk.note(), keeps_time=keeps_time)
        walk.keep()
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


class _Pass:
    """The steps of one pass."""

    def __init__(
        self, table: Table, arguments: MaintainArguments, ruling: Ruling | None, listing: TableListing | None
    ) -> None:
        self._table = table
        self._arguments = arguments
        self._ruling = ruling
        self._listing = listing
        self.shared = SharedListing()
        self._tags: TagSteps | None = None
        self.identity = Identity()
        """Of the branch as it was listed first."""

    def steps(self) -> Iterator[Step]:
        """Yield the steps that the table's options ask for, within what a fleet policy allows.

        Raises:
            RefusedError: Before the first step: not a table, or an option whose value does not parse.
        """
        options = self._arguments.options
        users = self._arguments.protect_commit_users
        limits = limited(ExpireArguments(options=options, unattended=True, protect_commit_users=users), self._ruling)
        draft = self.shared.draft = begin(self._table, OPERATION, self._listing)
        self.identity = identity_of(draft.own)
        stated = {**draft.schema.options, **options}
        is_decoupled = has_decoupled_changelog(stated)
        tags = self._tags = TagSteps(draft, AutoTagArguments(options=options), self._ruling)
        yield from tags.steps()
        if tags.is_stopped:
            return
        if EXPIRATION_TIME in stated:
            by_age = ConsumerArguments(options=options)
            yield expire_consumers.EXPIRE, lambda table, draft: plan_expire_consumers(table, by_age, limits, draft)

        def snapshots(table: Table, draft: Draft | None) -> Plan:
            plan = plan_expire_snapshots(table, limits, draft)
            tags.check_walked(plan)
            return plan

        yield expire_snapshots.OPERATION, snapshots
        if is_decoupled:
            by_options = ExpireChangelogsArguments(limits=limits, by_options=True)
            yield (
                expire_changelogs.OPERATION,
                lambda table, draft: plan_expire_changelogs(table, by_options, draft),
            )

    def take(self, name: str, report: RunReport) -> RunReport | None:
        """Take the report of a step, and return it as the pass shows it."""
        if self._tags is not None and name in TAG_STEPS:
            return self._tags.take(name, report)
        return report

    def note(self) -> TagNote | None:
        """Return what the steps on tags say to the next pass."""
        return None if self._tags is None else self._tags.note()

    def keep(self) -> None:
        """Keep what was read of tags for the first time, also where nothing else was there to be done."""
        if self._tags is not None:
            self._tags.keep()


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
