"""When retention allows to delete a snapshot or changelog: the planner's rules, for each document apart.

Without a limit for one run, `select_range` and `select_changelogs` choose exactly the documents that are due now.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from lakesweep.model.policy import INT_MAX, ChangelogRetention, SnapshotRetention


@dataclass(frozen=True, slots=True)
class Due:
    """The conditions for the deletion of one document. All of them must hold."""

    after_ms: int | None
    """It is old enough after this time; `None`: its age does not matter, or is unknown until it has a successor."""
    newer: int
    """Number of snapshots that must be committed before."""
    is_held: bool
    """A consumer needs this document, or an earlier one."""
    at_once: int | None = None
    """After this many more snapshots it is deleted at any age; `None`: the policy has no maximum count."""
    floor_ms: int | None = None
    """Even then it is kept until this time."""
    user: str | None = None
    """The protected commit user that must commit once more before."""

    def is_due(self, now_ms: int) -> bool:
        """Tell whether the document may be deleted now."""
        is_free = not self.newer and not self.is_held and self.user is None
        return is_free and (self.after_ms is None or now_ms > self.after_ms)


def snapshots_due(
    ids: Sequence[int], time_ms: Mapping[int, int], policy: SnapshotRetention, consumer_next: int | None
) -> dict[int, Due]:
    """Return for each snapshot of a branch when it may be deleted.

    Args:
        ids: Ids of the snapshots that exist, ascending.
        time_ms: The commit time of each.
        policy: Checked retention. Its limit for one run is ignored.
        consumer_next: The smallest id that a consumer still needs.
    """
    found: dict[int, Due] = {}
    latest = ids[-1] if ids else 0
    age_from = latest - policy.retain_max + 1
    after_ms: int | None = None  # The first young snapshot protects all later ones.
    for snapshot_id, successor in [*pairwise(ids), *((each, None) for each in ids[-1:])]:
        if successor is not None and snapshot_id >= age_from:
            own_ms = max(time_ms[snapshot_id], time_ms[successor]) + policy.time_retained_ms
            after_ms = own_ms if after_ms is None else max(after_ms, own_ms)
        found[snapshot_id] = Due(
            after_ms=None if snapshot_id < age_from or successor is None else after_ms,
            newer=max(0, snapshot_id + policy.retain_min - latest),
            is_held=consumer_next is not None and snapshot_id >= consumer_next,
            at_once=None if policy.retain_max >= INT_MAX else max(0, snapshot_id + policy.retain_max - latest),
        )
    return found


def with_floor(due: Due, floor: Due) -> Due:
    """Return the conditions of a snapshot under two policies, of which `floor` only keeps more (see `snapshot_cap`)."""
    times = [each for each in (due.after_ms, floor.after_ms) if each is not None]
    return replace(
        due,
        after_ms=max(times, default=None),
        newer=max(due.newer, floor.newer),
        at_once=None if due.at_once is None else max(due.at_once, floor.newer),
        floor_ms=floor.after_ms,
    )


def changelogs_due(
    ids: Sequence[int],
    latest_snapshot_id: int,
    time_ms: Mapping[int, int],
    policy: ChangelogRetention,
    consumer_next: int | None,
) -> dict[int, Due]:
    """Return for each long-lived changelog of a branch when it may be deleted. The newest is always kept.

    Args:
        ids: Ids of the changelogs that exist, ascending.
        latest_snapshot_id: The newest snapshot of the branch.
        time_ms: The commit time of each changelog.
        policy: Checked retention.
        consumer_next: The smallest id that a consumer still needs.
    """
    found: dict[int, Due] = {}
    age_from = latest_snapshot_id - policy.retain_max + 1
    after_ms: int | None = None
    for changelog_id in ids:
        if changelog_id >= age_from and policy.time_retained_ms is not None:
            own_ms = time_ms[changelog_id] + policy.time_retained_ms
            after_ms = own_ms if after_ms is None else max(after_ms, own_ms)
        newer = max(0, changelog_id + policy.retain_min - latest_snapshot_id)
        found[changelog_id] = Due(
            after_ms=None if changelog_id < age_from else after_ms,
            newer=max(newer, 1) if changelog_id == ids[-1] else newer,
            is_held=consumer_next is not None and changelog_id >= consumer_next,
            at_once=None
            if policy.retain_max >= INT_MAX
            else max(0, changelog_id + policy.retain_max - latest_snapshot_id),
        )
    return found
