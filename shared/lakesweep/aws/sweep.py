"""The sweep: what no event told of, or what an event was lost for, is found here.

Each table is asked whether a pass is due, which costs a listing of its branches and five small reads at most.
"""

from collections.abc import Iterator
from dataclasses import replace

from lakesweep.aws.messages import Sweep
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.tour import Counts, Due, Tour, branch_folders, make_tour, states_of
from lakesweep.model.table_ref import MAIN
from lakesweep.operations.context import Table
from lakesweep.operations.triage import lag_of

COUNTS = Counts(tables="TablesSwept", due="TablesLagging", max_lag="MaxLagSeconds")


def sweep(runtime: Runtime, message: Sweep, context: Context) -> Tour:
    """Ask every table after `message.cursor`, as long as there is time; then hand the rest on.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: A folder could not be listed, or the policy not be read.
    """
    return make_tour(runtime, message, context, COUNTS, _lagging)


def _lagging(table: Table, _: bool) -> Iterator[Due]:
    """Yield the branches that lag behind.

    Asked are those whose folders are there: the event that told of a new one may be lost like any other.
    """
    states = states_of(table)
    for branch in (MAIN, *sorted((branch_folders(table.store) | states.keys()) - {MAIN})):
        lag = lag_of(replace(table, ref=replace(table.ref, branch=branch)), states.get(branch))
        if lag is not None:
            yield branch, lag.lag_ms
