"""Facts in a plan that decide how a run executes, undoes or reports it, beyond the plan's actions.

The plan's content hash covers them. The findings of a plan are for people alone and decide nothing.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from lakesweep.errors import RefusedError
from lakesweep.format.codec import Id, from_json

UNSUPPORTED_PLAN = "unsupported_plan"
"""Code of a stored plan in a format of another Lakesweep version, which that version can carry out."""


@dataclass(frozen=True, slots=True)
class Target:
    """The snapshot that a branch rewrite makes the newest."""

    snapshot: int
    """Its id."""
    tag: str | None
    """The tag that holds it, `None` if the branch has the snapshot."""
    time_ms: int
    """When it was committed."""


@dataclass(frozen=True, slots=True)
class Undone:
    """The branch rewrite that an undo reverts."""

    run_id: Id
    plan_id: Id
    operation: str


@dataclass(frozen=True, slots=True)
class Steering:
    """The deciding facts of one plan. A fact that is not stated has the safe meaning."""

    complete_roots: tuple[str, ...] | None = None
    """Paths of the roots that must be complete after a branch rewrite; otherwise the run undoes its changes. Each
    branch rewrite states them, and no other plan does."""
    incomplete_roots: tuple[str, ...] | None = None
    """Paths of the roots that lacked files when a scan for orphan files made the plan. `None`: any root may have lacked
    some, so a recheck reads all of them again."""
    target: Target | None = None
    undone: Undone | None = None
    is_damaged: bool = False
    """The planner noticed damage of the table, so the run never ends as a success."""

    def to_json(self) -> dict[str, Any]:
        """Return the stated facts; `steering_of` reads them."""
        stated = {name: value for name, value in asdict(self).items() if value is not None and value is not False}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in stated.items()}

    def shown(self) -> dict[str, Any]:
        """Return the facts that a report shows among the findings, under the names for people."""
        facts = self.to_json()
        names = {"target": "target", "undone": "undone", "complete_roots": "whole"}
        return {shown: facts[name] for name, shown in names.items() if name in facts}

    @property
    def digest(self) -> int:
        """Return a hash of the stated facts; 0 if there are none. Then the plan has the hash of its actions."""
        facts = self.to_json()
        if not facts:
            return 0
        text = "steering\0" + json.dumps(facts, sort_keys=True, separators=(",", ":"))
        return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")


def steering_of(document: object, path: str) -> Steering:
    """Return the steering in a stored plan.

    Args:
        document: A JSON value.
        path: Of the plan, for messages.

    Raises:
        RefusedError: It states a fact that this version does not know: `unsupported_plan`.
        FormatError: It is damaged.
    """
    facts = from_json(dict[str, object], document, path, "steering")
    refuse_unknown(facts, _FACTS, f"{path}: steering")
    for name, value in facts.items():
        if isinstance(value, dict) and is_dataclass(kind := _FACTS[name]):
            refuse_unknown(value, [each.name for each in fields(kind)], f"{path}: {name}")
    return Steering(**{name: from_json(_FACTS[name], value, path, name) for name, value in facts.items()})


def refuse_unknown(found: Iterable[str], known: Collection[str], what: str) -> None:
    """Refuse a stored plan with a member that this version does not know.

    Raises:
        RefusedError: With code `unsupported_plan`.
    """
    unknown = sorted(set(found).difference(known))
    if unknown:
        raise RefusedError(
            f"{what}: expected only {', '.join(known)}, found {unknown[0]!r}, which another version of Lakesweep "
            "wrote; execute the plan with that version, or make a new plan",
            code=UNSUPPORTED_PLAN,
        )


_FACTS: Mapping[str, Any] = {
    "complete_roots": tuple[str, ...],
    "incomplete_roots": tuple[str, ...],
    "target": Target,
    "undone": Undone,
    "is_damaged": bool,
}
"""The type of each fact where a plan states it."""
