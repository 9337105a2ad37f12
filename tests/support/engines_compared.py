"""What two engines of orphan scans have to say alike about one table."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_part
from lakesweep.errors import MaintenanceError
from lakesweep.model.plan import Delete, Plan, content_hash

_HEADER = (
    "content_hash",
    "action_count",
    "kept",
    "kept_bytes",
    "warnings",
    "findings",
    "needs_confirmation",
    "roots_seen",
    "snapshots",
    "policy",
    "arguments",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan, or why there is none."""

    facts: dict[str, Any]
    plan: Plan | None = None
    error: MaintenanceError | None = None

    @property
    def paths(self) -> set[str]:
        """What goes."""
        return {path for path, *_ in self.facts["actions"]}


def ask(planner: Callable[[], Plan], area: ControlArea) -> Answer:
    """Plan, and return everything that engines must agree on."""
    try:
        plan = planner()
    except MaintenanceError as error:
        message = str(error).replace(" (in an executor)", "")
        return Answer({"error": type(error).__name__, "code": error.code, "message": message}, error=error)
    header = plan.header
    parts = [load_part(area, header, part) for part in header.parts]
    actions = plan.actions or tuple(action for part in parts for action in part)
    assert len(actions) == header.action_count
    assert content_hash(actions, header.steering) == header.content_hash
    facts = {name: json.loads(json.dumps(getattr(header, name))) for name in _HEADER}
    facts |= {f"findings.{name}": found for name, found in facts.pop("findings").items()}
    facts["by_kind"] = dict(sorted(plan.delete_kinds.items()))
    facts["bytes"] = plan.delete_bytes
    facts["actions"] = sorted(
        (action.path, action.kind, action.phase, action.size_bytes, action.etag, action.owner, action.reason)
        for action in actions
        if isinstance(action, Delete)
    )
    return Answer(facts, plan)


def differences(one: Answer, other: Answer) -> dict[str, tuple[Any, Any]]:
    """Return what they say differently."""
    keys = one.facts.keys() | other.facts.keys()
    return {
        key: (one.facts.get(key), other.facts.get(key))
        for key in sorted(keys)
        if one.facts.get(key) != other.facts.get(key)
    }
