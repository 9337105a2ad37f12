"""How many snapshots are expired: now for every age, and in the past after each commit.

The rules are those of `operations/retention/rules`, which decide about one age and one moment. Here they decide about
all ages, or all moments, in one walk over the snapshots.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from lakesweep.format.snapshot import Snapshot
from lakesweep.model.policy import INT_MAX, SnapshotRetention


def by_age(
    snapshots: Sequence[Snapshot], retain_min: int, most: int, consumer_next: int | None, now_ms: int
) -> Iterator[tuple[int, int]]:
    """Yield ages, ascending from 0, and how many snapshots are expired from this age on up to the next one.

    Args:
        snapshots: All snapshots of a branch, ascending by id; at least one.
        retain_min: This many ids are kept at any age. There is no maximum.
        most: Never more than this many are expired, since a fleet policy keeps the others.
        consumer_next: The smallest id that a consumer needs.
        now_ms: The time that ages count from.
    """
    ids = [snapshot.id for snapshot in snapshots]
    end = ids[-1] - retain_min + 1
    most = min(most, bisect_left(ids, end if consumer_next is None else min(end, consumer_next)))
    # The first snapshot that is young keeps all later ones. A snapshot is as young as its successor.
    young = list(accumulate((max(a.time_ms, b.time_ms) for a, b in pairwise(snapshots)), max))
    first = min(bisect_left(young, now_ms), most)
    yield 0, first
    for position in range(first - 1, -1, -1):
        if position == 0 or young[position - 1] < young[position]:
            yield now_ms - young[position], position


def by_commit(
    snapshots: Sequence[Snapshot],
    rules: SnapshotRetention,
    floor: SnapshotRetention | None,
    protected: Iterable[str] = (),
) -> list[int]:
    """Return how many snapshots were expired after each commit, if a pass without a limit had followed each.

    Args:
        snapshots: All snapshots of a branch, ascending by id.
        rules: The retention.
        floor: The minimum retention of a fleet policy.
        protected: Commit users whose newest snapshot is kept, and every later one.
    """
    ids = [snapshot.id for snapshot in snapshots]
    young = [max(a.time_ms, b.time_ms) for a, b in pairwise(snapshots)]
    walks = [_Walk(ids, young, each) for each in (rules, floor) if each is not None]
    users = dict.fromkeys(protected, -1)
    found: list[int] = []
    expired = 0
    for position, snapshot in enumerate(snapshots):
        if snapshot.commit_user in users:
            users[snapshot.commit_user] = position
        ends = [walk.end(expired, position, snapshot.time_ms) for walk in walks]
        ends += [newest for newest in users.values() if newest >= 0]
        expired = max(expired, min(ends))
        found.append(expired)
    return found


class _Walk:
    """Finds where a retention ends, from commit to commit: it only goes forward, while the time does."""

    def __init__(self, ids: Sequence[int], young: Sequence[int], rules: SnapshotRetention) -> None:
        self._ids = ids
        self._young = young
        self._rules = rules
        self._position = 0
        self._cutoff_ms = -INT_MAX

    def end(self, first: int, latest: int, now_ms: int) -> int:
        """Return the position of the first snapshot to keep.

        Args:
            first: The first snapshot that exists.
            latest: The newest one.
            now_ms: The time.
        """
        ids, rules = self._ids, self._rules
        end = bisect_left(ids, ids[latest] - rules.retain_min + 1)
        cutoff_ms = now_ms - rules.time_retained_ms
        if cutoff_ms < self._cutoff_ms:  # a clock went backwards, so what was old may be young
            self._position = 0
        self._cutoff_ms = cutoff_ms
        position = max(self._position, first, bisect_left(ids, ids[latest] - rules.retain_max + 1))
        while position < end and self._young[position] < cutoff_ms:
            position += 1
        self._position = position
        return min(position, end)
