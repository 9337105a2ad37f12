"""`trigger_tag_automatic_creation`: make the tags that are due and expire tags, without a commit.

These are the steps on tags of `maintain`. The zone and `pause` of a fleet policy apply. Its calendar rules apply if it
lets a pass delete.
Source: Paimon `TriggerTagAutomaticCreationProcedure`, `TagAutoManager#run`.
"""

from collections.abc import Iterator
from dataclasses import replace

from lakesweep.errors import RefusedError
from lakesweep.model.report import RunReport
from lakesweep.operations.tags import automatic as auto_tags
from lakesweep.operations.tags.automatic import AutoTagArguments
from lakesweep.operations.tags.steps import TagSteps
from lakesweep.runs.fleet import Ruling, may_delete, ruling_of
from lakesweep.runs.reports import refused
from lakesweep.runs.session import Table
from lakesweep.runs.steps import SharedListing, Step, carry_out, first_run, folded
from lakesweep.runs.view import begin

OPERATION = "trigger_tag_automatic_creation"


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
