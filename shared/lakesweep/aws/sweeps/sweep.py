"""The sweep: a table sweep that finds work for which no event arrived, or whose event was lost.

It asks for each table whether a pass is due. This costs a listing of its branches and at most five small reads.
"""

from collections.abc import Iterator
from dataclasses import replace

from lakesweep.aws.messages import Sweep
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.sweeps.tables import Counts, Due, TableSweep, branch_folders, states_of, sweep_tables
from lakesweep.model.roots import MAIN
from lakesweep.operations.maintenance.triage import lag_of
from lakesweep.runs.session import Table

COUNTS = Counts(tables="TablesSwept", due="TablesLagging", max_lag="MaxLagSeconds")


def sweep(runtime: Runtime, message: Sweep, context: Context) -> TableSweep:
    """Visit every table after `message.cursor` while time is left; then hand the rest on.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: A folder could not be listed, or the policy could not be read.
    """
    return sweep_tables(runtime, message, context, COUNTS, _lagging)


def _lagging(table: Table, _: bool) -> Iterator[Due]:
    """Yield the branches that lag behind.

    This includes every branch that has a folder: the event of a new branch's first commit may be lost, too.
    """
    states = states_of(table)
    for branch in (MAIN, *sorted((branch_folders(table.store) | states.keys()) - {MAIN})):
        lag = lag_of(replace(table, ref=replace(table.ref, branch=branch)), states.get(branch))
        if lag is not None:
            yield branch, lag.lag_ms
