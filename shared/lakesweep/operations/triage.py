"""Sort commits: which of them ask for a pass, and which tables a sweep finds waiting.

Events come late, doubled and in any order, and most commits need nothing. So before a pass is asked for, the state of
the last one is held against the commit. What is sorted out wrongly is found by the next sweep: sorting decides when a
table is looked at, never what goes.
"""

from dataclasses import dataclass

from lakesweep.control.state import BranchState
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.model.table_ref import branch_dir
from lakesweep.operations.context import Table
from lakesweep.operations.shortcut import answers, clock_ms, last_pass, latest_hint
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

CLOCK_ERROR_MS = 5_000
"""So far two readings of a store's clock may differ. A state that is younger than now by more makes nobody wait."""


@dataclass(frozen=True, slots=True)
class Triage:
    """What a commit asks for."""

    is_due: bool
    """A pass; else nothing, or nothing yet."""
    wait_ms: int = 0
    """When above 0: ask again after this time, since the last pass is not long enough ago."""


_DUE, _HANDLED = Triage(True), Triage(False)


def triage(table: Table, committed_id: int, min_interval_ms: int) -> Triage:
    """Sort one commit. A doubled event costs one read, a commit that needs nothing three.

    Args:
        table: One branch of a table, with its control location.
        committed_id: The snapshot that an event told of.
        min_interval_ms: Passes are this far apart at least.
    """
    state = last_pass(table)
    if state is None:
        return _DUE
    if state.is_over(clock_ms(table)):
        return _later(state, clock_ms(table), min_interval_ms) or _DUE
    has_asked = not state.asks_commits or committed_id < state.tag_next_snapshot
    if committed_id == state.latest_id and has_asked and not are_tags_due(table, state):
        return _HANDLED
    if committed_id < state.latest_id:
        newest = latest_hint(table)
        if newest is not None and newest >= state.latest_id and not are_tags_due(table, state):
            return _HANDLED  # a late event; otherwise a rollback has been here
        return _later(state, clock_ms(table), min_interval_ms) or _DUE
    later = _later(state, clock_ms(table), min_interval_ms)
    if later is not None:
        return later
    return _HANDLED if answers(table, state, committed_id, told=True) else _DUE


def are_tags_due(table: Table, state: BranchState) -> bool:
    """Tell whether the clock makes a tag of a branch due, or lets one go."""
    return clock_ms(table) >= state.tags_due_ms


def _later(state: BranchState, now_ms: int, min_interval_ms: int) -> Triage | None:
    since_ms = now_ms - state.checked_ms
    wait_ms = min_interval_ms - max(since_ms, 0)
    return Triage(False, wait_ms) if since_ms >= -CLOCK_ERROR_MS and wait_ms > 0 else None


@dataclass(frozen=True, slots=True)
class Lag:
    """A branch that a pass is due for."""

    latest_id: int
    """The newest snapshot, as its hint says."""
    lag_ms: int | None
    """How long it has been due; `None` for one that has never been maintained."""


def lag_of(table: Table, state: BranchState | None) -> Lag | None:
    """Return how long a pass over a branch has been due, `None` when none is. Costs four reads at most.

    A branch without a LATEST hint has no snapshot, or none that a reader finds quickly; events tell of it.
    """
    newest = latest_hint(table)
    if newest is None:
        return None
    if state is None or state.checked_ms == 0:
        return Lag(newest, None)
    if answers(table, state, newest):
        return None
    now_ms = clock_ms(table)
    if newest == state.latest_id:
        # Of tags and retention, what is due longest. Where only the state is over, no commit waits.
        since = [] if state.retains_all(newest, now_ms) else [state.first_old_from_ms]
        since += [state.tags_due_ms] if now_ms >= state.tags_due_ms else []
        since_ms = max(min(since, default=now_ms), state.checked_ms)
    else:
        time_ms = _commit_time_ms(table, state.latest_id + 1) or _commit_time_ms(table, newest) or state.checked_ms
        since_ms = max(time_ms, state.checked_ms)
    return Lag(newest, max(0, now_ms - since_ms))


def _commit_time_ms(table: Table, snapshot_id: int) -> int | None:
    path = f"{branch_dir(table.ref.branch)}snapshot/snapshot-{snapshot_id}"
    try:
        return parse_snapshot(table.store.read(path, MAX_DOCUMENT_BYTES).data, path).time_ms
    except (ObjectNotFoundError, FormatError):
        return None
