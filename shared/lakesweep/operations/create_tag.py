"""`create_tag` and `replace_tag`: give a snapshot a name that outlives it."""

from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.model.plan import Plan
from lakesweep.operations.context import Table

CREATE = "create_tag"
REPLACE = "replace_tag"


@dataclass(frozen=True, slots=True)
class TagArguments:
    """What a caller may ask for. Of the four sources at most one; without any it is the newest snapshot."""

    name: str
    snapshot_id: int | None = None
    source_tag: str | None = None
    """The snapshot of this tag."""
    timestamp_ms: int | None = None
    watermark: int | None = None
    time_retained_ms: int | None = None
    ignore_if_exists: bool = False
    time_zone: str | None = None
    """In which the time of creation is written down; else that of the fleet policy, else UTC."""

    def to_json(self) -> Mapping[str, object]:
        """Return the arguments that were given."""
        given = {
            "tag": self.name,
            "snapshot": self.snapshot_id,
            "from_tag": self.source_tag,
            "timestamp": self.timestamp_ms,
            "watermark": self.watermark,
            "time_retained_ms": self.time_retained_ms,
            "ignore_if_exists": self.ignore_if_exists or None,
            "time_zone": self.time_zone,
        }
        return {key: value for key, value in given.items() if value is not None}


def plan_create_tag(table: Table, arguments: TagArguments) -> Plan:
    """Plan a new tag."""
    raise NotImplementedError


def plan_replace_tag(table: Table, arguments: TagArguments) -> Plan:
    """Plan to let a tag name another snapshot."""
    raise NotImplementedError
