"""`maintain`: the pass that follows a commit.

It applies the table's own options and nothing else. It makes the tags that are due and deletes the tags that are over.
Then it expires partitions, compacts manifests, and expires consumers, snapshots and changelogs, in Paimon's order. At
last it says whether data files should be compacted, or does so if the fleet policy says that. If a step is refused, the
next step still runs, with two exceptions. If no retention is stated, the steps that need one delete nothing. If a tag
that is due could not be made, nothing is committed and no snapshot expires, since it may be the snapshot to tag.

The pass lists the table once. All steps share this listing until a step changes the table.

In a dry run, each step is planned on the table as the steps before it would leave it, except that nothing has been
committed. So the dry run shows what the pass would do as a whole. These plans are not stored, since each could only run
after the steps before it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakesweep.control.state import BranchState
from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.model.commits.lost import Looked
from lakesweep.model.commits.seen import Announced, SeenSnapshot
from lakesweep.model.identity import Identity, identity_of
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableListing
from lakesweep.operations.maintenance.commit_steps import COMMIT_STEPS, CommitSteps
from lakesweep.operations.maintenance.newest import Look
from lakesweep.operations.retention import expire_changelogs, expire_consumers, expire_snapshots
from lakesweep.operations.retention.expire_changelogs import ExpireChangelogsArguments, plan_expire_changelogs
from lakesweep.operations.retention.expire_consumers import EXPIRATION_TIME, ConsumerArguments, plan_expire_consumers
from lakesweep.operations.retention.expire_snapshots import plan_expire_snapshots
from lakesweep.operations.tags.automatic import AutoTagArguments
from lakesweep.operations.tags.steps import TAG_STEPS, TagSteps
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.fleet import Ruling, limited, may_delete, watched_ruling, why_observed
from lakesweep.runs.parameters.retention_options import ExpireArguments, has_decoupled_changelog
from lakesweep.runs.pass_notes import CommitNote, TagNote, remember
from lakesweep.runs.pass_state import clock_ms, known_state, needs_nothing
from lakesweep.runs.reports import refused
from lakesweep.runs.session import Table
from lakesweep.runs.steps import SharedListing, Step, carry_out, first_run, folded
from lakesweep.runs.view import TableView, begin

OPERATION = "maintain"


@dataclass(frozen=True, slots=True)
class MaintainArguments:
    """Table options for this call, on top of the table's own."""

    options: Mapping[str, str] = field(default_factory=dict)
    min_interval_ms: int = 0
    """Do nothing if the last pass was less than this time ago."""
    committed_id: int | None = None
    """The snapshot of this branch that an event reported; saves a read of LATEST."""
    announced: tuple[Announced, ...] = ()
    """The snapshots of this branch that events announced, to compare with those that are there."""
    protect_commit_users: tuple[str, ...] = ()
    """The last snapshot of each of these commit users is kept, and every later snapshot."""
    catalog: Catalog = field(default_factory=Catalog)
    """What the call declares about the table's catalog; by default the fleet policy declares it."""
    max_actions: int | None = None
    """A plan with more actions is stored but not executed."""
    is_due: bool = False
    """The caller has already compared the commit with the state of the last pass (`operations/maintenance/triage.py`).
    So the pass runs, and its time is kept for the next commit, whatever it finds."""
    known: BranchState | None = None
    """That state, if the caller has just read it."""

    def may_skip(self, *, execute: bool) -> bool:
        """Tell whether the state of the last pass may answer: only a call without other options than the table's."""
        return execute and not self.options


def maintain(table: Table, arguments: MaintainArguments, *, execute: bool) -> RunReport:
    """Run the maintenance that the stated options of one branch ask for.

    A commit that needs nothing costs at most four requests and writes nothing: the state of the last pass answers it.
    """
    if arguments.may_skip(execute=execute) and not arguments.is_due:
        known = known_state(table)
        if needs_nothing(table, known, arguments.min_interval_ms, arguments.committed_id):
            return nothing(table)
        arguments = replace(arguments, known=known)
    try:
        ruling = watched_ruling(table)
    except RefusedError as error:
        report = fold(table, (refused(table, expire_snapshots.OPERATION, error),))
        looked = _look(table, arguments) if arguments.is_due else Looked()
        return replace(report, lost=looked.lost, warnings=looked.warnings)
    report, _ = one_pass(table, arguments, ruling, execute=execute)
    return replace(report, warnings=(*why_observed(ruling), *report.warnings))


def one_pass(
    table: Table,
    arguments: MaintainArguments,
    ruling: Ruling | None,
    *,
    execute: bool,
    listing: TableListing | None = None,
) -> tuple[RunReport, Table]:
    """Maintain one branch. Return the report, and the table as it is then, or as it would be after a dry run.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        ruling: What the fleet policy says about the table.
        execute: If false, nothing changes.
        listing: The table as it was just listed, if it was.
    """
    steps: tuple[RunReport, ...] = ()
    looked = Looked()
    is_pass = arguments.may_skip(execute=execute or arguments.is_due)
    after, walk = table, _Pass(table, arguments, ruling, listing, is_pass=is_pass)
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
    if is_pass:
        others = [step for step in steps if step.operation not in TAG_STEPS | COMMIT_STEPS]
        keeps_time = arguments.is_due or arguments.min_interval_ms > 0
        looked = remember(
            table,
            others,
            walk.identity,
            walk.note(),
            commits=walk.commit_notes(),
            keeps_time=keeps_time,
            compare=walk.compare,
        )
        walk.keep()
    report = fold(table, steps)
    return replace(report, lost=looked.lost, warnings=looked.warnings), after


def _look(table: Table, arguments: MaintainArguments) -> Looked:
    """Look what happened to the newest snapshots of a table that is paused."""
    walk = _Pass(table, arguments, None, None, is_pass=True)
    try:
        walk.begin()
    except MaintenanceError as error:
        return Looked(warnings=(f"table {table.ref}: nobody looked for replaced snapshots this time: {error}",))
    return remember(table, (), walk.identity, keeps_time=True, compare=walk.compare)


def nothing(table: Table) -> RunReport:
    """Return the report of a pass that the state of the last pass answered."""
    return folded(table, OPERATION, ())


class _Pass:
    """The steps of one pass."""

    def __init__(
        self,
        table: Table,
        arguments: MaintainArguments,
        ruling: Ruling | None,
        listing: TableListing | None,
        *,
        is_pass: bool,
    ) -> None:
        self._table = table
        self._arguments = arguments
        self._ruling = ruling
        self._listing = listing
        self.shared = SharedListing()
        self._is_pass = is_pass
        self._listed_ms = 0
        self._view: TableView | None = None
        """The table as it was listed first."""
        self._tags: TagSteps | None = None
        self._commits: CommitSteps | None = None
        self.identity = Identity()
        """The identity of the branch in the first listing."""

    def steps(self) -> Iterator[Step]:
        """Yield the steps that the table's options ask for and the fleet policy allows.

        Raises:
            RefusedError: Before the first step: this is no table, or the value of an option does not parse.
        """
        options = self._arguments.options
        users = self._arguments.protect_commit_users
        limits = limited(ExpireArguments(options=options, unattended=True, protect_commit_users=users), self._ruling)
        view = self.begin()
        stated = {**view.schema.options, **options}
        is_decoupled = has_decoupled_changelog(stated)
        tags = self._tags = TagSteps(view, AutoTagArguments(options=options), self._ruling)
        yield from tags.steps()
        if tags.is_stopped:
            return
        catalog, known = self._arguments.catalog, self._arguments.known
        self._commits = CommitSteps(view, options, catalog, self._ruling, known, is_pass=self._is_pass)
        yield from self._commits.steps()
        if EXPIRATION_TIME in stated:
            by_age = ConsumerArguments(options=options)
            yield expire_consumers.EXPIRE, lambda table, view: plan_expire_consumers(table, by_age, limits, view)

        def snapshots(table: Table, view: TableView | None) -> Plan:
            plan = plan_expire_snapshots(table, limits, view)
            tags.check_walked(plan)
            return plan

        yield expire_snapshots.OPERATION, snapshots
        if is_decoupled:
            by_options = ExpireChangelogsArguments(limits=limits, by_options=True)
            yield (
                expire_changelogs.OPERATION,
                lambda table, view: plan_expire_changelogs(table, by_options, view),
            )
        yield from self._commits.last_steps()

    def begin(self) -> TableView:
        """List the table.

        Raises:
            RefusedError: This is no table.
        """
        view = self.shared.view = self._view = begin(self._table, OPERATION, self._listing)
        self._listed_ms = clock_ms(self._table)
        self.identity = identity_of(view.own)
        return view

    def take(self, name: str, report: RunReport) -> RunReport | None:
        """Take the report of a step, and return the report that the pass shows for it."""
        if self._tags is not None and name in TAG_STEPS:
            return self._tags.take(name, report)
        if self._commits is not None and name in COMMIT_STEPS:
            return self._commits.take(name, report)
        return report

    def note(self) -> TagNote | None:
        """Return the facts from the steps on tags for the next pass."""
        return None if self._tags is None else self._tags.note()

    def commit_notes(self) -> Sequence[CommitNote]:
        """Return the facts from the steps that commit for the next pass."""
        return () if self._commits is None else self._commits.notes()

    def compare(self, known: BranchState | None, elsewhere: Iterable[SeenSnapshot]) -> Looked:
        """Compare what was seen of the newest snapshots with the first listing; see `runs.pass_notes.Compare`."""
        if self._view is None:
            return Looked()
        lease, branch = self.shared.lease, self._table.ref.branch
        record = None if lease is None else lease.commits.get(branch)
        return Look(self._view, self._listed_ms, self._arguments.announced, record).compare(known, elsewhere)

    def keep(self) -> None:
        """Keep what this pass read about tags for the first time, even if there was nothing else to do."""
        if self._tags is not None:
            self._tags.keep()


def fold(table: Table, steps: tuple[RunReport, ...]) -> RunReport:
    """Fold the reports of the steps into one; the plan and outcome come from the step of snapshots."""
    main = next((step for step in steps if step.operation == expire_snapshots.OPERATION), steps[0])
    run_id = main.run_id or first_run(steps)
    return replace(folded(table, OPERATION, steps), plan=main.plan, run_id=run_id, outcome=main.outcome)
