"""What a pass leaves for the next: the state by which `runs/pass_state.py` may skip it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from lakesweep.control.state import (
    NEVER_MS,
    BranchState,
    always_due,
    commits_due,
    read_states,
    tags_alone,
    without_commits,
    without_tags,
    write_state,
)
from lakesweep.errors import FormatError, MaintenanceError
from lakesweep.model.commits.lost import Looked
from lakesweep.model.commits.seen import SeenSnapshot
from lakesweep.model.identity import Identity, number_of
from lakesweep.model.plan import PlanHeader
from lakesweep.model.report import RunReport
from lakesweep.model.roots import MAIN, branch_dir
from lakesweep.model.safety import STATE_AHEAD_MS, TAGS_SEEN_EVERY_MS
from lakesweep.runs.pass_state import clock_ms
from lakesweep.runs.session import Table

Compare = Callable[[BranchState | None, Iterable[SeenSnapshot]], Looked]
"""Compares a listing with what the last pass saw of the branch's newest snapshots, and of those of other branches."""
MAX_WALK = 50
"""After this many snapshots that make no tag, a write of the state is worth its cost."""


@dataclass(frozen=True, slots=True)
class TagNote:
    """The facts of a pass about the tags of a branch that has tags, or makes them."""

    seen_ms: int
    """When the pass looked. Another program may make a tag with an earlier end, so tags are looked at once a day."""
    facts: Mapping[str, int] = field(default_factory=dict)
    """Numbers of `BranchState`, by name."""

    def on(self, state: BranchState) -> BranchState:
        """Return the state with these facts."""
        due_ms = min(self.facts.get("tags_due_ms", NEVER_MS), self.seen_ms + TAGS_SEEN_EVERY_MS)
        facts: dict[str, Any] = {**self.facts, "tags_due_ms": due_ms}
        return replace(without_tags(state), **facts)


@dataclass(frozen=True, slots=True)
class CommitNote:
    """The facts of a pass about one of the steps that commit."""

    facts: Mapping[str, int]
    """Numbers of `BranchState`, by name."""
    is_new: bool = True
    """The state of the branch has other facts, so they are worth a write."""

    def on(self, state: BranchState) -> BranchState:
        """Return the state with these facts."""
        facts: dict[str, Any] = dict(self.facts)
        return replace(state, **facts)


def remember(
    table: Table,
    steps: Sequence[RunReport],
    identity: Identity,
    note: TagNote | None = None,
    *,
    commits: Sequence[CommitNote] = (),
    keeps_time: bool = False,
    compare: Compare | None = None,
) -> Looked:
    """Keep the findings of a pass, if they could let the next pass be skipped. Return what happened to snapshots.

    Args:
        table: One branch of a table, with its control location.
        steps: The reports of the pass, without the steps on tags and those that commit.
        identity: The identity of the branch, as the pass saw it.
        note: The findings of the steps on tags, `None` if there were none.
        commits: The facts about each step that commits, if the branch has it.
        keeps_time: Keep the time of each pass, even of a pass that only planned.
        compare: Compares what the pass listed with what was seen before.
    """
    settled = {"done", "nothing_to_do", "planned"} if keeps_time else {"done", "nothing_to_do"}
    if table.area is None or not identity:
        return Looked()
    state = None if any(step.told_status not in settled for step in steps) else _state_after(steps)
    # If the next commit needs a pass in any case, only facts about tags are worth a write: tags wait for no commit.
    is_worth_it = state is not None and (keeps_time or state.retains_all(state.latest_id + 1, state.checked_ms))
    has_news = any(each.is_new for each in commits)
    is_asked = is_worth_it or keeps_time or note is not None or has_news
    if not is_asked and not _compared(table, compare).has_news:
        return Looked()
    try:
        states = read_states(table.area)
    except FormatError:
        states = {}
    known = states.get(table.ref.branch)
    if known is not None and known.identity not in (0, identity.number):
        # The state is of a former table, or of a former branch. If main changed, so did all branches.
        known, states = None, {} if table.ref.branch == MAIN else states
    looked = _compared(table, compare, known, states)
    is_refused = state is None and note is None and not commits
    state = replace(
        state or known or always_due(0, 0),
        first_schema=identity.schema_id,
        identity=identity.number,
        rewritten_ms=0 if known is None else known.rewritten_ms,
        newest=looked.newest,
        judged=looked.judged,
    )
    if is_refused:  # all else is as it was
        if state != known:
            write_state(table.area, {**states, table.ref.branch: state})
        return looked
    if note is not None:
        state = note.on(state)
    elif known is not None and known.tags_due_ms > state.checked_ms:
        # Another program may have made a tag since this pass listed none.
        state = replace(state, tags_due_ms=min(state.tags_due_ms, known.tags_due_ms))
    state = without_commits(state)
    for each in commits:
        state = each.on(state)
    if any(commit.is_ours for commit in looked.lost):
        state = commits_due(state)  # what the lost commit did is left to do
    if (
        known is None
        or keeps_time
        or has_news
        or looked.has_news
        or (_differs(known, state) if is_worth_it else _hides_tags(known, state, note))
    ):
        write_state(table.area, {**states, table.ref.branch: state})
    return looked


def _compared(
    table: Table,
    compare: Compare | None,
    known: BranchState | None = None,
    states: Mapping[str, BranchState] = MappingProxyType({}),
) -> Looked:
    """Compare what was seen of a branch with the listing of the pass. If a request fails, the next pass compares."""
    left = Looked() if known is None else Looked(known.newest, known.judged)
    if compare is None:
        return left
    try:
        return compare(
            known, [seen for name, each in states.items() if name != table.ref.branch for seen in each.newest]
        )
    except MaintenanceError as error:
        sentence = (
            f"table {table.ref}: the newest snapshots were not compared with those that were seen before: {error}"
        )
        return replace(left, warnings=(sentence,))


def _differs(known: BranchState, state: BranchState) -> bool:
    """Tell whether two states differ. A different time alone does not count, unless it would hide a due tag."""
    known_facts, facts = (replace(each, checked_ms=0, tags_due_ms=0, newest=()) for each in (known, state))
    return known_facts != facts or _is_late(known, state)


def _hides_tags(known: BranchState, state: BranchState, note: TagNote | None) -> bool:
    """Tell whether the known facts about tags are out of date, or would make the next pass read much."""
    return (
        _is_late(known, state)
        or (note is not None and known.tags_due_ms <= note.seen_ms)
        or known.identity != state.identity
        or (known.tag_rules, known.tag_watermark, known.tag_commits, known.tag_next_ms)
        != (state.tag_rules, state.tag_watermark, state.tag_commits, state.tag_next_ms)
        or abs(state.tag_next_snapshot - known.tag_next_snapshot) >= MAX_WALK
    )


def _is_late(known: BranchState, state: BranchState) -> bool:
    is_late = known.tags_due_ms > state.tags_due_ms or known.tags_due_ms <= state.checked_ms
    return is_late or known.is_ahead(state.checked_ms) or known.is_over(state.checked_ms)


def invalidate(table: Table, branch: str) -> None:
    """Invalidate the state of the last pass over a branch, so that the next pass looks.

    Args:
        table: Any branch of the table, with its control location.
        branch: The branch.
    """
    if (states := _readable_states(table)) is not None and branch in states:
        _put_in_place(table, states, branch, tags_alone(states[branch]))


def moved_from(table: Table, branch: str, *, keeps_tags: bool) -> None:
    """Invalidate the state of a branch that Lakesweep rewrites now. Its snapshots become others, and no commit is lost.

    Args:
        table: Any branch of the table, with its control location.
        branch: The branch.
        keeps_tags: It is rolled back, so the facts about tags are still valid.
    """
    if (states := _readable_states(table)) is None:
        return
    left = tags_alone(states.get(branch) or always_due(0, 0))
    # Another branch may be made or deleted by this. A state would have each sweep ask for one that is gone.
    rewritten_ms = clock_ms(table) if keeps_tags or branch == MAIN else 0
    left = replace(left if keeps_tags else without_tags(left), rewritten_ms=rewritten_ms, newest=(), judged=())
    _put_in_place(table, states, branch, left)


def _readable_states(table: Table) -> dict[str, BranchState] | None:
    """Return the states of all branches; `None`: nobody keeps them, or the document is damaged and answers nothing."""
    try:
        return None if table.area is None else read_states(table.area)
    except FormatError:
        return None


def _put_in_place(table: Table, states: dict[str, BranchState], branch: str, left: BranchState) -> None:
    after = {name: state for name, state in states.items() if name != branch}
    if left.tags_due_ms < NEVER_MS or left.newest or left.rewritten_ms:
        after[branch] = left
    if table.area is not None and after != states:
        write_state(table.area, after)


def note_refusal(table: Table, is_refused: bool) -> None:
    """Note since when every pass over a branch was refused, or that the last one was not.

    A pass that was not refused usually does so with its state (`remember`), and this then costs one read. A time that
    lies ahead is noted anew: by a clock that was wrong, nobody would hear of the refusals until then.
    """
    if table.area is None:
        return
    try:
        states = read_states(table.area)
    except FormatError:
        states = {}
    known = states.get(table.ref.branch) or always_due(0, 0)
    now_ms = clock_ms(table)
    is_ahead = known.refused_ms - now_ms > STATE_AHEAD_MS
    if is_refused != bool(known.refused_ms) or is_ahead:
        noted = replace(known, refused_ms=now_ms if is_refused else 0)
        write_state(table.area, {**states, table.ref.branch: noted})


def wants_more(step: RunReport) -> bool:
    """Tell whether an executed step left work that is already due, because a pass has a limit."""
    if step.status != "done" or step.plan is None or "limit" not in step.plan.header.next_pass:
        return False
    state = _state_of(step.plan.header)
    return state is not None and not state.retains_all(state.latest_id, state.checked_ms)


def _state_after(steps: Sequence[RunReport]) -> BranchState | None:
    """Return the state that a completed pass leaves for the next.

    Only a single executed step records its retention. In other cases only the time of the pass counts.
    """
    headers = [step.plan.header for step in steps if step.plan is not None]
    if len(headers) == len(steps) == 1 and headers[0].next_pass and steps[0].status != "planned":
        return _state_of(headers[0])
    known = [(latest, header) for header in headers if isinstance(latest := header.snapshots.get("latest"), int)]
    if not known:
        return None
    # A later step may have listed the table again. A commit that an earlier step did not see still needs a pass.
    latest_id, header = min(known, key=lambda found: (found[0], found[1].created_ms))
    return _seen(always_due(latest_id, min(header.created_ms for header in headers)), header)


def _state_of(header: PlanHeader) -> BranchState | None:
    """Return the state in a plan, `None` if a stored plan has fields that this version does not know."""
    facts: dict[str, Any] = dict(header.next_pass)
    try:
        return _seen(BranchState(**facts), header)
    except TypeError:
        return None


def _seen(state: BranchState, header: PlanHeader) -> BranchState:
    """Return the state with the identity of its newest snapshot, as the plan saw it."""
    etag = header.roots_seen.get(f"{branch_dir(header.branch)}snapshot/snapshot-{state.latest_id}")
    return replace(state, latest_number=0 if etag is None else number_of(etag))
