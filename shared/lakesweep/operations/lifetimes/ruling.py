"""What the fleet policy says about a table, as `show`, `explain`, `check` and `policy test` say it."""

from dataclasses import dataclass, fields
from typing import Literal

from lakesweep.model.policy import FleetRule
from lakesweep.runs.fleet import Ruling, may_delete, rule_of, why_kept

FIELDS = tuple(each.name for each in fields(FleetRule) if each.name not in ("tables", "deciders"))
"""The fields of a rule, in the order of the output."""
Treatment = Literal["delete", "observe", "paused"]


@dataclass(frozen=True, slots=True)
class StatedField:
    """One field of the fleet policy that is in force for the table."""

    field: str
    value: object
    rule: str
    """The folder of the rule that decided it."""


@dataclass(frozen=True, slots=True)
class ShownRuling:
    """The fleet policy about one table."""

    location: str
    treatment: Treatment
    """What a pass does: `delete`; `observe`: plan, and delete nothing; `paused`: nothing."""
    says: str
    """The sentence about the treatment, with the folder of the rule that decided it."""
    fields: tuple[StatedField, ...]

    @property
    def excuse(self) -> str | None:
        """Why no pass deletes anything; `None`: passes delete."""
        return None if self.treatment == "delete" else self.says

    def rule_for(self, field: str) -> str | None:
        """Return the folder of the rule that decided a field."""
        return next((each.rule for each in self.fields if each.field == field), None)


def shown_ruling(ruling: Ruling | None) -> ShownRuling | None:
    """Return what the policy says; `None` without a policy."""
    return None if ruling is None else show_ruling(ruling)


def show_ruling(ruling: Ruling) -> ShownRuling:
    """Return what the policy says."""
    rule = rule_of(ruling)
    treatment: Treatment = "delete" if may_delete(ruling) else "paused" if rule.pause else "observe"
    says = f"policy {ruling.policy} says of {rule.deciders.get('mode')} to delete"
    stated = tuple(
        StatedField(field, value_of(rule, field), rule.deciders[field]) for field in FIELDS if field in rule.deciders
    )
    return ShownRuling(ruling.policy, treatment, says if treatment == "delete" else why_kept(ruling), stated)


def value_of(rule: FleetRule, field: str) -> object:
    """Return a field of a rule as a JSON value."""
    value = getattr(rule, field)
    if isinstance(value, tuple):
        return [each if isinstance(each, str) else each.to_json() for each in value]
    return value.to_json() if hasattr(value, "to_json") else value
