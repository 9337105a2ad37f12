"""Choose the long-lived changelogs of a branch that expire: counted from the newest snapshot, aged by own time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakesweep.model.policy import ChangelogRetention


@dataclass(frozen=True, slots=True)
class ChangelogRange:
    """The changelogs to delete; `end_id` is the first changelog to keep, and exists."""

    first_id: int
    end_id: int
    expired: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChangelogBounds:
    """The bounds that are known before any commit time is read."""

    age_from_id: int
    """Below this id (and below `hard_end_id`), changelogs expire at any age."""
    hard_end_id: int
    """From this id on, changelogs are kept at any age."""


def changelog_bounds(
    ids: Sequence[int], latest_snapshot_id: int, policy: ChangelogRetention, consumer_next: int | None
) -> ChangelogBounds:
    """Bound the range by counts, the consumers and the limit of one run.

    Args:
        ids: Ids of the changelogs that exist, ascending, at least one.
        latest_snapshot_id: The newest snapshot of the branch; retention counts from there.
        policy: Checked retention.
        consumer_next: The smallest id that a consumer still needs.
    """
    ends = [latest_snapshot_id - policy.retain_min + 1, ids[0] + policy.limit, ids[-1]]
    if consumer_next is not None:
        ends.append(consumer_next)
    return ChangelogBounds(max(latest_snapshot_id - policy.retain_max + 1, ids[0]), min(ends))


def select_changelogs(
    ids: Sequence[int],
    latest_snapshot_id: int,
    time_ms: Mapping[int, int],
    policy: ChangelogRetention,
    consumer_next: int | None,
    now_ms: int,
) -> ChangelogRange | None:
    """Choose the changelogs to delete, `None` for none.

    The newest changelog is always kept. If no changelog has the id of the first survivor, nothing is deleted, as in
    Paimon.

    Args:
        ids: Ids of the changelogs that exist, ascending, at least one.
        latest_snapshot_id: The newest snapshot of the branch.
        time_ms: Commit times of (at least) the ids from `age_from_id` to `hard_end_id`.
        policy: Checked retention.
        consumer_next: The smallest id that a consumer still needs.
        now_ms: The time of the run.

    Source: Paimon `ExpireChangelogImpl#expire`.
    """
    limits = changelog_bounds(ids, latest_snapshot_id, policy, consumer_next)
    if limits.hard_end_id <= ids[0]:
        return None
    end = limits.hard_end_id
    for changelog_id in ids:
        if limits.age_from_id <= changelog_id <= limits.hard_end_id and (
            policy.time_retained_ms is None or time_ms[changelog_id] >= now_ms - policy.time_retained_ms
        ):
            end = changelog_id
            break
    expired = tuple(i for i in ids if i < end)
    return ChangelogRange(ids[0], end, expired) if expired and end in ids else None
