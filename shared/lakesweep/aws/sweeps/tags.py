"""The table sweep for tags: a tag may become due or expire without a commit, and then no event arrives.

Each pass stores when the tags of its branch are next due. So this table sweep costs one small read per table, and more
only if a tag is due. It does not create or delete tags. It requests a pass, which checks again. It does not request a
pass over a branch that no pass has seen: the sweep finds such a branch.
"""

from collections.abc import Iterator

from lakesweep.aws.messages import TagSweep
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.sweeps.tables import Counts, Due, TableSweep, branch_folders, states_of, sweep_tables
from lakesweep.control.state import BranchState
from lakesweep.model.roots import MAIN
from lakesweep.model.safety import CLOCK_MARGIN_MS
from lakesweep.runs.pass_state import clock_ms
from lakesweep.runs.session import Table

COUNTS = Counts(tables="TablesAskedForTags", due="TablesWithTagsDue", max_lag="MaxTagLagSeconds")


def tag_sweep(runtime: Runtime, message: TagSweep, context: Context) -> TableSweep:
    """Visit every table after `message.cursor` while time is left; then hand the rest on.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: A folder could not be listed, or the policy could not be read.
    """
    return sweep_tables(runtime, message, context, COUNTS, _tags_due)


def _tags_due(table: Table, changes: bool) -> Iterator[Due]:
    """Yield the branches whose tags are due, by the clock of the control location's store."""
    states = states_of(table)
    now_ms = clock_ms(table)
    due = {branch: state for branch, state in states.items() if _is_due(state, now_ms, changes)}
    if due.keys() - {MAIN}:
        there = branch_folders(table.store) | {MAIN}  # a pass over a deleted branch would be refused each time
        due = {branch: state for branch, state in due.items() if branch.partition("/")[0] in there}
    for branch, state in sorted(due.items()):
        # If no time is stored, a manual operation has changed tags since the last pass.
        yield branch, now_ms - state.tags_due_ms if state.tags_due_ms else None


def _is_due(state: BranchState, now_ms: int, changes: bool) -> bool:
    """Tell whether a pass has to be requested.

    For a margin after the due time a pass leaves the tag to a commit, so none is requested. If passes only plan, a
    due tag remains due, so one pass that reports it is enough.
    """
    return state.tags_due_ms + CLOCK_MARGIN_MS <= now_ms and (changes or state.checked_ms < state.tags_due_ms)
