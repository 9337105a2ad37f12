"""What a run is about to remove. It stands in the table's lease, so it is published and withdrawn with it.

Two readers need it. Whoever creates a tag or branch reads it after writing, and withdraws when its snapshot is about
to go. And the next run finds here what a dead run left unfinished.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lakesweep.control.checks import are_ids, is_count, is_id
from lakesweep.errors import FormatError


@dataclass(frozen=True, slots=True)
class Intent:
    """An execution that has begun and is not known to have ended."""

    plan_id: str
    branch: str
    end_id: int | None
    """Snapshots of the branch below this id are going."""
    runs: tuple[str, ...]
    """Every run that worked on the plan, first to last: where the ledger has its rows."""
    created_ms: int
    grace_ms: int = 0
    """How long readers of what goes may go on before files go."""
    snapshot_ids: tuple[int, ...] = ()
    """Snapshots of the branch that are gone, whose last tags go with the files that only they held."""

    plan_hash: str | None = None
    """Of the plan's actions."""
    policy_etag: str | None = None
    """Of the fleet policy that the run read."""

    def to_json(self) -> dict[str, object]:
        """Return its form in the lease."""
        return {**asdict(self), "runs": list(self.runs), "snapshot_ids": list(self.snapshot_ids)}


def intent_of(value: object, path: str) -> Intent | None:
    """Return the intent that a lease holds, `None` when nothing is about to go.

    Args:
        value: As the lease document has it.
        path: Of that document, for messages.

    Raises:
        FormatError: It is no intent.
    """
    if value is None:
        return None
    document: Mapping[str, object] = value if isinstance(value, dict) else {}
    plan_id, branch, runs = (document.get(key) for key in ("plan_id", "branch", "runs"))
    end_id, created_ms, grace_ms = (document.get(key) for key in ("end_id", "created_ms", "grace_ms"))
    snapshot_ids = document.get("snapshot_ids", [])  # leases from before tags were deleted have none
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
