"""What a table would keep under other rules: the document of `lakesweep simulate`, from which pages are drawn, too.

Times are epoch milliseconds, ages milliseconds, amounts of money list prices in US dollars (`model/prices.py`).

Counted are the files that roots of any branch name: data files with their extra files, changelog files, manifests,
lists, index files, statistics, and the documents of the roots. Not counted are orphan files, hints, schemas, and object
versions that are not current.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.format.codec import to_json

PRESENT = "present policy"
"""The name of the first case: the rules of the table and of the fleet policy, as a pass follows them."""
MAX_POINTS = 200
"""A curve or a history has at most this many points."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one case for one table."""

    retain_min: int
    retain_max: int | None
    """`None`: no maximum."""
    time_retained_ms: int
    min_snapshots: int | None = None
    """The fleet policy keeps the newest this many, whatever the rules above say; `None`: it states no minimum."""
    min_time_retained_ms: int | None = None
    """The fleet policy keeps what is younger than this; `None`: it states no minimum."""
    tag_rules: tuple[str, ...] = ()
    """Calendar rules for tags, such as `keep_daily 7`, the fleet policy's included."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Roots and files."""

    snapshots: int = 0
    """Of the branch."""
    tags: int = 0
    """Of the branch."""
    data_files: int = 0
    """With changelog files and extra files."""
    metadata_files: int = 0
    """Manifests, lists, index files, statistics, and documents of roots."""
    data_bytes: int = 0
    metadata_bytes: int = 0
    bytes: int = 0
    """Both together."""
    usd_month: float = 0.0
    """What storing these bytes costs in a month."""


Outcome = Literal["kept", "holds_back", "protected", "lost"]
"""`kept`: the rules keep its snapshot anyway. `holds_back`: only the consumer keeps snapshots. `protected`: the
protection of the commit user keeps snapshots. `lost`: its snapshot is gone or would expire. Then a reader cannot
continue there, and a writer that restarts commits recovered data again."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A consumer, or a streaming commit user, and what a case would do to its snapshot."""

    kind: Literal["consumer", "commit_user"]
    name: str
    snapshot_id: int
    """The next snapshot of a consumer, the last one of a commit user."""
    outcome: Outcome
    snapshots: int = 0
    """Snapshots that this one alone would hold back."""
    bytes: int = 0
    """What they keep."""


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """What a case would have kept right after a commit."""

    time_ms: int
    snapshots: int
    bytes: int


@dataclass(frozen=True, slots=True)
class History:
    """What a case would have kept over the last days. Consumers are left out, since their past is unknown."""

    peak_bytes: int
    peak_ms: int
    average_bytes: int
    """Weighted by time."""
    points: tuple[HistoryPoint, ...] = ()
    """The oldest first, at most `MAX_POINTS` of them."""


@dataclass(frozen=True, slots=True)
class Case:
    """A policy, and what it keeps of one table."""

    name: str
    rules: Rules
    kept: Amount
    deleted: Amount
    """What is there now and would go, without the limit of one run."""
    oldest_snapshot_id: int | None
    """The oldest snapshot that is kept."""
    reaches_ms: int | None
    """Its commit: time travel to an earlier time finds no snapshot, except for tags. `None`: no snapshot."""
    readers: tuple[Reader, ...] = ()
    """The ones that hold something back or lose something first."""
    history: History | None = None
    """`None`: not asked for, or no commit in that time."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What is kept if snapshots are kept for at least this age, and no maximum applies."""

    age_ms: int
    """From this age on, up to the age of the next point."""
    snapshots: int
    bytes: int
    usd_month: float


@dataclass(frozen=True, slots=True)
class TableSimulation:
    """One table."""

    table: str
    """Its normalised location."""
    name: str
    """Below the place that was asked for, such as `sales.db/orders`; of one table, the last part of its location."""
    branch: str
    measured_ms: int
    problem: str | None = None
    """Why it could not be simulated. Then there are no figures."""
    problem_code: str | None = None
    history_begins_ms: int | None = None
    """The commit of the oldest snapshot that still exists. What was before is unknown."""
    now: Amount = field(default_factory=Amount)
    """What is there now."""
    always_bytes: int = 0
    """Of `now`, what roots of other branches and changelogs hold under every policy."""
    cases: tuple[Case, ...] = ()
    """The present policy first."""
    curve: tuple[CurvePoint, ...] = ()
    """By age, ascending: a step function. The other rules are those of the present policy, without its maximum."""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        document: dict[str, object] = to_json(self)
        return document


@dataclass(frozen=True, slots=True)
class CaseTotal:
    """A policy, and what it keeps of all tables."""

    name: str
    kept: Amount
    deleted: Amount
    lost_readers: int = 0
    peak_bytes: int | None = None
    """The sum of the peaks of the tables, which may lie at different times; `None`: no history."""
    average_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Simulation:
    """Everything that `lakesweep simulate` says, of one table or of many."""

    place: str
    """What was asked for: a table, a database or a warehouse."""
    measured_ms: int
    days: int | None
    """The days of the history; `None`: not asked for."""
    prices_date: str
    region: str
    now: Amount
    """The sums over all tables that could be simulated, as `cases` and `curve`."""
    cases: tuple[CaseTotal, ...]
    """The present policy first."""
    curve: tuple[CurvePoint, ...]
    failed: int = 0
    """Tables that could not be simulated."""
    tables: tuple[TableSimulation, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        document: dict[str, object] = to_json(self)
        return document
