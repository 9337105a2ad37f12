"""Commits that are lost, because a writer without a lock replaced their snapshots: what a report says of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from lakesweep.model.commits.seen import SeenSnapshot

SEE = "docs/operations.md, Lost commits, says what to do"


@dataclass(frozen=True, slots=True)
class LostCommit:
    """A snapshot that another one replaced."""

    path: str
    """Of both."""
    lost: SeenSnapshot
    now: SeenSnapshot
    """What is there instead. Its writer needs a lock, like every writer of the table."""

    @property
    def is_ours(self) -> bool:
        """Lakesweep committed it, so no row is lost."""
        return self.lost.is_ours

    def to_json(self) -> dict[str, object]:
        """Return it as it appears in a report."""
        return {
            "snapshot_id": self.now.id,
            "path": self.path,
            "is_ours": self.is_ours,
            "lost": _shown(self.lost),
            "now": _shown(self.now),
        }

    def sentence(self) -> str:
        """Return the warning about it."""
        now = self.now
        by = f"{_user(now)}, " + (f"made at {_time(now.time_ms)}" if now.time_ms else f"at {_time(now.modified_ms)}")
        if self.is_ours:
            return f"{self.path}: another writer replaced this snapshot of Lakesweep, {by}; {SEE}"
        return (
            f"{self.path}: a writer without a lock replaced this snapshot, {by}; the commit of {_user(self.lost)}, "
            f"written at {_time(self.lost.modified_ms)}, is lost, and its rows are not in the table; {SEE}"
        )


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at a branch found."""

    newest: tuple[SeenSnapshot, ...] = ()
    """The newest snapshots now, for the next look."""
    judged: tuple[tuple[int, int], ...] = ()
    """What was ever told about the branch."""
    lost: tuple[LostCommit, ...] = ()
    warnings: tuple[str, ...] = ()
    has_news: bool = False
    """`judged` has grown."""


def doubt(path: str, seen: SeenSnapshot) -> str:
    """Return the warning about a snapshot that was replaced, or rolled back and committed anew."""
    return (
        f"{path}: expected the snapshot written at {_time(seen.modified_ms)} by {_user(seen)}, found another one; "
        f"either somebody rolled the branch back and committed, or a writer without a lock replaced it; {SEE}"
    )


def count_lost(commits: Iterable[LostCommit], *, ours: bool) -> int:
    """Count the lost commits of Lakesweep, or those of other writers."""
    return sum(commit.is_ours == ours for commit in commits)


def _shown(seen: SeenSnapshot) -> dict[str, object]:
    return {
        "uuid": seen.uuid or None,
        "commit_user": seen.commit_user or None,
        "commit_kind": seen.commit_kind or None,
        "committed_ms": seen.time_ms or None,
        "written_ms": seen.modified_ms,
        "delta_manifest_list": seen.delta_list or None,
    }


def _user(seen: SeenSnapshot) -> str:
    return f"commit user {seen.commit_user}" if seen.commit_user else "an unknown commit user"


def _time(epoch_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (OverflowError, ValueError, OSError):
        return f"{epoch_ms} ms"
