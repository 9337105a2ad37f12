"""The arguments of the operations that commit: `drop-partition`, `truncate` and `expire-partitions`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.parameters.parameter import stated


@dataclass(frozen=True, slots=True)
class DropArguments:
    """The arguments of `drop-partition`. Source: Paimon `DropPartitionProcedure`."""

    specs: tuple[str | Mapping[str, object], ...]
    """Partitions: text such as `dt=20240101,hr=08`, or keys with values, where `None` is null. A spec without all
    partition keys means every partition with its values."""
    catalog: Catalog = field(default_factory=Catalog)
    fallback_reappears: bool = False
    """The caller knows that a fallback branch shows its copy of a dropped partition again."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        specs = tuple(spec if isinstance(spec, str) else dict(spec) for spec in self.specs)
        return {
            **stated(partition=specs, fallback_reappears=self.fallback_reappears, options=self.options),
            **self.catalog.to_json(),
        }


@dataclass(frozen=True, slots=True)
class TruncateArguments:
    """The arguments of `truncate`."""

    catalog: Catalog = field(default_factory=Catalog)
    fallback_reappears: bool = False
    """The caller knows that a fallback branch shows its rows again."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        return {
            **stated(fallback_reappears=self.fallback_reappears, options=self.options),
            **self.catalog.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ExpirePartitionsArguments:
    """The arguments of `expire-partitions`. Source: Paimon `ExpirePartitionsProcedure`."""

    catalog: Catalog = field(default_factory=Catalog)
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call, with the procedure's own arguments: `expiration_time` is
    `partition.expiration-time`, and so on."""
    time_zone: str | None = None
    """The zone of the writers' clocks and of times in partition values; `None`: as the fleet policy declares it."""
    force_check: bool = False
    """Check now, even if the last check is more recent than `partition.expiration-check-interval`."""
    unattended: bool = False
    """No person watches the call."""
    otherwise: Mapping[str, str] = field(default_factory=dict)
    """`partitions` of the fleet policy: table options for a table whose schema states no expiration time."""

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        policy = {"partitions": dict(self.otherwise)} if self.otherwise else {}
        return {
            **stated(time_zone=self.time_zone, force_check=self.force_check, fleet_policy=policy, options=self.options),
            **self.catalog.to_json(),
        }
