"""Triage of commits: decide which commits need a pass, and which tables a sweep must report as waiting.

Events come late, twice and in any order, and most commits need nothing. So Lakesweep compares the commit with the state
of the last pass before it asks for a pass. The next sweep finds what the triage decided wrongly. The triage decides
when a pass looks at a table, never what is deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lakesweep.control.state import NEVER_MS, BranchState, without_commits
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.model.commits.seen import Announced
from lakesweep.model.identity import number_of
from lakesweep.model.roots import branch_dir
from lakesweep.model.safety import CLOCK_ERROR_MS
from lakesweep.runs.pass_state import (
    answers,
    clock_ms,
    is_latest_there,
    last_pass,
    latest_hint,
    newest_listed,
    newest_since,
)
from lakesweep.runs.session import Table
from lakesweep.table.documents import MAX_DOCUMENT_BYTES


@dataclass(frozen=True, slots=True)
class Triage:
    """The decision about a commit."""

    is_due: bool
    """A pass is due now; otherwise nothing, or nothing yet."""
    wait_ms: int = 0
    """If above 0: ask again after this time, since the last pass is too recent."""
    state: BranchState | None = field(default=None, compare=False)
    """The state of the last pass, if there is one."""


_DUE, _HANDLED = Triage(True), Triage(False)


def triage(
    table: Table,
    committed_id: int,
    min_interval_ms: int,
    etag: str | None = None,
    announced: Sequence[Announced] = (),
) -> Triage:
    """Decide about one commit. A repeated event costs one read, a commit that needs nothing costs four.

    Args:
        table: One branch of a table, with its control location.
        committed_id: The snapshot that an event reported.
        min_interval_ms: The least time between two passes.
        etag: The ETag of this snapshot, if the event had it. Without it, a repeated event costs two reads.
        announced: This commit and others, as events announced them. If another snapshot has the id of one, a pass must
            look what happened.
    """
    state = last_pass(table)
    if state is None:
        return _DUE
    return replace(_compared(table, state, committed_id, min_interval_ms, etag, announced), state=state)


def _compared(
    table: Table,
    state: BranchState,
    committed_id: int,
    min_interval_ms: int,
    etag: str | None,
    announced: Sequence[Announced],
) -> Triage:
    if state.is_over(clock_ms(table)):
        return _later(state, clock_ms(table), min_interval_ms) or _DUE
    is_repeated, is_same = committed_id == state.latest_id, not _are_suspect(state, announced)
    if is_same and committed_id <= state.latest_id and not is_due_by_clock(table, state):
        # An event of a snapshot that was replaced may come again. That one was told.
        tells = is_repeated and etag is not None and (committed_id, number_of(etag)) not in state.judged
        is_same = state.is_latest(etag) if tells else is_latest_there(table, state)
        has_asked = not state.asks_commits or committed_id < state.tag_next_snapshot
        if is_same and (has_asked or not is_repeated):
            return _HANDLED  # the event is late or repeated; otherwise a rollback has happened
    later = _later(state, clock_ms(table), min_interval_ms)
    if later is not None:
        return later
    if committed_id < state.latest_id or not is_same:
        return _DUE
    return _HANDLED if answers(table, state, committed_id, told=True, announced=announced) else _DUE


def _are_suspect(state: BranchState, announced: Sequence[Announced]) -> bool:
    """Tell whether events show that one snapshot took the place of another."""
    told = {each.seen.key for each in announced} - set(state.judged)
    return len({snapshot_id for snapshot_id, _ in told}) < len(told) or any(map(state.contradicts, announced))


def is_due_by_clock(table: Table, state: BranchState) -> bool:
    """Tell whether the clock makes a tag of a branch due, or ends one, or makes a step look whether to commit."""
    now_ms = clock_ms(table)
    return now_ms >= state.tags_due_ms or state.is_commit_due(state.latest_id, now_ms)


def _later(state: BranchState, now_ms: int, min_interval_ms: int) -> Triage | None:
    since_ms = now_ms - state.checked_ms
    wait_ms = min_interval_ms - max(since_ms, 0)
    return Triage(False, wait_ms) if since_ms >= -CLOCK_ERROR_MS and wait_ms > 0 else None


@dataclass(frozen=True, slots=True)
class Lag:
    """A branch with a pass that is due."""

    latest_id: int
    """The newest snapshot, from its hint."""
    lag_ms: int | None
    """How long the pass has been due; `None`: the branch was never maintained."""


def lag_of(table: Table, state: BranchState | None) -> Lag | None:
    """Return how long a pass over a branch has been due, `None` if none is due. Costs a listing and at most six reads.

    A branch without a LATEST hint has no snapshot, or its snapshots are not found quickly. Until the first pass, events
    report its commits.
    """
    if state is None or state.checked_ms == 0:
        newest = latest_hint(table)
        return None if newest is None else Lag(newest, None)
    newest = newest_since(table, state)
    now_ms = clock_ms(table)
    if newest is not None:
        if answers(table, state, newest):
            return None
        if state.is_commit_due(newest, now_ms) and answers(table, without_commits(state), newest):
            # The commits themselves needed nothing, however long ago the first of them was.
            return Lag(newest, max(0, now_ms - max(_commit_due_ms(table, state, newest, now_ms), state.checked_ms)))
    checked_ms = 0 if state.is_ahead(now_ms) else state.checked_ms
    if newest == state.latest_id:
        # The time is the earliest of what is due for tags and retention. If only the state is old, no commit waits.
        since = [] if state.retains_all(newest, now_ms) else [state.first_old_from_ms]
        since += [state.tags_due_ms] if now_ms >= state.tags_due_ms else []
        since_ms = max(min(since, default=now_ms), checked_ms)
    else:
        if newest is None and (newest := latest_hint(table) or newest_listed(table)) is None:
            return None  # the branch is gone
        time_ms = _commit_time_ms(table, state.latest_id + 1) or _commit_time_ms(table, newest) or checked_ms or now_ms
        since_ms = max(time_ms, checked_ms)
    return Lag(newest, max(0, now_ms - since_ms))


def _commit_due_ms(table: Table, state: BranchState, newest: int, now_ms: int) -> int:
    """Return since when a pass over a branch may have to commit.

    A check waits for its interval, and then for a commit. So after a silence it is due only since that commit.
    """
    due_ms = []
    if state.are_partitions_due(newest, now_ms):
        by_commit = newest > state.partition_snapshot
        commit_ms = (_commit_time_ms(table, state.partition_snapshot + 1) or 0) if by_commit else 0
        due_ms.append(max(state.partitions_due_ms(newest), commit_ms))
    if state.are_manifests_due(newest, now_ms):
        due_ms.append(max(state.manifest_from_ms + 1, _commit_time_ms(table, state.manifest_snapshot) or 0))
    if state.are_files_due(newest, now_ms):
        commit_ms = _commit_time_ms(table, state.files_snapshot) or 0 if newest >= state.files_snapshot else NEVER_MS
        due_ms.append(min(state.files_next_ms, max(state.files_from_ms + 1, commit_ms)))
    return min(due_ms, default=now_ms)


def _commit_time_ms(table: Table, snapshot_id: int) -> int | None:
    path = f"{branch_dir(table.ref.branch)}snapshot/snapshot-{snapshot_id}"
    try:
        return parse_snapshot(table.store.read(path, MAX_DOCUMENT_BYTES).data, path).time_ms
    except (ObjectNotFoundError, FormatError):
        return None
