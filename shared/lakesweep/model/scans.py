"""Orphan scans: their arguments, what is known about a table before one, what it would take, and what that costs.

Facts are measured (by reading the table's metadata), remembered (from the last scan) or guessed (from a few requests).
The estimate depends most on the number of objects; `objects_from` says where this number comes from.

`prices` says what these things cost.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.errors import UsageError

PARALLELISM = 8
MAX_PARALLELISM = 64
_SCAN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

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
class OrphanArguments:
    """The arguments of a call."""

    older_than_ms: int | None = None
    """Only files written before this time may be deleted; default: a day ago."""
    no_writers: str | None = None
    """Why files younger than a day may be deleted: a reason in words, which the plan records."""
    quarantine_ms: int | None = None
    """An orphan is deleted only if a scan saw it at least this long ago."""
    parallelism: int = PARALLELISM
    """Number of listings at a time."""
    owned_external: tuple[str, ...] = ()
    """External roots that hold files of this table alone. Below other external roots nothing is deleted."""
    inventory: str | None = None
    """Location of an S3 Inventory to read instead of a listing."""
    age_ms: int | None = None
    """The same as a duration before the scan begins."""
    no_history: str | None = None
    """Why a branch may have a schema but no snapshot: a reason in words, which the plan records."""

    @property
    def may_lack_history(self) -> bool:
        """Tell whether the caller gives a reason why a branch has no snapshot."""
        return bool((self.no_history or "").strip())

    def to_json(self) -> dict[str, object]:
        """Return the arguments as the plan records them."""
        return {
            "older_than_ms": self.older_than_ms,
            "no_writers": self.no_writers,
            "quarantine_ms": self.quarantine_ms,
            "owned_external": list(self.owned_external),
            **({} if self.age_ms is None else {"age_ms": self.age_ms}),
            **({"inventory": self.inventory} if self.inventory else {}),
            **({"no_history": self.no_history} if self.no_history else {}),
        }


def check_scan_id(scan_id: str) -> None:
    """Refuse an invalid id.

    Raises:
        UsageError: The id is invalid.
    """
    if not _SCAN_ID.fullmatch(scan_id):
        raise UsageError(
            f"scan_id: expected letters, digits, dots, dashes and underscores, at most 100, found {scan_id[:200]!r}",
            code="bad_argument",
        )


@dataclass(frozen=True, slots=True)
class InventoryFacts:
    """An S3 Inventory that lists the table."""

    age_ms: int
    objects: int | None = None
    files: int = 1
    size_bytes: int = 0
    max_age_ms: int = 72 * HOUR_MS
    """Lakesweep does not choose an older inventory by itself: files orphaned since then would wait for another scan."""

    @property
    def is_fresh(self) -> bool:
        """Tell whether it is recent enough."""
        return self.age_ms <= self.max_age_ms


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """The Spark that is available."""

    executors: int = 0
    """0: a local session on this machine."""
    cores: int = 2
    """Cores of each executor, or of this machine."""
    start_s: float = 12.0
    """Time until executors work."""

    @property
    def is_emr(self) -> bool:
        """Tell whether its hours cost something."""
        return self.executors > 0


@dataclass(frozen=True, slots=True)
class LocalFacts:
    """The resources of one process."""

    memory_mib: int = 1024
    seconds: float = 900.0
    cores: float = 1.0
    """Cores, measured in cores of the benchmark machine; Lambda gives one for 1769 MiB."""
    is_lambda: bool = False
    """Its seconds cost something."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about a table, and where a scan of it could run."""

    objects: int
    """Objects below the table and its owned external roots, orphans included."""
    objects_from: ObjectsFrom
    roots: int = 1
    """Snapshots, tags and changelogs of all branches."""
    branches: int = 0
    """Branches other than main."""
    branches_with_snapshots: int = 1
    """Main included. The scan looks for a newer snapshot after the newest of each."""
    root_pages: int = 0
    """Pages of the listings of roots, beyond one for each folder."""
    schemas: int = 1
    lists: int = 2
    """Manifest lists that the roots name, each counted once."""
    index_manifests: int = 0
    manifests: int = 1
    """Manifests that the roots name, each counted once."""
    new_manifests: int | None = None
    """The manifests that no scan has decoded yet; `None`: all."""
    entries: int = 0
    """Entries in all of these manifests."""
    new_entries: int | None = None
    manifest_bytes: int = 0
    segments: int = 0
    """Segments in which earlier scans store the names from manifests."""
    places: int = 1
    """The table, and the external roots that are listed."""
    shards: int | None = None
    """Key ranges with which the listing of a fan-out begins; `None`: not known yet."""
    quarantine: bool = False
    is_paid: bool = True
    """Requests to the table's store cost something."""
    local: LocalFacts = field(default_factory=LocalFacts)
    has_fan_out: bool = False
    workers: int = 10
    """Concurrent workers of the fan-out."""
    spark: SparkFacts | None = None
    inventory: InventoryFacts | None = None

    @property
    def undecoded(self) -> int:
        """Return how many manifests a fan-out has to decode."""
        return self.manifests if self.new_manifests is None else min(self.new_manifests, self.manifests)

    @property
    def undecoded_entries(self) -> int:
        """Return how many entries the undecoded manifests have."""
        if self.new_entries is not None:
            return self.new_entries
        return self.entries * self.undecoded // max(1, self.manifests)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a scan would take."""

    engine: Engine
    seconds: float
    requests: Mapping[str, int]
    """Requests to S3, by kind."""
    read_bytes: int = 0
    units: Mapping[str, float] = field(default_factory=dict)
    """Quantities that cost something, by the name of their price (`lakesweep.model.prices`)."""
    usd: float = 0.0
    by_step: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The requests of each step of a fan-out."""
    inventory: bool = False
    """The scan reads an inventory instead of a listing."""

    @property
    def request_count(self) -> int:
        """Return the requests of all kinds together."""
        return sum(self.requests.values())

    @property
    def name(self) -> str:
        """Return the name for messages."""
        return f"{self.engine} with the inventory" if self.inventory else self.engine

    def to_json(self) -> dict[str, object]:
        """Return the form for output and storage."""
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


@dataclass(frozen=True, slots=True)
class Available:
    """The available backends."""

    local: LocalFacts = field(default_factory=LocalFacts)
    has_fan_out: bool = False
    workers: int = 10
    spark: Callable[[int], SparkFacts] | None = None
    """Returns what Spark has for a number of objects."""
    objects_in_bucket: Callable[[], int | None] | None = None
    """Returns the number from the metrics of the table's bucket, which may have other objects, too. Called only if
    there was no scan before."""
    objects: int | None = None
    """The number that the caller states."""
