"""Which snapshots of a branch may go.

The range is `[first_id, end_id)`: `end_id` is the first survivor. All arithmetic is on ids, not on how many documents
are present, as in the engine.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakesweep.model.policy import SnapshotRetention


@dataclass(frozen=True, slots=True)
class RangeBounds:
    """What can be said before any commit time is known."""

    first_id: int
    latest_id: int
    age_from_id: int
    """Ids below this go regardless of age."""
    hard_end_id: int
    """Ids from here on stay regardless of age."""


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """The ids to drop, and why the others stay."""

    first_id: int
    latest_id: int
    end_id: int
    expired: tuple[int, ...]
    """The ids of the range that are present, ascending."""
    kept: Mapping[str, int]
    """How many present ids stay, by reason: `retain_min`, `consumer`, `limit`, `too_young`."""


def bounds(ids: Sequence[int], policy: SnapshotRetention, consumer_next: int | None) -> RangeBounds:
    """Bound the range by counts, the consumers and the limit of one run.

    Args:
        ids: Ids of the snapshots that exist, ascending, at least one.
        policy: Checked retention.
        consumer_next: The smallest id that a consumer still needs.

    Source: Paimon `ExpireSnapshotsImpl#expire`.
    """
    first, latest = ids[0], ids[-1]
    ends = [latest - policy.retain_min + 1, first + policy.limit]
    if consumer_next is not None:
        ends.append(consumer_next)
    return RangeBounds(
        first_id=first,
        latest_id=latest,
        age_from_id=max(latest - policy.retain_max + 1, first),
        hard_end_id=min(ends),
    )


def select_range(
    ids: Sequence[int],
    time_ms: Mapping[int, int],
    policy: SnapshotRetention,
    consumer_next: int | None,
    now_ms: int,
) -> SnapshotRange:
    """Choose the snapshots to drop.

    A snapshot is old enough only when its *successor* was committed strictly before the cutoff, as in the engine from
    2.0 on. Earlier ones ask its own time, which matters only where clocks run backwards; there both must be old, so
    that no engine keeps more. The first young snapshot shields everything after it.

    Args:
        ids: Ids of the snapshots that exist, ascending, at least one. What exists, not what a hint says.
        time_ms: Commit times of (at least) the ids from `age_from_id` up to `hard_end_id` and of the successor of each.
            Where ids are missing, the successor is the next one that exists.
        policy: Checked retention.
        consumer_next: The smallest id that a consumer still needs.
        now_ms: The time of the run; the cutoff is `now_ms - policy.time_retained_ms`.

    Source: Paimon `ExpireSnapshotsImpl#expire`.
    """
    limits = bounds(ids, policy, consumer_next)
    cutoff_ms = now_ms - policy.time_retained_ms
    end = limits.hard_end_id
    for snapshot_id, successor in pairwise(ids):
        if not limits.age_from_id <= snapshot_id < limits.hard_end_id:
            continue
        if max(time_ms[snapshot_id], time_ms[successor]) >= cutoff_ms:
            end = snapshot_id
            break
    end = max(end, limits.first_id)

    def why_kept(snapshot_id: int) -> str:
        if snapshot_id > limits.latest_id - policy.retain_min:
            return "retain_min"
        if consumer_next is not None and snapshot_id >= consumer_next:
            return "consumer"
        if snapshot_id >= limits.first_id + policy.limit:
            return "limit"
        return "too_young"

    return SnapshotRange(
        first_id=limits.first_id,
        latest_id=limits.latest_id,
        end_id=end,
        expired=tuple(i for i in ids if i < end),
        kept=Counter(why_kept(i) for i in ids if i >= end),
    )
