"""The shortcut of the pass after a commit: the state of the last pass may already show that this commit needs nothing.

It can only skip work, never cause any. An event comes for every commit, and most commits need nothing. So the state of
the last pass, the newest snapshot and the newest schema answer the question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakesweep.control.state import (
    NEVER_MS,
    BranchState,
    always_due,
    read_states,
    tags_alone,
    without_tags,
    write_state,
)
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.names import schema_id_of
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.model.identity import Identity, first_of, identity_of, number_of
from lakesweep.model.report import RunReport
from lakesweep.model.roots import BranchListing
from lakesweep.model.safety import TAGS_SEEN_EVERY_MS
from lakesweep.model.table_ref import MAIN, branch_dir
from lakesweep.runs.session import Table
from lakesweep.table.discover import discover
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_hint

MAX_PROBES = 4
"""This many commits after the newest known one are followed one by one. After more, a complete pass is due anyway."""
MAX_WALK = 50
"""After this many snapshots that make no tag, a write of the state is worth its cost."""


def needs_nothing(table: Table, min_interval_ms: int, committed_id: int | None) -> bool:
    """Tell whether the state of the last pass shows that nothing is due.

    Args:
        table: One branch of a table, with its control location.
        min_interval_ms: A pass more recent than this is enough.
        committed_id: The snapshot that an event reported, if any.
    """
    state = last_pass(table)
    if state is None:
        return False
    if 0 <= clock_ms(table) - state.checked_ms < min_interval_ms:
        return True
    newest = committed_id if committed_id is not None else latest_hint(table)
    return newest is not None and answers(table, state, newest, told=committed_id is not None)


def last_pass(table: Table) -> BranchState | None:
    """Return the state that the last pass over a branch left, if any."""
    state = known_state(table)
    return None if state is None or state.checked_ms == 0 else state


def known_state(table: Table) -> BranchState | None:
    """Return the stored state of a branch, even if it is about tags alone."""
    if table.area is None:
        return None
    try:
        return read_states(table.area).get(table.ref.branch)
    except FormatError:
        return None


def clock_ms(table: Table) -> int:
    """Return the time of the store that has just answered; another store would cost a request."""
    return table.store.now_ms() if table.area is None else table.area.store.now_ms()


def latest_hint(table: Table) -> int | None:
    """Return the id in the branch's LATEST, `None` without that hint."""
    return read_hint(table.store, f"{branch_dir(table.ref.branch)}snapshot/LATEST")


def answers(table: Table, state: BranchState, newest: int, *, told: bool = False) -> bool:
    """Tell whether the state of the last pass shows that nothing is due now.

    Args:
        table: One branch of a table.
        state: The state of the last pass.
        newest: The newest snapshot that the caller knows; the snapshots right after it are looked for.
        told: An event reported it, so LATEST was not read. That saves a request, and two small reads cost less than a
            listing.
    """
    folder = branch_dir(table.ref.branch)
    now_ms = clock_ms(table)
    if state.is_over(now_ms) or not state.identity:
        return False
    if newest < state.latest_id:
        return False  # a rollback happened, so a pass must look
    if not state.wants_nothing(newest, now_ms):
        return False  # a newer snapshot would need a pass as well
    for _ in range(MAX_PROBES):
        if not _exists(table, f"{folder}snapshot/snapshot-{newest + 1}"):
            if not (_is_unaltered if told else _lists_unaltered)(table, state, f"{folder}schema/schema-"):
                return False
            return state.wants_nothing(newest, now_ms) and not _makes_tag(table, state, newest)
        newest += 1
    return False


def _is_unaltered(table: Table, state: BranchState, schema: str) -> bool:
    """Tell whether a branch has the same first and last schema. Asks for one schema that exists and one that does not.

    Args:
        table: One branch of a table.
        state: The state of the last pass.
        schema: The path of a schema up to its id.
    """
    if _exists(table, f"{schema}{state.schema_id + 1}"):
        return False
    try:
        first = table.store.read(f"{schema}{state.first_schema}", MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return False
    return number_of(first.etag) == state.identity


def _lists_unaltered(table: Table, state: BranchState, schema: str) -> bool:
    """Tell the same with one listing."""
    folder = schema.removesuffix("schema-")
    listed = ((schema_id_of(entry.key.removeprefix(folder)), entry.etag) for entry in table.store.list(folder))
    found = [(schema_id, etag) for schema_id, etag in listed if schema_id is not None]
    return _is_known(state, first_of(found)) and max(found)[0] == state.schema_id


def _is_known(state: BranchState, found: Identity) -> bool:
    """Tell whether a state is about the branch that exists now."""
    return bool(found) and (state.first_schema, state.identity) == (found.schema_id, found.number)


def _makes_tag(table: Table, state: BranchState, newest: int) -> bool:
    """Tell whether the newest commit's document makes a tag due.

    After a step has changed a table, the pass lists it again. So it may have seen a commit after it made tags.
    """
    if not state.asks_commits or newest < state.tag_next_snapshot:
        return False
    path = f"{branch_dir(table.ref.branch)}snapshot/snapshot-{newest}"
    try:
        return state.is_tag_due(parse_snapshot(table.store.read(path, MAX_DOCUMENT_BYTES).data, path))
    except (ObjectNotFoundError, FormatError):
        return True  # a pass reports the problem


def answered_branches(table: Table, min_interval_ms: int) -> Mapping[str, bool]:
    """Tell for every branch whether the last pass answers this one. Without a state of main, return nothing.

    This costs the state and at most four listings of `discover`, however many branches there are. The listings show the
    same as the requests of `needs_nothing`.

    Raises:
        RefusedError: There may be roots that a listing does not show.
        StorageError: A request failed.
    """
    if table.area is None:
        return {}
    try:
        states = read_states(table.area)
    except FormatError:
        return {}
    if MAIN not in states:
        return {}
    listing = discover(table.store, ("snapshot", "branch", "schema"))
    return {
        own.name: own.name in states
        and _answers(replace(table, ref=replace(table.ref, branch=own.name)), states[own.name], own, min_interval_ms)
        for own in listing.branches.values()
        if own.schemas or own.snapshots
    }


def _answers(table: Table, state: BranchState, own: BranchListing, min_interval_ms: int) -> bool:
    now_ms = table.store.now_ms()
    if state.checked_ms == 0:
        return False
    if 0 <= now_ms - state.checked_ms < min_interval_ms:
        return True
    if state.is_over(now_ms) or not _is_known(state, identity_of(own)):
        return False
    if not own.snapshots or own.schemas[-1].name != str(state.schema_id):
        return False
    newest = own.snapshots[-1].id
    if newest < state.latest_id or not state.wants_nothing(newest, now_ms):
        return False
    return not _makes_tag(table, state, newest)


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


def remember(
    table: Table,
    steps: Sequence[RunReport],
    identity: Identity,
    note: TagNote | None = None,
    *,
    keeps_time: bool = False,
) -> None:
    """Keep the findings of a pass, if they could let the next pass be skipped.

    Args:
        table: One branch of a table, with its control location.
        steps: The reports of the pass, without the steps on tags.
        identity: The identity of the branch, as the pass saw it.
        note: The findings of the steps on tags, `None` if there were none.
        keeps_time: Keep the time of each pass, even of a pass that only planned.
    """
    settled = {"done", "nothing_to_do", "planned"} if keeps_time else {"done", "nothing_to_do"}
    if table.area is None or not identity:
        return
    state = None if any(step.told_status not in settled for step in steps) else _state_after(steps)
    # If the next commit needs a pass in any case, only facts about tags are worth a write: tags wait for no commit.
    is_worth_it = state is not None and (keeps_time or state.retains_all(state.latest_id + 1, state.checked_ms))
    if not is_worth_it and note is None:
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
    if known is None or keeps_time or (_differs(known, state) if is_worth_it else _hides_tags(known, state, note)):
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


def doubt(table: Table, branch: str, *, keeps_tags: bool = True) -> None:
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


def wants_more(step: RunReport) -> bool:
    """Tell whether an executed step left work that is already due, because a pass has a limit."""
    if step.status != "done" or step.plan is None or "limit" not in step.plan.header.next_pass:
        return False
    state = _state_of(step.plan.header.next_pass)
    return state is not None and not state.retains_all(state.latest_id, state.checked_ms)


def _state_after(steps: Sequence[RunReport]) -> BranchState | None:
    """Return the state that a completed pass leaves for the next.

    Only a single executed step records its retention. In other cases only the time of the pass counts.
    """
    headers = [step.plan.header for step in steps if step.plan is not None]
    if len(headers) == len(steps) == 1 and headers[0].next_pass and steps[0].status != "planned":
        return _state_of(headers[0].next_pass)
    latest = [header.snapshots.get("latest") for header in headers]
    ids = [found for found in latest if isinstance(found, int)]
    return always_due(max(ids), min(header.created_ms for header in headers)) if ids else None


def _state_of(next_pass: Mapping[str, int]) -> BranchState | None:
    """Return the state in a plan, `None` if a stored plan has fields that this version does not know."""
    try:
        return BranchState(**next_pass)
    except TypeError:
        return None


def _exists(table: Table, key: str) -> bool:
    try:
        table.store.read(key)
    except ObjectNotFoundError:
        return False
    return True
