"""The table sweeps that request passes over the branches for which one is due.

The *sweep* finds work for which no event arrived, or whose event was lost. It asks for each table whether a pass is
due. This costs a listing of its branches and at most five small reads.

The table sweep for *tags*: a tag may become due or expire without a commit, and then no event arrives. Each pass stores
when the tags of its branch are next due. So this table sweep costs one small read per table, and more only if a tag is
due. It does not create or delete tags. It requests a pass, which checks again. It does not request a pass over a branch
that no pass has seen: the sweep finds such a branch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lakesweep.aws.messages import Hint, Sweep, TagSweep
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.aws.sweeps.tables import Ask, Counts, TableSweep, sweep_tables
from lakesweep.control.state import BranchState, read_states
from lakesweep.errors import FormatError
from lakesweep.format.names import branch_name_of
from lakesweep.model.roots import MAIN
from lakesweep.model.safety import CLOCK_MARGIN_MS
from lakesweep.operations.maintenance.triage import lag_of
from lakesweep.runs.execution import require_area
from lakesweep.runs.pass_state import clock_ms
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store

LAGGING = Counts("TablesSwept", "TablesLagging", "MaxLagSeconds", max_refused="MaxRefusedSeconds")
TAGS_DUE = Counts("TablesAskedForTags", "TablesWithTagsDue", "MaxTagLagSeconds")
TOLD_AFTER_MS = 86_400_000
"""A branch all of whose passes are refused for so long is named in the log."""


@dataclass(frozen=True, slots=True)
class Due:
    """A branch for which a pass is due."""

    branch: str
    lag_ms: int | None
    """For how long it has been due, if known."""
    refused_ms: int = 0
    """For how long every pass was refused."""


Question = Callable[[Table, bool], Iterator[Due]]
"""Yields the branches of a table for which a pass is due. The flag tells whether passes change the table or only plan.
"""


def sweep(runtime: Runtime, message: Sweep, context: Context) -> TableSweep:
    """Visit every table after `message.cursor` while time is left; see `sweep_tables`."""
    return sweep_tables(runtime, message, context, _passes(_lagging), LAGGING)


def tag_sweep(runtime: Runtime, message: TagSweep, context: Context) -> TableSweep:
    """Visit every table after `message.cursor` while time is left; see `sweep_tables`."""
    return sweep_tables(runtime, message, context, _passes(_tags_due), TAGS_DUE)


def _passes(question: Question) -> Ask:
    """Request a pass over each branch of a table for which one is due."""

    def ask(runtime: Runtime, table: Table, changes: bool) -> Iterator[TableSweep]:
        for due in question(table, changes):
            runtime.queues.ask_for_pass(Hint(table.ref.location, due.branch))
            if due.refused_ms >= TOLD_AFTER_MS:
                hours = due.refused_ms // 3_600_000
                facts = {"table": table.ref.location, "branch": due.branch, "hours": hours}
                runtime.telemetry.warn("every pass over the branch is refused", **facts)
            yield TableSweep(due=1, max_lag_ms=(due.lag_ms or 0) if changes else 0, max_refused_ms=due.refused_ms)

    return ask


def _lagging(table: Table, _: bool) -> Iterator[Due]:
    """Yield the branches that lag behind.

    This includes every branch that has a folder: the event of a new branch's first commit may be lost, too.
    """
    states = states_of(table)
    for branch in (MAIN, *sorted((branch_folders(table.store) | states.keys()) - {MAIN})):
        state = states.get(branch)
        lag = lag_of(replace(table, ref=replace(table.ref, branch=branch)), state)
        if lag is not None:
            since_ms = 0 if state is None else state.refused_ms
            yield Due(branch, lag.lag_ms, max(0, clock_ms(table) - since_ms) if since_ms else 0)


def _tags_due(table: Table, changes: bool) -> Iterator[Due]:
    """Yield the branches whose tags are due, by the caller's own clock."""
    states = states_of(table)
    now_ms = clock_ms(table)
    due = {branch: state for branch, state in states.items() if _is_due(state, now_ms, changes)}
    if due.keys() - {MAIN}:
        there = branch_folders(table.store) | {MAIN}  # a pass over a deleted branch would be refused each time
        due = {branch: state for branch, state in due.items() if branch.partition("/")[0] in there}
    for branch, state in sorted(due.items()):
        # If no time is stored, a manual operation has changed tags since the last pass.
        yield Due(branch, now_ms - state.tags_due_ms if state.tags_due_ms else None)


def _is_due(state: BranchState, now_ms: int, changes: bool) -> bool:
    """Tell whether a pass has to be requested.

    For a margin after the due time a pass leaves the tag to a commit, so none is requested. If passes only plan, a
    due tag remains due, so one pass that reports it is enough.
    """
    return state.tags_due_ms + CLOCK_MARGIN_MS <= now_ms and (changes or state.checked_ms < state.tags_due_ms)


def states_of(table: Table) -> dict[str, BranchState]:
    """Return the state of each branch of a table; none if the states cannot be read, since passes write them again."""
    try:
        return read_states(require_area(table))
    except FormatError:
        return {}


def branch_folders(store: Store) -> set[str]:
    """Return the branches that have a folder. A branch with a slash in its name is not found here, only by a pass."""
    found = map(branch_name_of, store.folders("branch/"))
    return {name for name in found if name is not None}
