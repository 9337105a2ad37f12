"""The arguments of `compact`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.parameters.parameter import stated

MAX_BYTES = 64 << 30
"""A run rewrites no more bytes than these, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class CompactArguments:
    """The arguments of `compact`."""

    catalog: Catalog = field(default_factory=Catalog)
    partitions: tuple[str | Mapping[str, object], ...] = ()
    """Only these partitions, as for `drop-partition`; none: all."""
    full: bool = False
    """Rewrite every file that shares its partition with another one, or has deleted rows."""
    only: frozenset[str] | None = None
    """Rewrite the data files with these names alone, whatever it pays, as far as they have deleted rows."""
    max_bytes: int = MAX_BYTES
    """The most bytes of data files that the run rewrites."""
    max_partition_bytes: int | None = None
    """The most bytes of a partition; `None`: no limit of its own."""
    idle_ms: int | None = None
    """Only partitions into which nobody wrote for longer than this; `None`: all."""
    level_0_ms: int | None = None
    """With a primary key: only if a file of level 0 is older than this; `None`: always."""
    sole_compactor: bool = False
    """With a primary key: neither a writer nor another job compacts the table, as somebody declares."""
    unattended: bool = False
    """No person watches the call."""
    zone: str | None = None
    """The zone of the writers' clocks: when files were written, and are. `None`: as the fleet policy declares it."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        return {
            **stated(partition=self.partitions, full=self.full, time_zone=self.zone, options=self.options),
            **stated(sole_compactor=self.sole_compactor, level_0_age_ms=self.level_0_ms),
            **({"max_bytes": self.max_bytes} if self.max_bytes != MAX_BYTES else {}),
            **stated(max_partition_bytes=self.max_partition_bytes, partition_idle_ms=self.idle_ms),
            **self.catalog.to_json(),
        }
