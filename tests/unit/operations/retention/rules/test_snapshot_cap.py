"""Caps on a range: commit users and floors can only keep more."""

from dataclasses import replace

import pytest

from lakesweep.format.snapshot import Snapshot
from lakesweep.operations.retention.rules.snapshot_cap import (
    BATCH_IDENTIFIER,
    cap_at,
    cap_by_users,
    forgotten_users,
    newest_by_user,
)
from lakesweep.operations.retention.rules.snapshot_range import SnapshotRange

CHOSEN = SnapshotRange(first_id=2, latest_id=9, end_id=7, expired=(2, 3, 5, 6), kept={"retain_min": 3})


def snapshot(snapshot_id: int, user: str, identifier: int = 1) -> Snapshot:
    return Snapshot(
        snapshot_id, 3, 0, "base", None, "delta", None, None, None, None, user, identifier, "APPEND", 0,
        None, None, None, None, None, None, None, None,
    )  # fmt: skip


COMMITS = (
    snapshot(2, "gone"),
    snapshot(3, "stopped", 7),
    snapshot(5, "batch", BATCH_IDENTIFIER),
    snapshot(6, "running", 3),
    snapshot(7, "running", 4),
    snapshot(9, "new"),
)


@pytest.mark.parametrize(
    ("end", "expired", "kept", "end_id"),
    [
        (9, (2, 3, 5, 6), 0, 7),
        (7, (2, 3, 5, 6), 0, 7),
        (6, (2, 3, 5), 1, 6),
        (4, (2, 3), 2, 4),
        (2, (), 4, 2),
        (0, (), 4, 2),
    ],
)
def test_a_cap_shortens(end: int, expired: tuple[int, ...], kept: int, end_id: int) -> None:
    """The range ends at the cap, never later than before, never before the oldest."""
    capped = cap_at(CHOSEN, end, "commit_user")
    assert (capped.expired, capped.end_id) == (expired, end_id)
    assert capped.kept == {"retain_min": 3, **({"commit_user": kept} if kept else {})}


def test_the_newest_of_each_user() -> None:
    """Later commits take the place of earlier ones."""
    assert {user: last.id for user, last in newest_by_user(COMMITS).items()} == {
        "gone": 2, "stopped": 3, "batch": 5, "running": 7, "new": 9,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("users", "expired", "absent"),
    [
        ((), (2, 3, 5, 6), ()),
        (("running",), (2, 3, 5, 6), ()),
        (("stopped",), (2,), ()),
        (("batch", "stopped"), (2,), ()),
        (("batch",), (2, 3), ()),
        (("gone", "new"), (), ()),
        (("nobody", "batch"), (2, 3), ("nobody",)),
        (("nobody",), (2, 3, 5, 6), ("nobody",)),
    ],
)
def test_protected_users(users: tuple[str, ...], expired: tuple[int, ...], absent: tuple[str, ...]) -> None:
    """The oldest of the users' last snapshots ends the range; a user without one is named."""
    capped, missing = cap_by_users(CHOSEN, newest_by_user(COMMITS), users)
    assert (capped.expired, missing) == (expired, absent)


def test_streaming_users_who_lose_their_last() -> None:
    """Not batch writers, not those who committed later."""
    newest = newest_by_user(COMMITS)
    assert [last.commit_user for last in forgotten_users(CHOSEN, newest)] == ["gone", "stopped"]
    assert forgotten_users(replace(CHOSEN, expired=()), newest) == ()
