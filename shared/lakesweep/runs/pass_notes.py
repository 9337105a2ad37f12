"""What a pass leaves for the next: the state by which `runs/pass_state.py` may skip it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakesweep.control.state import (
    NEVER_MS,
    BranchState,
    always_due,
    read_states,
    tags_alone,
    without_commits,
    without_tags,
    write_state,
)
from lakesweep.errors import FormatError
from lakesweep.model.identity import Identity, number_of
from lakesweep.model.plan import PlanHeader
from lakesweep.model.report import RunReport
from lakesweep.model.roots import MAIN, branch_dir
from lakesweep.model.safety import STATE_AHEAD_MS, TAGS_SEEN_EVERY_MS
from lakesweep.runs.pass_state import clock_ms
from lakesweep.runs.session import Table

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
        return replace(without_tags(state), **{**self.facts, "tags_due_ms": due_ms})


@dataclass(frozen=True, slots=True)
class CommitNote:
    """The facts of a pass about one of the steps that commit."""

    facts: Mapping[str, int]
    """Numbers of `BranchState`, by name."""
    is_new: bool = True
    """The state of the branch has other facts, so they are worth a write."""

    def on(self, state: BranchState) -> BranchState:
        """Return the state with these facts."""
        return replace(state, **self.facts)


def remember(
    table: Table,
    steps: Sequence[RunReport],
    identity: Identity,
    note: TagNote | None = None,
    *,
    commits: Sequence[CommitNote] = (),
    keeps_time: bool = False,
) -> None:
    """Keep the findings of a pass, if they could let the next pass be skipped.

    Args:
        table: One branch of a table, with its control location.
        steps: The reports of the pass, without the steps on tags and those that commit.
        identity: The identity of the branch, as the pass saw it.
        note: The findings of the steps on tags, `None` if there were none.
        commits: The facts about each step that commits, if the branch has it.
        keeps_time: Keep the time of each pass, even of a pass that only planned.
    """
    settled = {"done", "nothing_to_do", "planned"} if keeps_time else {"done", "nothing_to_do"}
    if table.area is None or not identity:
        return
    state = None if any(step.told_status not in settled for step in steps) else _state_after(steps)
    # If the next commit needs a pass in any case, only facts about tags are worth a write: tags wait for no commit.
    is_worth_it = state is not None and (keeps_time or state.retains_all(state.latest_id + 1, state.checked_ms))
    has_news = any(each.is_new for each in commits)
    if not is_worth_it and note is None and not has_news:
        return
    try:
        states = read_states(table.area)
    except FormatError:
        states = {}
    known = states.get(table.ref.branch)
    if known is not None and known.identity not in (0, identity.number):
        # The state is of a former table, or of a former branch. If main changed, so did all branches.
        known, states = None, {} if table.ref.branch == MAIN else states
    state = replace(state or known or always_due(0, 0), first_schema=identity.schema_id, identity=identity.number)
    if note is not None:
        state = note.on(state)
    elif known is not None and known.tags_due_ms > state.checked_ms:
        # Another program may have made a tag since this pass listed none.
        state = replace(state, tags_due_ms=min(state.tags_due_ms, known.tags_due_ms))
    state = without_commits(state)
    for each in commits:
        state = each.on(state)
    if (
        known is None
        or keeps_time
        or has_news
        or (_differs(known, state) if is_worth_it else _hides_tags(known, state, note))
    ):
        write_state(table.area, {**states, table.ref.branch: state})


def _differs(known: BranchState, state: BranchState) -> bool:
    """Tell whether two states differ. A different time alone does not count, unless it would hide a due tag."""
    same = {"checked_ms": 0, "tags_due_ms": 0}
    return replace(known, **same) != replace(state, **same) or _is_late(known, state)


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


def invalidate(table: Table, branch: str, *, keeps_tags: bool = True) -> None:
    """Invalidate the state of the last pass over a branch, so that the next pass looks.

    Args:
        table: Any branch of the table, with its control location.
        branch: The branch.
        keeps_tags: The facts about tags are still valid.
    """
    if table.area is None:
        return
    try:
        states = read_states(table.area)
    except FormatError:
        return  # a damaged document answers for no branch
    if branch not in states:
        return
    left = tags_alone(states[branch])
    after = {name: state for name, state in states.items() if name != branch}
    if keeps_tags and left.tags_due_ms < NEVER_MS:
        after[branch] = left
    if after != states:
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
    latest_id, header = max(known, key=lambda found: (found[0], found[1].created_ms))
    return _seen(always_due(latest_id, min(header.created_ms for header in headers)), header)


def _state_of(header: PlanHeader) -> BranchState | None:
    """Return the state in a plan, `None` if a stored plan has fields that this version does not know."""
    try:
        return _seen(BranchState(**header.next_pass), header)
    except TypeError:
        return None


def _seen(state: BranchState, header: PlanHeader) -> BranchState:
    """Return the state with the identity of its newest snapshot, as the plan saw it."""
    etag = header.roots_seen.get(f"{branch_dir(header.branch)}snapshot/snapshot-{state.latest_id}")
    return replace(state, latest_number=0 if etag is None else number_of(etag))
