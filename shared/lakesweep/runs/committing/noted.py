"""Note what Lakesweep committed, so that sweeps and passes look whether it is still there."""

from collections.abc import Sequence
from dataclasses import replace

from lakesweep.commit.environment import Known
from lakesweep.control.area import ControlArea
from lakesweep.control.state import always_due, read_states, write_state
from lakesweep.errors import FormatError
from lakesweep.model.commits.seen import MOST_SEEN, SeenSnapshot


def note_commits(area: ControlArea, branch: str, made: Sequence[SeenSnapshot], told: Sequence[tuple[int, int]]) -> None:
    """Note commits in the state of a branch, if there are any. The lease has the last one, too.

    Args:
        area: The table's documents.
        branch: The branch.
        made: The snapshots, ascending by id.
        told: Ids and numbers of snapshots that were found replaced, and told.

    Raises:
        StorageError: A request failed.
    """
    if not made and not told:
        return
    try:
        states = read_states(area)
    except FormatError:
        states = {}
    known = states.get(branch) or always_due(0, 0)
    newest = {each.id: each for each in (*known.newest, *made)}
    noted = replace(
        known,
        newest=tuple(newest[each] for each in sorted(newest)[-MOST_SEEN:]),
        judged=(*known.judged, *(each for each in told if each not in known.judged)),
    )
    write_state(area, {**states, branch: noted})


def known_of(area: ControlArea, branch: str) -> Known:
    """Return what passes know of the former snapshots of a branch.

    Raises:
        StorageError: The request failed.
    """
    try:
        state = read_states(area).get(branch)
    except FormatError:
        state = None
    return Known() if state is None else Known(frozenset(state.judged), state.rewritten_ms)
