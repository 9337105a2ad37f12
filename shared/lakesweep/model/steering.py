"""Facts in a plan that decide how a run executes, undoes or reports it, beyond the plan's actions.

The plan's content hash covers them. The findings of a plan are for people alone and decide nothing.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lakesweep.errors import FormatError, RefusedError

UNSUPPORTED_PLAN = "unsupported_plan"
"""Code of a stored plan in a format of another Lakesweep version, which that version can carry out."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_MAX_NUMBER = 1 << 63


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

    run_id: str
    plan_id: str
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
    facts = _fields(document, _FACTS, f"{path}: steering")
    for name in ("complete_roots", "incomplete_roots"):
        if name in facts:
            facts[name] = tuple(facts[name])
    if "target" in facts:
        facts["target"] = Target(**_fields(facts["target"], _TARGET, f"{path}: target", are_all_needed=True))
    if "undone" in facts:
        facts["undone"] = Undone(**_fields(facts["undone"], _UNDONE, f"{path}: undone", are_all_needed=True))
    return Steering(**facts)


def _fields(
    document: object, types: Mapping[str, Callable[[object], bool]], path: str, *, are_all_needed: bool = False
) -> dict[str, Any]:
    """Return the fields of a JSON object, each of the expected type."""
    if not isinstance(document, dict):
        raise FormatError(f"{path}: expected an object, found {type(document).__name__}")
    unknown = sorted(document.keys() - types.keys())
    if unknown:
        raise RefusedError(
            f"{path}: expected only {', '.join(types)}, found {unknown[0]!r}, which another version of Lakesweep "
            "wrote; execute the plan with that version, or make a new plan",
            code=UNSUPPORTED_PLAN,
        )
    for name, is_valid in types.items():
        if (name in document or are_all_needed) and not is_valid(document.get(name)):
            raise FormatError(f"{path}: expected a valid {name}, found {document.get(name)!r:.100}")
    return dict(document)


def _is_number(value: object) -> bool:
    return type(value) is int and -_MAX_NUMBER <= value < _MAX_NUMBER


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


_TARGET: Mapping[str, Callable[[object], bool]] = {
    "snapshot": _is_number,
    "tag": lambda value: value is None or isinstance(value, str),
    "time_ms": _is_number,
}
_UNDONE: Mapping[str, Callable[[object], bool]] = {"run_id": _is_id, "plan_id": _is_id, "operation": _is_text}
_FACTS: Mapping[str, Callable[[object], bool]] = {
    "complete_roots": _are_texts,
    "incomplete_roots": _are_texts,
    "target": lambda value: isinstance(value, dict),
    "undone": lambda value: isinstance(value, dict),
    "is_damaged": lambda value: type(value) is bool,
}
