"""The fleet policy as a value: its rules, whose pauses end, and what they say together about a table.

`model/policy.py` says how rules add up, `model/fleet_document.py` reads the document.
"""

from dataclasses import dataclass, replace
from functools import reduce

from lakesweep.model.control_retention import ControlRetention
from lakesweep.model.pause import EVERY_TABLE, Paused, is_over
from lakesweep.model.policy import FleetRule


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """A valid policy document."""

    location: str
    rules: tuple[FleetRule, ...]
    etag: str | None = None
    """ETag of the document, if the store has one."""
    pause: Paused = False
    """Of every table, unless a rule says something else."""
    control: ControlRetention | None = None
    """How long Lakesweep keeps its own documents; `None`: not stated."""

    @property
    def pauses(self) -> dict[str, Paused]:
        """Return folder -> what is stated about its pause; the document's own is that of `EVERY_TABLE`."""
        of_rules = {each.tables: each.pause for each in self.rules if "pause" in each.deciders}
        return {**({EVERY_TABLE: self.pause} if self.pause else {}), **of_rules}

    def at(self, now_ms: int) -> "FleetPolicy":
        """Return the policy without the pauses that are over at a time."""
        rules = tuple(each.unpaused() if is_over(each.pause, now_ms) else each for each in self.rules)
        return replace(self, rules=rules, pause=False if is_over(self.pause, now_ms) else self.pause)

    def rules_for(self, table: str) -> tuple[FleetRule, ...]:
        """Return the rules that match `table`, the longest folder last; first of all the document's own pause."""
        found = sorted((each for each in self.rules if each.holds_for(table)), key=lambda each: len(each.tables))
        if not self.pause:
            return tuple(found)
        return (FleetRule(EVERY_TABLE, pause=self.pause, deciders={"pause": EVERY_TABLE}), *found)

    def rule_for(self, table: str) -> FleetRule | None:
        """Return what all matching rules together say about `table`, `None` if no rule matches."""
        found = self.rules_for(table)
        return reduce(lambda outer, rule: rule.within(outer), found) if found else None
