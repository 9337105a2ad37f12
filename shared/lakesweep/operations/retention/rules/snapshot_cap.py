"""Limits of an expiry besides the retention: commit users, and the minimum retention of a fleet policy.

A cap only shortens a range, so it can only keep more.

A streaming writer that starts again looks for the newest snapshot of its commit user. It searches from the newest
snapshot down, and stops at the first missing id. The result tells which of its commits the table has. Without a result,
it commits them once more, and rows double. Batch writers use one identifier for every commit and never search.

Source: Paimon `FileStoreCommitImpl#filterCommitted`, `SnapshotManager#latestSnapshotOfUser`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lakesweep.format.snapshot import Snapshot
from lakesweep.model.policy import SnapshotRetention
from lakesweep.operations.retention.rules.snapshot_range import SnapshotRange, select_range

BATCH_IDENTIFIER = (1 << 63) - 1
"""The commit identifier of every batch commit."""


def newest_by_user(snapshots: Iterable[Snapshot]) -> dict[str, Snapshot]:
    """Return each commit user's newest snapshot.

    Args:
        snapshots: The snapshots of one branch, ascending by id.
    """
    return {snapshot.commit_user: snapshot for snapshot in snapshots}


def cap_range(
    chosen: SnapshotRange,
    snapshots: Sequence[Snapshot],
    floor: SnapshotRetention | None,
    users: Iterable[str],
    now_ms: int,
) -> tuple[SnapshotRange, tuple[str, ...]]:
    """Shorten a range by all limits. Also return warnings: of users without a snapshot, and users who lose their last.

    Args:
        chosen: The range by the table's rules and the call.
        snapshots: All snapshots of the branch, ascending.
        floor: The minimum retention of a fleet policy.
        users: The protected commit users.
        now_ms: The time of the run.
    """
    newest = newest_by_user(snapshots)
    if floor is not None:
        times = {snapshot.id: snapshot.time_ms for snapshot in snapshots}
        chosen = cap_by_floor(chosen, tuple(times), times, floor, now_ms)
    chosen, absent = cap_by_users(chosen, newest, users)
    return chosen, (
        *(f"no snapshot of the protected commit user {user} is left to keep" for user in absent),
        *map(last_of_user, forgotten_users(chosen, newest)),
    )


def cap_at(chosen: SnapshotRange, end_id: int, reason: str) -> SnapshotRange:
    """Return `chosen` without the snapshots from `end_id` on, which are kept for `reason`."""
    spared = sum(snapshot_id >= end_id for snapshot_id in chosen.expired)
    if not spared:
        return chosen
    return replace(
        chosen,
        end_id=max(end_id, chosen.first_id),
        expired=chosen.expired[:-spared],
        kept={**chosen.kept, reason: spared},
    )


def cap_by_floor(
    chosen: SnapshotRange, ids: Sequence[int], time_ms: Mapping[int, int], floor: SnapshotRetention, now_ms: int
) -> SnapshotRange:
    """Also keep the snapshots that the rules of `floor` keep, even beyond a maximum count of the table.

    Args:
        chosen: The snapshots that expire by the table's own rules.
        ids: Ids of the snapshots that exist, ascending.
        time_ms: The commit time of each.
        floor: Rules without a maximum count.
        now_ms: The time of the run.
    """
    allowed = select_range(ids, time_ms, floor, None, now_ms)
    return cap_at(chosen, allowed.end_id, "fleet_policy")


def cap_by_users(
    chosen: SnapshotRange, newest: Mapping[str, Snapshot], users: Iterable[str]
) -> tuple[SnapshotRange, tuple[str, ...]]:
    """Keep the newest snapshot of each of `users`, and all later snapshots.

    Returns:
        The range, and the users without a snapshot.
    """
    users = tuple(users)
    ends = [newest[user].id for user in users if user in newest]
    capped = cap_at(chosen, min(ends), "commit_user") if ends else chosen
    return capped, tuple(user for user in users if user not in newest)


def forgotten_users(chosen: SnapshotRange, newest: Mapping[str, Snapshot]) -> tuple[Snapshot, ...]:
    """Return the last snapshots of streaming commit users that would expire, ascending by id."""
    going = frozenset(chosen.expired)
    return tuple(
        sorted(
            (last for last in newest.values() if last.id in going and last.commit_identifier != BATCH_IDENTIFIER),
            key=lambda snapshot: snapshot.id,
        )
    )


def last_of_user(last: Snapshot) -> str:
    """Return the sentence that warns of the effect on a streaming writer that loses its last snapshot."""
    user = last.commit_user
    return (
        f"snapshot {last.id}, the last one of the streaming commit user {user}, expires; a job that restarts as this "
        f"user finds none of its commits and commits recovered data again; --protect-commit-user {user} keeps the "
        "snapshot"
    )
