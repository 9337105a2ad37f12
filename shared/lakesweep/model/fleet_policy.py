"""The fleet policy: what unattended maintenance may do to which table, in one document for many tables.

A *rule* names a folder and applies to every table at or below it. If several rules match, only the one with the longest
folder applies. A rule allows deletion (`mode`) or stops it (`pause`). It may demand to keep more than the table's own
options say, never less. It sets the retention only for tables whose schema states none.

`model/fleet_document.py` reads the document.
"""

from dataclasses import dataclass
from typing import Literal

from lakesweep.model.policy import SnapshotRetention
from lakesweep.model.tag_rules import KeepRules

Mode = Literal["observe", "delete"]


@dataclass(frozen=True, slots=True)
class FleetRule:
    """The rules for the tables of one folder."""

    tables: str
    """The folder in its normal spelling, without a trailing slash."""
    mode: Mode = "observe"
    """`observe`: plan and report, delete nothing."""
    paused: bool = False
    floor: SnapshotRetention | None = None
    """A snapshot is only deleted if these rules allow it, too."""
    protect_commit_users: tuple[str, ...] = ()
    """The last snapshot of each of these users is kept."""
    retention: SnapshotRetention | None = None
    """The rules for tables whose schema states none."""
    time_zone: str | None = None
    """The zone of tag names, tag times and days, if neither the table nor the call states one."""
    tags: tuple[KeepRules, ...] = ()
    """Calendar rules of tags. A tag that matches a rule, and that no rule keeps, is deleted."""
    external_roots: tuple[str, ...] | None = None
    """Below these locations, files outside the tables may be deleted; `None`: the rule does not say."""

    def holds_for(self, table: str) -> bool:
        """Tell whether a table, spelled as `tables`, is this folder or lies below it."""
        return table == self.tables or table.startswith(self.tables.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class FleetPolicy:
    """A valid policy document."""

    location: str
    rules: tuple[FleetRule, ...]
    etag: str | None = None
    """ETag of the document, if the store has one."""

    def rule_for(self, table: str) -> FleetRule | None:
        """Return the rule with the longest folder that applies to `table`, `None` if no rule does."""
        return max(
            (rule for rule in self.rules if rule.holds_for(table)), key=lambda rule: len(rule.tables), default=None
        )
