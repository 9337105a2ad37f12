"""What is known about a table before a scan for its orphan files, and what a scan would take.

Facts are of three kinds: measured, by reading the table's metadata; remembered, from the last scan; and guessed, from
a few requests. `objects_from` says which of them the number of objects is, on which most depends.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Engine = Literal["local", "lambda", "spark"]
ObjectsFrom = Literal["argument", "last_run", "metrics", "probe"]
HOUR_MS = 3_600_000
SAID_FROM: Mapping[ObjectsFrom, str] = {
    "argument": "as the caller says",
    "last_run": "by the last scan",
    "metrics": "by the bucket's metrics",
    "probe": "by a first look",
}


@dataclass(frozen=True, slots=True)
class InventoryFacts:
    """An S3 Inventory that lists the table."""

    age_ms: int
    objects: int | None = None
    files: int = 1
    size_bytes: int = 0
    max_age_ms: int = 72 * HOUR_MS
    """An older one is not taken unasked: what became an orphan since waits for another scan."""

    @property
    def is_fresh(self) -> bool:
        """Tell whether it is recent enough."""
        return self.age_ms <= self.max_age_ms


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """What there is of Spark."""

    executors: int = 0
    """0: a session on this machine."""
    cores: int = 2
    """Of each executor, or of this machine."""
    start_s: float = 12.0
    """Until executors work."""

    @property
    def is_emr(self) -> bool:
        """Tell whether its hours are paid for."""
        return self.executors > 0


@dataclass(frozen=True, slots=True)
class LocalFacts:
    """What one process may use."""

    memory_mib: int = 1024
    seconds: float = 900.0
    cores: float = 1.0
    """Share of a core of the machine on which was measured; Lambda gives one for 1769 MiB."""
    is_lambda: bool = False
    """Its seconds are paid for."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about a table, and where a scan of it could run."""

    objects: int
    """Below the table and its owned external roots, orphans included."""
    objects_from: ObjectsFrom
    roots: int = 1
    """Snapshots, tags and changelogs of all branches."""
    branches: int = 0
    """Beside main."""
    branches_with_snapshots: int = 1
    """Main included: behind the newest of each is looked for a newer one."""
    root_pages: int = 0
    """Pages of listings of roots beyond one for each folder."""
    schemas: int = 1
    lists: int = 2
    """Manifest lists that the roots name, each once."""
    index_manifests: int = 0
    manifests: int = 1
    """That the roots name, each once."""
    new_manifests: int | None = None
    """Of them those that no scan has decoded yet; `None`: all."""
    entries: int = 0
    """In all of these manifests."""
    new_entries: int | None = None
    manifest_bytes: int = 0
    segments: int = 0
    """In which earlier scans keep the names of manifests."""
    places: int = 1
    """The table, and external roots that are listed."""
    shards: int | None = None
    """Ranges of keys with which the listing of a fan-out begins; `None`: not known yet."""
    quarantine: bool = False
    is_paid: bool = True
    """Requests to its store cost something."""
    local: LocalFacts = field(default_factory=LocalFacts)
    has_fan_out: bool = False
    workers: int = 10
    """Workers of the fan-out at once."""
    spark: SparkFacts | None = None
    inventory: InventoryFacts | None = None

    @property
    def undecoded(self) -> int:
        """Return how many manifests a fan-out has to decode."""
        return self.manifests if self.new_manifests is None else min(self.new_manifests, self.manifests)

    @property
    def undecoded_entries(self) -> int:
        """Return how many entries they have."""
        if self.new_entries is not None:
            return self.new_entries
        return self.entries * self.undecoded // max(1, self.manifests)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a scan would take."""

    engine: Engine
    seconds: float
    requests: Mapping[str, int]
    """To S3, by kind."""
    read_bytes: int = 0
    units: Mapping[str, float] = field(default_factory=dict)
    """Of what is paid for, by the name of its price (`lakesweep.model.prices`)."""
    usd: float = 0.0
    by_step: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The requests of each step of a fan-out."""
    inventory: bool = False
    """With an inventory in place of a listing."""

    @property
    def request_count(self) -> int:
        """Return the requests of all kinds together."""
        return sum(self.requests.values())

    @property
    def name(self) -> str:
        """Return what to call it."""
        return f"{self.engine} with the inventory" if self.inventory else self.engine

    def to_json(self) -> dict[str, object]:
        """Return the form in which it is printed and kept."""
        return {
            "engine": self.engine,
            "inventory": self.inventory,
            "seconds": round(self.seconds, 1),
            "requests": dict(self.requests),
            "by_step": {step: dict(requests) for step, requests in self.by_step.items()},
            "read_bytes": self.read_bytes,
            "lambda_gb_s": round(self.units.get("lambda_gb_second", 0.0), 1),
            "sqs_requests": round(self.units.get("sqs_standard", 0.0)),
            "emr_vcpu_h": round(self.units.get("emr_vcpu_hour", 0.0), 3),
            "emr_gb_h": round(self.units.get("emr_gb_hour", 0.0), 3),
            "usd": round(self.usd, 6),
        }
