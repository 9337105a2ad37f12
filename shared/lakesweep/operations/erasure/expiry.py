"""Let expire what a table's own rules let expire, in all branches: what keeps erased rows goes with it.

No tag and no branch is deleted unless its own time to live is over.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.model.roots import MAIN
from lakesweep.operations.retention import expire_changelogs, expire_snapshots
from lakesweep.operations.retention.expire_changelogs import ExpireChangelogsArguments, plan_expire_changelogs
from lakesweep.operations.retention.expire_snapshots import plan_expire_snapshots
from lakesweep.operations.tags import expire as expire_tags
from lakesweep.operations.tags.expire import ExpireTagsArguments, plan_expire_tags
from lakesweep.runs.fleet import limited, ruling_of
from lakesweep.runs.parameters.retention_options import ExpireArguments
from lakesweep.runs.run import plan_and_execute, plan_only
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView

Planner = Callable[[Table], Plan]


def expire(table: Table, view: TableView, *, execute: bool) -> Iterator[RunReport]:
    """Let tags, snapshots and changelogs of each branch expire, main first, and yield the report of each operation.

    Args:
        table: One branch of the table.
        view: The table, with all of its roots.
        execute: If false, only plan.

    Raises:
        MaintenanceError: An operation failed; those before it are done.
    """
    names = sorted(view.listing.branches, key=lambda name: (name != MAIN, name))
    for name in names:
        if not any(view.listing.branches[name].roots()):
            continue
        target = replace(table, ref=replace(table.ref, branch=name), run_id=None)
        for operation, planner in _planners(target):
            report = (plan_and_execute if execute else plan_only)(target, operation, planner)
            if report.status != "nothing_to_do":
                yield report


def _planners(table: Table) -> tuple[tuple[str, Planner], ...]:
    limits = limited(ExpireArguments(), ruling_of(table))
    changelogs = ExpireChangelogsArguments(limits=limits, by_options=True)
    return (
        (expire_tags.OPERATION, lambda at: plan_expire_tags(at, ExpireTagsArguments(is_pass=True))),
        (expire_snapshots.OPERATION, lambda at: plan_expire_snapshots(at, limits)),
        (expire_changelogs.OPERATION, lambda at: plan_expire_changelogs(at, changelogs)),
    )
