"""What a run is about to remove. It stands in the table's lease, so it is published and withdrawn with it.

Two readers need it. Whoever creates a tag or branch reads it after writing, and withdraws when its snapshot is about
to go. And the next run finds here what a dead run left unfinished.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

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

    def to_json(self) -> dict[str, object]:
        """Return its form in the lease."""
        return {**asdict(self), "runs": list(self.runs)}


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
    if not (
        isinstance(plan_id, str)
        and isinstance(branch, str)
        and isinstance(runs, list)
        and isinstance(end_id, int | None)
        and isinstance(created_ms, int)
        and isinstance(grace_ms, int)
    ):
        raise FormatError(f"{path}: expected an intent with plan_id, branch, runs, end_id, created_ms and grace_ms")
    return Intent(plan_id, branch, end_id, tuple(map(str, runs)), created_ms, grace_ms)
