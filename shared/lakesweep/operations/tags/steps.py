"""The steps on tags, for the pass after a commit and for a call about tags alone, `tag-schedule`.

The first step makes the tags that are due, the second deletes the tags that are over. Both run before snapshots expire,
since a snapshot can only get its tag while it exists.

Without a commit, the zone and `pause` of a fleet policy apply. Its calendar rules apply if it lets a pass delete.
Source: Paimon `TriggerTagAutomaticCreationProcedure`, `TagAutoManager#run`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakesweep.errors import RefusedError, StalePlanError
from lakesweep.model.plan import Plan
from lakesweep.model.policy import KeepRules
from lakesweep.model.report import RunReport
from lakesweep.operations.tags import automatic as auto_tags
from lakesweep.operations.tags import expire as expire_tags
from lakesweep.operations.tags.automatic import AutoTagArguments, plan_auto_tags
from lakesweep.operations.tags.expire import ExpireTagsArguments, plan_expire_tags
from lakesweep.operations.tags.options import expires_by_time, has_auto_tags, is_write_only
from lakesweep.runs.fleet import Ruling, may_delete, rule_of, ruling_of
from lakesweep.runs.metadata_cache import keep
from lakesweep.runs.pass_notes import TagNote
from lakesweep.runs.reports import refused
from lakesweep.runs.session import Table
from lakesweep.runs.steps import SharedListing, Step, carry_out, first_run, folded
from lakesweep.runs.view import TableView, begin

TAG_STEPS = frozenset({auto_tags.OPERATION, expire_tags.OPERATION})
_BY_WRITERS = frozenset({"zone_not_declared", "needs_engine_callbacks"})
"""Codes for tags that Lakesweep cannot make. If the table is not `write-only`, its writers make them."""
_SETTLED = frozenset({"done", "nothing_to_do"})
OPERATION = "tag-schedule"


@dataclass(slots=True)
class TagSteps:
    """The steps on the tags of one branch, and their results."""

    view: TableView
    """The branch before the first step."""
    arguments: AutoTagArguments
    ruling: Ruling | None
    manual: bool = False
    """A person asked for these steps, and wants to know what could not be done."""
    options: Mapping[str, str] = field(init=False)
    is_auto: bool = field(init=False)
    reports: dict[str, RunReport] = field(default_factory=dict)
    """By the name of the step."""
    _due: int = 0
    """How many tags were due."""
    _is_left: bool = False
    """The table's writers make the tags that are due."""
    _unknown: frozenset[str] = field(init=False)
    """Paths of tags that earlier runs have not read."""

    def __post_init__(self) -> None:
        """Read the options.

        Raises:
            RefusedError: An option about automatic tags is invalid.
        """
        self.options = {**self.view.schema.options, **self.arguments.options}
        self.is_auto = has_auto_tags(self.options)
        known = self.view.table.memory.objects
        self._unknown = frozenset(
            ref.path for ref in self.view.own.tags if ref.path not in known or known[ref.path].body.etag != ref.etag
        )

    def steps(self) -> Iterator[Step]:
        """Yield the steps that are needed. The caller must take the report of each step before the next."""
        if self.is_auto:
            yield auto_tags.OPERATION, self._plan_auto
        if (self.view.own.tags or self._has_made) and self._may_expire():
            yield expire_tags.OPERATION, self._plan_expiry

    def take(self, name: str, report: RunReport) -> RunReport | None:
        """Take the report of a step, and return the report to show; a pass shows it only if it says something."""
        if name == auto_tags.OPERATION and self._is_left_to_writers(report):
            why = report.refusal.message if report.refusal else ""
            sentence = f"{why}; Lakesweep makes no tag, and leaves that to the table's writers"
            report = replace(report, status="nothing_to_do", refusal=None, warnings=(*report.warnings, sentence))
            self._is_left = True
        self.reports[name] = report
        is_silent = report.status == "nothing_to_do" and not report.all_warnings()
        return None if is_silent and not self.manual else report

    @property
    def is_stopped(self) -> bool:
        """Tell whether due tags could not be made, so that the pass must keep their snapshots."""
        report = self.reports.get(auto_tags.OPERATION)
        if report is None:
            return False
        return report.status not in (*_SETTLED, "planned") or report.refusal is not None

    def check_walked(self, plan: Plan) -> None:
        """Make sure that no snapshot expires that was committed after tags were made, since it may need a tag.

        Raises:
            StalePlanError: Such a snapshot would expire.
        """
        expired = plan.header.snapshots.get("expired")
        walked_id = self.view.own.snapshots[-1].id if self.view.own.snapshots else 0
        if self.is_auto and isinstance(expired, list) and any(found > walked_id for found in expired):
            raise StalePlanError(
                f"table {self.view.table.ref}: snapshot {walked_id + 1} was committed after tags were made; the next "
                "pass decides about its tag before it expires"
            )

    def keep(self) -> None:
        """Keep what this run read about tags for the first time, even if there was nothing to do."""
        if any(path in self.view.table.memory.objects for path in self._unknown):
            keep(self.view.table)

    def note(self) -> TagNote | None:
        """Return the facts about tags for the next pass, `None` if there are no tags and none are made."""
        if not self.is_auto and not self.view.own.tags and not self._has_made:
            return None
        facts: dict[str, int] = {}
        due = []
        for name, report in self.reports.items():
            header = report.plan.header if report.plan is not None else None
            if self._is_open(name, report):
                due.append(0)
            elif header is not None and report.status in _SETTLED:
                facts |= header.next_pass
                due += [found for found in (header.next_pass.get("tags_due_ms"),) if found]
        return TagNote(self.view.now_ms, {**facts, "tags_due_ms": min(due)} if due else facts)

    def _is_open(self, name: str, report: RunReport) -> bool:
        """Tell whether a step must run again as soon as possible, since its result is missing or uncertain."""
        is_auto = name == auto_tags.OPERATION
        if report.status == "refused" or (is_auto and self._is_left):
            return is_auto and not self._is_left
        if report.plan is None or report.plan.header.operation != name or report.status not in _SETTLED:
            return True
        # Another program may be making the tag, and may give up. Then the next pass makes it.
        return is_auto and _tags_of(report.plan) < self._due

    @property
    def _has_made(self) -> bool:
        report = self.reports.get(auto_tags.OPERATION)
        return report is not None and report.operation == auto_tags.OPERATION and report.status in ("done", "planned")

    def _may_expire(self) -> bool:
        """Tell whether any rule could delete a tag. The step itself refuses an invalid option."""
        try:
            return bool(self._keep_rules or self._has_made or expires_by_time(self.options))
        except RefusedError:
            return True

    @property
    def _keep_rules(self) -> tuple[KeepRules, ...]:
        return rule_of(self.ruling).tags

    @property
    def _time_zone(self) -> str | None:
        return rule_of(self.ruling).time_zone if self.arguments.time_zone is None else self.arguments.time_zone

    def _plan_auto(self, table: Table, view: TableView | None) -> Plan:
        plan = plan_auto_tags(table, self.arguments, view, self.ruling)
        self._due = _tags_of(plan)
        return plan

    def _plan_expiry(self, table: Table, view: TableView | None) -> Plan:
        arguments = ExpireTagsArguments(
            keep=self._keep_rules,
            time_zone=self._time_zone,
            options=self.arguments.options,
            is_pass=True,
            counts=self._has_made,
        )
        # The arguments contain what the policy says, so the policy need not be read again.
        return plan_expire_tags(replace(table, policy=None), arguments, view)

    def _is_left_to_writers(self, report: RunReport) -> bool:
        """Tell whether the table's own writers make the tags that could not be made here."""
        if self.manual or report.refusal is None or report.refusal.code not in _BY_WRITERS:
            return False
        return not is_write_only(self.options)


def _tags_of(plan: Plan) -> int:
    return sum(action.kind == "tag" for action in plan.actions)


def trigger_tags(table: Table, arguments: AutoTagArguments, *, execute: bool) -> RunReport:
    """Make due tags, then expire tags: two steps.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        execute: If false, nothing changes.
    """
    shared = SharedListing()
    taken: list[TagSteps] = []

    def steps() -> Iterator[Step]:
        shared.view = begin(table, OPERATION)
        taken.append(TagSteps(shared.view, arguments, _without_observed(ruling_of(table)), manual=True))
        yield from taken[0].steps()

    def take(name: str, report: RunReport) -> RunReport | None:
        return taken[0].take(name, report)

    try:
        reports, _ = carry_out(table, steps(), shared, take, execute=execute)
    except RefusedError as error:
        reports = (refused(table, auto_tags.OPERATION, error),)
    if execute and taken:
        taken[0].keep()
    return replace(folded(table, OPERATION, reports), run_id=first_run(reports))


def _without_observed(ruling: Ruling | None) -> Ruling | None:
    """Return a policy's ruling for a manual call: if the policy only observes, its calendar rules delete nothing."""
    if ruling is None or ruling.rule is None or may_delete(ruling):
        return ruling
    return replace(ruling, rule=replace(ruling.rule, tags=()))
