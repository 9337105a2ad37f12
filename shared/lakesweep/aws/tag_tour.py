"""The tour for tags: where the clock alone makes a tag due, or ends the time of one, no commit may come to tell of it.

Each pass leaves behind when the tags of its branch are next due, so a table costs one small read, and nothing more
unless one is. The tour makes no tag and removes none: it asks for a pass, which looks for itself. A branch that no pass
has seen is not asked for here; the sweep finds it.
"""

from collections.abc import Iterator

from lakesweep.aws.messages import TagTour
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.tour import Counts, Due, Tour, branch_folders, make_tour, states_of
from lakesweep.control.state import BranchState
from lakesweep.model.table_ref import MAIN
from lakesweep.operations.context import Table
from lakesweep.operations.shortcut import clock_ms
from lakesweep.plan.auto_tags import CLOCK_MARGIN_MS

COUNTS = Counts(tables="TablesAskedForTags", due="TablesWithTagsDue", max_lag="MaxTagLagSeconds")


def tag_tour(runtime: Runtime, message: TagTour, context: Context) -> Tour:
    """Ask every table after `message.cursor`, as long as there is time; then hand the rest on.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: A folder could not be listed, or the policy not be read.
    """
    return make_tour(runtime, message, context, COUNTS, _tags_due)


def _tags_due(table: Table, changes: bool) -> Iterator[Due]:
    """Yield the branches whose tags are due by the clock of the control location's store."""
    states = states_of(table)
    now_ms = clock_ms(table)
    due = {branch: state for branch, state in states.items() if _is_due(state, now_ms, changes)}
    if due.keys() - {MAIN}:
        there = branch_folders(table.store) | {MAIN}  # a pass over a branch that was dropped would be refused each time
        due = {branch: state for branch, state in due.items() if branch.partition("/")[0] in there}
    for branch, state in sorted(due.items()):
        # Without a time somebody has changed tags by hand since the last pass.
        yield branch, now_ms - state.tags_due_ms if state.tags_due_ms else None


def _is_due(state: BranchState, now_ms: int, changes: bool) -> bool:
    """Tell whether a pass is to be asked for.

    Not before the time in which the pass would still leave a tag to a commit. Where passes only plan, what is due stays
    due, and one pass that says so is enough.
    """
    return state.tags_due_ms + CLOCK_MARGIN_MS <= now_ms and (changes or state.checked_ms < state.tags_due_ms)
