"""Run `maintain`."""

from collections.abc import Mapping

from lakesweep.model.report import RunReport
from lakesweep.operations.maintenance import maintain
from lakesweep.operations.maintenance.all_branches import maintain_all_branches
from lakesweep.operations.registered.planned import Run
from lakesweep.runs.committing.catalog import stated_catalog
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.parameter import OPTIONS, Call
from lakesweep.runs.session import Table


def _maintain(table: Table, call: Call, execute: bool) -> RunReport:
    arguments = maintain.MaintainArguments(
        options=call[OPTIONS],
        min_interval_ms=call[given.MIN_INTERVAL] or 0,
        protect_commit_users=call[given.PROTECT_COMMIT_USER],
        catalog=stated_catalog(call),
    )
    run = maintain_all_branches if call[given.ALL_BRANCHES] else maintain.maintain
    return run(table, arguments, execute=execute)


RUNS: Mapping[str, Run] = {given.MAINTAIN.name: _maintain}
