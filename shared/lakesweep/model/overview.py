"""The overview of a warehouse: for each table what its bytes are for, what it costs, and what a person should do.

`lakesweep overview --json` prints this document, and the page of `--html` is drawn from it. Times are epoch
milliseconds, amounts of money are list prices in US dollars (`model/prices.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.format.codec import to_json

Severity = Literal["act", "look"]
"""`act`: something is lost, or is about to be. `look`: money or readers are affected."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """Objects that exist for one reason."""

    reason: str
    """As in `explain`: `current`, `snapshots`, `expired`, `tags`, `branches`, `orphan`, ..."""
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know about a table."""

    code: str
    """A stable word, such as `damaged_root`, `commit_replaced`, `missing_files`, `retention_not_stated`."""
    severity: Severity
    says: str
    """A sentence without a full stop."""
    command: str | None = None
    """The command that mends it or shows more."""


@dataclass(frozen=True, slots=True)
class Pin:
    """What keeps old files of a table."""

    kind: Literal["tag", "branch", "consumer"]
    name: str
    snapshot_id: int
    bytes: int | None = None
    """The bytes that would be freed without it; `None`: not measured."""


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """A table after one of its snapshots. Snapshots that are gone are not in the history."""

    snapshot_id: int
    time_ms: int
    rows: int | None
    bytes: int | None
    """Bytes of its data files; `None`: not measured."""


@dataclass(frozen=True, slots=True)
class Span:
    """A root in the timeline."""

    kind: Literal["snapshot", "tag", "branch", "changelog", "consumer"]
    name: str
    """The id of a snapshot or changelog, else the name."""
    time_ms: int
    """When its snapshot was committed; of a branch, its oldest root."""
    snapshot_id: int
    until_ms: int | None = None
    """Its age alone would let it expire then; `None`: unknown, or never."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The last pass over a table, or its last scan for orphan files."""

    at_ms: int
    status: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the runs over a table cost and freed in one month (UTC)."""

    month: str
    """Such as `2026-11`."""
    runs: int
    requests: Mapping[str, int]
    usd: float
    freed_bytes: int
    freed_usd_month: float
    """What storing the freed bytes would cost in a month."""
    since_ms: int | None = None
    """Runs before this time are not in it; `None`: the whole month is. Of several tables, the latest time."""
    unknown: int = 0
    """Runs of which the cost or the freed bytes are not known; the rest of them is in the sums."""


@dataclass(frozen=True, slots=True)
class TableOverview:
    """One table."""

    table: str
    """Its normalised location."""
    name: str
    """Below the warehouse, such as `sales.db/orders`."""
    measured_ms: int
    """When its objects were listed. If `is_remembered`, an earlier overview did."""
    is_remembered: bool = False
    problem: str | None = None
    """Why it could not be read. Then there are no figures."""
    problem_code: str | None = None
    has_primary_key: bool = False
    is_partitioned: bool = False
    objects: int = 0
    bytes: int = 0
    """Of current object versions. The bytes of `reasons` add up to this."""
    rows: int | None = None
    live_files: int | None = None
    """Data files of the newest snapshot of main; `None`: there is none, or not all of its metadata can be read."""
    live_bytes: int | None = None
    reasons: tuple[Bytes, ...] = ()
    """In the order of `explain`."""
    noncurrent_count: int | None = None
    """Versions that are not current; `None`: the bucket keeps none, or they were not counted."""
    noncurrent_bytes: int | None = None
    snapshots: int = 0
    """Of main."""
    branches: tuple[str, ...] = ()
    """All of them, main included."""
    tags: int = 0
    """Of main."""
    latest_ms: int | None = None
    """When the newest snapshot of main was committed."""
    oldest_root_ms: int | None = None
    """When the snapshot of the oldest root of any branch was committed."""
    small_files: int | None = None
    """Live data files below 16 MiB, half of the smallest size that Paimon writes by default without compaction; `None`
    as for `live_files`."""
    small_bytes: int | None = None
    deleted_share: float | None = None
    """Of the rows of live files, the share that deletion vectors delete; `None`: no vectors, or unknown."""
    level_0_files: int | None = None
    """`None`: no primary key, or as for `live_files`."""
    level_0_since_ms: int | None = None
    """When the oldest of them was written, as its writer's clock says without its zone; `None`: unknown, or none."""
    last_pass: Pass | None = None
    last_scan: Pass | None = None
    pins: tuple[Pin, ...] = ()
    findings: tuple[Finding, ...] = ()
    """The most severe first."""
    usd_month: float = 0.0
    """What storing the table costs, versions that are not current included."""
    saving_bytes: int = 0
    """What a pass would delete now, and a scan of the orphan files; by Paimon's defaults if no retention is stated. A
    scan that would be refused, since snapshots may be lost, saves nothing, and neither does a pass if the newest
    snapshot of main cannot be read."""
    saving_usd_month: float = 0.0
    receipts: tuple[Receipt, ...] | None = ()
    """The newest month first, at most twelve; `None`: unknown. See `control/receipts.py`."""
    growth: tuple[GrowthPoint, ...] = ()
    """The oldest snapshot first, at most 60 of them."""
    timeline: tuple[Span, ...] = ()
    """The oldest first, at most 60 of them."""

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        document: dict[str, object] = to_json(self)
        return document


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over all tables that could be read."""

    tables: int
    failed: int
    """Tables that could not be read. The sums do not contain them."""
    objects: int
    bytes: int
    noncurrent_bytes: int
    """Without those of tables with the finding `versions_not_counted`, as `usd_month`."""
    usd_month: float
    saving_bytes: int
    saving_usd_month: float
    findings: int
    reasons: tuple[Bytes, ...]
    receipts: tuple[Receipt, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that `lakesweep overview` says."""

    place: str
    """What was asked for: a warehouse, a database, or a list of tables."""
    measured_ms: int
    prices_date: str
    region: str
    totals: Totals
    tables: tuple[TableOverview, ...] = ()
    """The one on which a person should act first is first."""
    skipped: int = 0
    """Folders of databases that are no tables."""
    requests: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        document: dict[str, object] = to_json(self)
        return document
