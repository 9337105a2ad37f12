"""The shortcut of the pass after a commit: the state of the last pass may already show that this commit needs nothing.

It can only skip work, never cause any. An event comes for every commit, and most commits need nothing. So the state of
the last pass, the newest snapshot and the newest schema answer the question.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakesweep.control.state import BranchState, read_states
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.names import snapshot_id_of
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.model.commits.seen import Announced
from lakesweep.model.identity import Identity, identity_of, number_of
from lakesweep.model.roots import MAIN, BranchListing, branch_dir
from lakesweep.runs.session import Table
from lakesweep.table.discover import discover
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_hint

MAX_PROBES = 4
"""This many commits after the newest known one are followed one by one. After more, a complete pass is due anyway."""
MAX_AHEAD = 1000
"""The same for commits that one listing shows."""


def needs_nothing(table: Table, known: BranchState | None, min_interval_ms: int, committed_id: int | None) -> bool:
    """Tell whether the state of the last pass shows that nothing is due.

    Args:
        table: One branch of a table, with its control location.
        known: The stored state of the branch.
        min_interval_ms: A pass more recent than this is enough.
        committed_id: The snapshot that an event reported, if any.
    """
    state = _of_a_pass(known)
    if state is None:
        return False
    if 0 <= clock_ms(table) - state.checked_ms < min_interval_ms:
        return True
    if not state.wants_nothing(state.latest_id, clock_ms(table)):
        return False  # a newer snapshot would need a pass as well
    is_told = committed_id is not None and committed_id > state.latest_id
    newest = committed_id if is_told else newest_since(table, state)
    return newest is not None and answers(table, state, newest, told=is_told)


def last_pass(table: Table) -> BranchState | None:
    """Return the state that the last pass over a branch left, if any."""
    return _of_a_pass(known_state(table))


def _of_a_pass(state: BranchState | None) -> BranchState | None:
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
    """Return the caller's own time. It decides when a pass looks at a table, never what is deleted.

    S3's clock would cost a request. If the own clock is wrong, a pass comes too early, or a sweep asks for it.
    """
    return table.clock_ms()


def newest_listed(table: Table) -> int | None:
    """Return the newest snapshot of a branch by one listing, `None` if there is none."""
    return max(_listed_from(table, 1, MAX_AHEAD), default=None)


def latest_hint(table: Table) -> int | None:
    """Return the id in the branch's LATEST, `None` without that hint."""
    return read_hint(table.store, f"{branch_dir(table.ref.branch)}snapshot/LATEST")


def newest_since(table: Table, state: BranchState) -> int | None:
    """Return the newest snapshot, `None` if the newest one of the last pass is gone, or another one has its id.

    After a rollback, new commits use the ids again. One listing shows this, and costs what LATEST and a look for a
    newer snapshot cost together.
    """
    first = min([state.latest_id, *(each.id for each in state.newest)])
    found = _listed_from(table, first, state.latest_id + MAX_AHEAD)
    if not state.is_latest(found.get(state.latest_id)) or not state.are_same(found):
        return None
    newest = max(found)
    return newest if newest < state.latest_id + MAX_AHEAD else None


def _listed_from(table: Table, first: int, last: int) -> dict[int, str]:
    """List the snapshots from an id on, and some before it. Return id -> ETag.

    Args:
        table: One branch of a table.
        first: The id.
        last: The listing has to show ids up to this one.
    """
    folder = f"{branch_dir(table.ref.branch)}snapshot/"
    # Ids with more digits are listed before the others, and so close to such ids the listing begins with the first.
    after = str(first)[:-1] if len(str(last)) == len(str(first)) else ""
    pages = table.store.list_range(folder, f"{folder}snapshot-{after}")
    listed = ((snapshot_id_of(each.key.removeprefix(folder)), each.etag) for page in pages for each in page)
    return {snapshot_id: etag for snapshot_id, etag in listed if snapshot_id is not None}


def is_latest_there(table: Table, state: BranchState) -> bool:
    """Tell whether the newest snapshot of the last pass still exists. Costs one read."""
    try:
        found = table.store.read(f"{branch_dir(table.ref.branch)}snapshot/snapshot-{state.latest_id}")
    except ObjectNotFoundError:
        return False
    return state.is_latest(found.etag)


def answers(
    table: Table, state: BranchState, newest: int, *, told: bool = False, announced: Sequence[Announced] = ()
) -> bool:
    """Tell whether the state of the last pass shows that nothing is due now.

    Args:
        table: One branch of a table.
        state: The state of the last pass.
        newest: The newest snapshot that the caller knows, not below that of the last pass.
        told: An event reported it, so nothing was listed. The snapshots right after it are looked for.
        announced: What events announced, with ETags. Then these snapshots are looked for instead. Later ones have
            events of their own.
    """
    folder = branch_dir(table.ref.branch)
    now_ms = clock_ms(table)
    if state.is_over(now_ms) or not state.identity:
        return False
    if not state.wants_nothing(newest, now_ms):
        return False  # a newer snapshot would need a pass as well
    etags = {each.id: each.etag for each in announced if each.id > state.latest_id}
    if told and etags:
        found = _newest_announced(table, etags)
        if found is None or not state.wants_nothing(found, now_ms):
            return False  # a replaced snapshot, or a rollback
        newest, told = found, False
    for _ in range(MAX_PROBES):
        if not told or not _exists(table, f"{folder}snapshot/snapshot-{newest + 1}"):
            if not _is_unaltered(table, state, f"{folder}schema/schema-"):
                return False
            return state.wants_nothing(newest, now_ms) and not _makes_tag(table, state, newest)
        newest += 1
    return False


def _newest_announced(table: Table, etags: Mapping[int, str]) -> int | None:
    """Return the newest snapshot of those that a request shows, `None` if one is not what events announced.

    A writer that replaces a snapshot does so within a second or so, and events come later. Costs one read, or one
    listing if events announced several snapshots.

    Args:
        table: One branch of a table.
        etags: Id -> ETag, of the announced snapshots.
    """
    first, last = min(etags), max(etags)
    if first == last:
        try:
            body = table.store.read(f"{branch_dir(table.ref.branch)}snapshot/snapshot-{last}", MAX_DOCUMENT_BYTES)
        except ObjectNotFoundError:
            return None
        return last if body.etag == etags[last] else None
    found = _listed_from(table, first, last)
    return max(found) if all(found.get(each) == etag for each, etag in etags.items()) else None


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
    found = {each.id: each.etag for each in own.snapshots}
    if not state.is_latest(found.get(state.latest_id)) or not state.are_same(found):
        return False  # a rollback or a replacement happened, so a pass must look
    if not state.wants_nothing(newest, now_ms):
        return False
    return not _makes_tag(table, state, newest)


def _exists(table: Table, key: str) -> bool:
    try:
        table.store.read(key)
    except ObjectNotFoundError:
        return False
    return True
