"""Choose the snapshots of a branch that expire.

The range is `[first_id, end_id)`: `end_id` is the first snapshot to keep. As in Paimon, all arithmetic uses ids, not
the number of existing documents.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakesweep.model.policy import SnapshotRetention


@dataclass(frozen=True, slots=True)
class RangeBounds:
    """The bounds that are known before any commit time is read."""

    first_id: int
    latest_id: int
    age_from_id: int
    """Below this id (and below `hard_end_id`), snapshots expire at any age."""
    hard_end_id: int
    """From this id on, snapshots are kept at any age."""


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """The snapshots to delete, and why the others are kept."""

    first_id: int
    latest_id: int
    end_id: int
    expired: tuple[int, ...]
    """The existing ids of the range, ascending."""
    kept: Mapping[str, int]
    """Number of existing snapshots to keep, by reason: `retain_min`, `consumer`, `limit`, `too_young`."""


def bounds(ids: Sequence[int], policy: SnapshotRetention, consumer_next: int | None) -> RangeBounds:
    """Bound the range by counts, the consumers and the limit of one run.

    Args:
        ids: Ids of the snapshots that exist, ascending, at least one.
        policy: Checked retention.
        consumer_next: The smallest id that a consumer still needs; the first to keep.

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
    """Choose the snapshots to delete.

    From 2.0 on, Paimon asks whether the *successor* of a snapshot was committed strictly before the cutoff. Earlier
    versions ask for the snapshot's own time. This differs only where clocks run backwards; there Lakesweep requires
    both, so that no version of Paimon keeps more. The first young snapshot protects all later ones.

    Args:
        ids: Ids of the snapshots that exist (whatever a hint says), ascending, at least one.
        time_ms: Commit times of (at least) the ids from `age_from_id` up to `hard_end_id` and of the successor of each.
            Where ids are missing, the successor is the next existing id.
        policy: Checked retention.
        consumer_next: The smallest id that a consumer still needs; the first to keep.
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
