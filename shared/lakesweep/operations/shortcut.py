"""The shortcut of the pass after a commit: when the last pass already tells that this commit needs nothing.

It is a shortcut to doing nothing, never to doing something. Events come for every commit, and most commits need
nothing; so the question is answered from the state of the last pass, the newest snapshot and the newest schema.
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
from lakesweep.model.table_ref import MAIN, branch_dir
from lakesweep.operations.context import Table
from lakesweep.table.discover import discover
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_hint

MAX_PROBES = 4
"""So many commits beyond the newest known one are followed one by one; after more, a whole pass is due anyway."""
TAGS_SEEN_EVERY_MS = 86_400_000
"""How long a branch with tags may go without a look at them."""
MAX_WALK = 50
"""After so many snapshots that make no tag it is worth a write to remember that they do not."""


def needs_nothing(table: Table, min_interval_ms: int, committed_id: int | None) -> bool:
    """Tell whether the last pass answers this one.

    Args:
        table: One branch of a table, with its control location.
        min_interval_ms: A pass not longer ago than this is enough.
        committed_id: The snapshot that an event told of, if any.
    """
    state = last_pass(table)
    if state is None:
        return False
    if 0 <= clock_ms(table) - state.checked_ms < min_interval_ms:
        return True
    newest = committed_id if committed_id is not None else latest_hint(table)
    return newest is not None and answers(table, state, newest, told=committed_id is not None)


def last_pass(table: Table) -> BranchState | None:
    """Return what the last pass over a branch left for the next one, if anything."""
    state = known_state(table)
    return None if state is None or state.checked_ms == 0 else state


def known_state(table: Table) -> BranchState | None:
    """Return all that is kept of a branch, be it of its tags alone."""
    if table.area is None:
        return None
    try:
        return read_states(table.area).get(table.ref.branch)
    except FormatError:
        return None


def clock_ms(table: Table) -> int:
    """Return the time by the store that has just answered: another one would have to be asked for it."""
    return table.store.now_ms() if table.area is None else table.area.store.now_ms()


def latest_hint(table: Table) -> int | None:
    """Return the id that LATEST of a branch names, `None` without it."""
    return read_hint(table.store, f"{branch_dir(table.ref.branch)}snapshot/LATEST")


def answers(table: Table, state: BranchState, newest: int, *, told: bool = False) -> bool:
    """Tell whether the last pass says that nothing is to be done now.

    Args:
        table: One branch of a table.
        state: What the last pass left.
        newest: The newest snapshot as far as the caller knows; those right after it are looked for.
        told: An event told of it, so that LATEST was not read: there is a request to spare, and two small reads are
            cheaper than a listing.
    """
    folder = branch_dir(table.ref.branch)
    now_ms = clock_ms(table)
    if state.is_over(now_ms) or not state.identity:
        return False
    if newest < state.latest_id:
        return False  # a rollback: look anew
    if not state.wants_nothing(newest, now_ms):
        return False  # nor would a newer one
    for _ in range(MAX_PROBES):
        if not _exists(table, f"{folder}snapshot/snapshot-{newest + 1}"):
            if not (_is_unaltered if told else _lists_unaltered)(table, state, f"{folder}schema/schema-"):
                return False
            return state.wants_nothing(newest, now_ms) and not _makes_tag(table, state, newest)
        newest += 1
    return False


def _is_unaltered(table: Table, state: BranchState, schema: str) -> bool:
    """Tell whether a branch has the first and the last schema that it had; asks for one that is there and one not.

    Args:
        table: One branch of a table.
        state: What the last pass left.
        schema: What the path of a schema begins with, up to its id.
    """
    if _exists(table, f"{schema}{state.schema_id + 1}"):
        return False
    try:
        first = table.store.read(f"{schema}{state.first_schema}", MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return False
    return number_of(first.etag) == state.identity


def _lists_unaltered(table: Table, state: BranchState, schema: str) -> bool:
    """Tell the same by one listing."""
    folder = schema.removesuffix("schema-")
    listed = ((schema_id_of(entry.key.removeprefix(folder)), entry.etag) for entry in table.store.list(folder))
    found = [(schema_id, etag) for schema_id, etag in listed if schema_id is not None]
    return _is_known(state, first_of(found)) and max(found)[0] == state.schema_id


def _is_known(state: BranchState, found: Identity) -> bool:
    """Tell whether a state is of the branch that is there now."""
    return bool(found) and (state.first_schema, state.identity) == (found.schema_id, found.number)


def _makes_tag(table: Table, state: BranchState, newest: int) -> bool:
    """Tell whether the newest commit makes a tag due by what its document says.

    A pass lists a table anew when a step has changed it, so it may have seen a commit after it made tags.
    """
    if not state.asks_commits or newest < state.tag_next_snapshot:
        return False
    path = f"{branch_dir(table.ref.branch)}snapshot/snapshot-{newest}"
    try:
        return state.is_tag_due(parse_snapshot(table.store.read(path, MAX_DOCUMENT_BYTES).data, path))
    except (ObjectNotFoundError, FormatError):
        return True  # a pass says what is wrong


def answered_branches(table: Table, min_interval_ms: int) -> Mapping[str, bool]:
    """Tell of every branch whether the last pass answers this one; nothing is known without the state of main.

    Costs the state and the listings of `discover`, four at most, however many branches there are: what lies in a
    branch's folders says the same as the requests of `needs_nothing`.

    Raises:
        RefusedError: There may be roots that cannot be seen.
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
    """What a pass says of the tags of a branch that has some, or makes some."""

    seen_ms: int
    """When it looked. Somebody else may make a tag that is due before these, so they are looked at once a day."""
    facts: Mapping[str, int] = field(default_factory=dict)
    """Numbers of `BranchState`, by name."""

    def on(self, state: BranchState) -> BranchState:
        """Return a state that says so."""
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
    """Keep what a pass found for the next one, where that could answer it.

    Args:
        table: One branch of a table, with its control location.
        steps: Of the pass; those on tags are not among them.
        identity: Of the branch, as the pass saw it.
        note: What those on tags found, `None` where there were none.
        keeps_time: The time of each pass counts, also of one that only planned.
    """
    settled = {"done", "nothing_to_do", "planned"} if keeps_time else {"done", "nothing_to_do"}
    if table.area is None or not identity:
        return
    state = None if any(step.told_status not in settled for step in steps) else _state_after(steps)
    # Where the next commit asks for a whole pass in any case, only tags are worth a word: they wait for no commit.
    is_worth_it = state is not None and (keeps_time or state.retains_all(state.latest_id + 1, state.checked_ms))
    if not is_worth_it and note is None:
        return
    try:
        states = read_states(table.area)
    except FormatError:
        states = {}
    known = states.get(table.ref.branch)
    if known is not None and known.identity not in (0, identity.number):
        # Of a table, or a branch, that was here before. With main all its branches are others.
        known, states = None, {} if table.ref.branch == MAIN else states
    state = replace(state or known or always_due(0, 0), first_schema=identity.schema_id, identity=identity.number)
    if note is not None:
        state = note.on(state)
    elif known is not None and known.tags_due_ms > state.checked_ms:
        # Somebody may have made a tag since this pass listed none.
        state = replace(state, tags_due_ms=min(state.tags_due_ms, known.tags_due_ms))
    if known is None or keeps_time or (_differs(known, state) if is_worth_it else _hides_tags(known, state, note)):
        write_state(table.area, {**states, table.ref.branch: state})


def _differs(known: BranchState, state: BranchState) -> bool:
    """Tell whether two states say something else; the time alone is nothing, as long as it hides no tag."""
    same = {"checked_ms": 0, "tags_due_ms": 0}
    return replace(known, **same) != replace(state, **same) or _is_late(known, state)


def _hides_tags(known: BranchState, state: BranchState, note: TagNote | None) -> bool:
    """Tell whether what is kept of tags is out of date, or would make the next pass read much."""
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
    """Forget what the last pass said of a branch: the next one looks anew.

    Args:
        table: Any branch of the table, with its control location.
        branch: Which branch.
        keeps_tags: What it said of tags still holds.
    """
    if table.area is None:
        return
    try:
        states = read_states(table.area)
    except FormatError:
        return  # says nothing of any branch
    if branch not in states:
        return
    left = tags_alone(states[branch])
    after = {name: state for name, state in states.items() if name != branch}
    if keeps_tags and left.tags_due_ms < NEVER_MS:
        after[branch] = left
    if after != states:
        write_state(table.area, after)


def wants_more(step: RunReport) -> bool:
    """Tell whether a step that was carried out left something that is due already, because a pass has its limit."""
    if step.status != "done" or step.plan is None or "limit" not in step.plan.header.next_pass:
        return False
    state = _state_of(step.plan.header.next_pass)
    return state is not None and not state.retains_all(state.latest_id, state.checked_ms)


def _state_after(steps: Sequence[RunReport]) -> BranchState | None:
    """Return what a pass that did all it had to leaves for the next.

    What its retention was says a single step of a table that states it, when it was made. In other cases only its time
    counts.
    """
    headers = [step.plan.header for step in steps if step.plan is not None]
    if len(headers) == len(steps) == 1 and headers[0].next_pass and steps[0].status != "planned":
        return _state_of(headers[0].next_pass)
    latest = [header.snapshots.get("latest") for header in headers]
    ids = [found for found in latest if isinstance(found, int)]
    return always_due(max(ids), min(header.created_ms for header in headers)) if ids else None


def _state_of(next_pass: Mapping[str, int]) -> BranchState | None:
    """Return what a plan says of the next pass, `None` where a stored one says something that nobody knows."""
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
