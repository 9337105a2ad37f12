"""What a run is about to remove, published before it removes anything.

Two readers need it. Whoever creates a tag or branch reads it after writing, and withdraws when its snapshot is about
to go. And the next run finds here what a dead run left unfinished.
"""

from dataclasses import dataclass

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import FormatError, ObjectNotFoundError

_NAME = "intent.json"


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


def publish(area: ControlArea, intent: Intent) -> None:
    """Make an intent visible. Call it under the lease only."""
    area.put(
        _NAME,
        to_json_bytes(
            {
                "plan_id": intent.plan_id,
                "branch": intent.branch,
                "end_id": intent.end_id,
                "runs": list(intent.runs),
                "created_ms": intent.created_ms,
            }
        ),
    )


def clear(area: ControlArea) -> None:
    """Say that nothing is about to go. Call it under the lease only."""
    area.put(_NAME, to_json_bytes({"plan_id": None}))


def current(area: ControlArea) -> Intent | None:
    """Return the published intent, `None` when nothing is about to go.

    Raises:
        FormatError: The document does not parse.
    """
    try:
        body = area.read(_NAME)
    except ObjectNotFoundError:
        return None
    path = area.path(_NAME)
    document = from_json_bytes(body.data, path)
    plan_id, branch, runs, end_id = (document.get(key) for key in ("plan_id", "branch", "runs", "end_id"))
    if plan_id is None:
        return None
    created_ms = document.get("created_ms")
    if not (
        isinstance(plan_id, str)
        and isinstance(branch, str)
        and isinstance(runs, list)
        and isinstance(end_id, int | None)
        and isinstance(created_ms, int)
    ):
        raise FormatError(f"{path}: expected an intent with plan_id, branch, runs, end_id and created_ms")
    return Intent(plan_id, branch, end_id, tuple(map(str, runs)), created_ms)
