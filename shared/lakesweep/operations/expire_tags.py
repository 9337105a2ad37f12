"""`expire_tags`: remove tags that their time to live or the calendar lets go, and the files that only they hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.model.plan import Plan
from lakesweep.model.tag_rules import KeepRules
from lakesweep.operations.context import Table
from lakesweep.operations.draft import Draft

OPERATION = "expire_tags"


@dataclass(frozen=True, slots=True)
class ExpireTagsArguments:
    """What a caller may ask for."""

    older_than_ms: int | None = None
    """Tags that were made before go, with a time to live or without."""
    keep: tuple[KeepRules, ...] = ()
    """Calendar rules, those of the fleet policy among them."""
    time_zone: str | None = None
    """In which times of creation and the calendar are read; else that of the fleet policy."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""
    is_pass: bool = False
    """The pass after a commit: `tag.time-expire-enabled` counts."""
    counts: bool = False
    """Tags were just made, so that those beyond `tag.num-retained-max` go as well."""


def plan_expire_tags(table: Table, arguments: ExpireTagsArguments, draft: Draft | None = None) -> Plan:
    """Plan the removal of tags that are due."""
    raise NotImplementedError
