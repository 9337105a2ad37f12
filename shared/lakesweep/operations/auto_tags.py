"""`auto_tags`: make the tags that a table's options ask for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.model.plan import Plan
from lakesweep.operations.context import Table
from lakesweep.operations.draft import Draft

OPERATION = "auto_tags"


@dataclass(frozen=True, slots=True)
class AutoTagArguments:
    """What a caller may ask for."""

    backfill: bool = False
    """Periods that were missed get their tags as far as a snapshot of their end is left."""
    time_zone: str | None = None
    """Else `sink.process-time-zone`, else that of the fleet policy; never the worker's."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""


def plan_auto_tags(table: Table, arguments: AutoTagArguments, draft: Draft | None = None) -> Plan:
    """Plan the tags that are due."""
    raise NotImplementedError
