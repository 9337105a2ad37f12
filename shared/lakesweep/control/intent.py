"""What a run is about to remove. It is part of the table's lease, which publishes and withdraws it.

It has two main readers. A run that writes a tag without the lease reads the intent afterwards, and withdraws the tag if
its snapshot is expiring. And the next run finds here what a dead run left unfinished.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lakesweep.errors import FormatError
from lakesweep.format.codec import are_ids, is_count, is_id


@dataclass(frozen=True, slots=True)
class Intent:
    """An execution that has begun and is not known to have ended."""

    plan_id: str
    branch: str
    end_id: int | None
    """Snapshots of the branch below this id are expiring."""
    runs: tuple[str, ...]
    """Every run that worked on the plan, first to last. Their ledgers have its rows."""
    created_ms: int
    grace_ms: int = 0
    """How long readers of expiring snapshots may continue before files are deleted."""
    snapshot_ids: tuple[int, ...] = ()
    """Expiring snapshots of the branch that `end_id` does not cover; see `execute/batches.py`."""

    plan_hash: str | None = None
    """Of the plan's actions."""
    policy_etag: str | None = None
    """Of the fleet policy that the run read."""

    def to_json(self) -> dict[str, object]:
        """Return its form in the lease."""
        return {**asdict(self), "runs": list(self.runs), "snapshot_ids": list(self.snapshot_ids)}


def intent_of(value: object, path: str) -> Intent | None:
    """Return the intent in a lease, `None` when there is none.

    Args:
        value: As the lease document has it.
        path: Of that document, for messages.

    Raises:
        FormatError: It is not an intent.
    """
    if value is None:
        return None
    document: Mapping[str, object] = value if isinstance(value, dict) else {}
    plan_id, branch, runs = (document.get(key) for key in ("plan_id", "branch", "runs"))
    end_id, created_ms, grace_ms = (document.get(key) for key in ("end_id", "created_ms", "grace_ms"))
    snapshot_ids = document.get("snapshot_ids", [])  # older leases have none
    if not (
        is_id(plan_id)
        and isinstance(branch, str)
        and are_ids(runs)
        and (end_id is None or is_count(end_id))
        and is_count(created_ms)
        and is_count(grace_ms)
        and isinstance(snapshot_ids, list)
        and all(map(is_count, snapshot_ids))
    ):
        raise FormatError(
            f"{path}: expected an intent with plan_id, branch, runs, end_id, created_ms, grace_ms and snapshot_ids"
        )
    plan_hash, policy_etag = (_text(document.get(key)) for key in ("plan_hash", "policy_etag"))
    return Intent(
        plan_id, branch, end_id, tuple(runs), created_ms, grace_ms, tuple(snapshot_ids), plan_hash, policy_etag
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
