"""Rules as values: the retention of snapshots and changelogs, the rules about tags, and the fleet policy.

The fleet policy says what unattended maintenance may do to which table, in one document for many tables. A *rule* of it
names a folder and applies to every table at or below it. A rule allows deletion (`mode`) or stops it (`pause`). It may
demand to keep more than the table's own options say, never less. It sets the retention only for tables whose schema
states none. `model/fleet_document.py` reads it.

If several rules match a table, each field has one *decider*: the rule with the longest folder that states the field.
Rules of longer folders add to a folder's rule, and replace only what they state. So the pause of a folder stops every
table in it, also tables with a rule of their own. Why each field follows this one way:

- `mode`: without any statement the table is observed. A rule that only protects a user keeps the folder's mode.
- `pause`: only `"pause": false` lifts the pause of a folder, so nobody lifts it unawares. A pause that is over counts
  as not stated. The document's own `pause` is that of a folder around all tables.
- `min_snapshots` and `min_time_retained` are two fields. A table's own count leaves the folder's time in force.
- `protect_commit_users`: a list replaces the folder's list, for else no table could be without the folder's users.
- `retention` is one field, since the numbers of two rules together may contradict each other, or keep too little.
- `tags` is one field: a second list would delete tags that the first keeps.
- `partitions` is one field, as `retention` is: the numbers of two rules together may drop more than either rule.
- `manifests` is one field, so that a rule says all of it: thresholds, or that nothing is compacted.
- `compaction` is one field, as `manifests` is.
- `catalog_type` and `catalog_lock` are two fields, since a lock may be declared for the tables of several catalogs.
- `external_roots` is one field: two lists together would allow deletion where neither rule alone does.

An empty value (`[]`, `{}`, `false`) is a statement like any other: none of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from typing import Literal, get_args

from lakesweep.errors import RefusedError
from lakesweep.model.pause import Paused

INT_MAX = 2_147_483_647
"""Paimon writes this number for "no maximum"."""
AutoTagMode = Literal["process-time", "watermark", "batch"]
Formatter = Literal["with_dashes", "without_dashes", "without_dashes_and_spaces"]
Mode = Literal["observe", "delete"]
CatalogType = Literal["filesystem", "hive", "jdbc", "glue", "rest"]
CATALOG_TYPES: tuple[CatalogType, ...] = get_args(CatalogType)
OWNED_BY_FILES = tuple(each for each in CATALOG_TYPES if each != "rest")
"""Catalogs that leave the publishing of snapshots to files, so that Lakesweep may commit."""


@dataclass(frozen=True, slots=True)
class _Retention:
    """The numbers of any retention."""

    retain_min: int
    retain_max: int
    time_retained_ms: int | None
    limit: int

    def to_json(self) -> dict[str, object]:
        """Return the rules as plans and `show` print them."""
        return {
            "retain_min": self.retain_min,
            "retain_max": self.retain_max,
            "time_retained_ms": self.time_retained_ms,
            "max_deletes": self.limit,
        }

    def check(self) -> None:
        """Refuse invalid numbers, and numbers that could empty a table.

        Raises:
            RefusedError: With a `code` that names the rule.
        """
        if self.retain_min < 1:
            raise RefusedError(
                f"retain_min is {self.retain_min}; expected at least 1, or the table loses its state",
                code="retain_min_below_one",
            )
        if self.retain_max < self.retain_min:
            raise RefusedError(
                f"retain_max is {self.retain_max}, retain_min is {self.retain_min}; expected retain_max >= retain_min",
                code="retain_max_below_min",
            )
        if self.limit < 1:
            raise RefusedError(f"max_deletes is {self.limit}; expected at least 1", code="limit_below_one")
        if self.time_retained_ms is not None and self.time_retained_ms < 0:
            raise RefusedError(
                f"the cutoff lies {-self.time_retained_ms} ms in the future; expected a time that has passed",
                code="cutoff_in_future",
            )


@dataclass(frozen=True, slots=True)
class SnapshotRetention(_Retention):
    """The retention of one branch's snapshots.

    Source: Paimon `CoreOptions` (`snapshot.num-retained.min`, `.max`, `snapshot.time-retained`,
    `snapshot.expire.limit`) and `ExpireConfig`.
    """

    retain_min: int = 10
    """At least this many ids are kept at any age."""
    retain_max: int = INT_MAX
    """Ids beyond this count expire at any age."""
    time_retained_ms: int = 3_600_000
    """A snapshot is old if its successor was committed longer ago than this."""
    limit: int = 50
    """One run advances by at most this many ids."""


@dataclass(frozen=True, slots=True)
class ChangelogRetention(_Retention):
    """The retention of one branch's long-lived changelogs. Counts include the snapshots.

    Source: Paimon `CoreOptions` (`changelog.num-retained.min`, `.max`, `changelog.time-retained`) and `ExpireConfig`,
    whose own defaults apply to a call that does not start from table options.
    """

    retain_min: int = 1
    retain_max: int = INT_MAX
    time_retained_ms: int | None = None
    """A changelog is old if it was committed longer ago than this; `None`: no changelog expires by age alone."""
    limit: int = INT_MAX


@dataclass(frozen=True, slots=True)
class AutoTagRules:
    """When a table's tags are made. Source: Paimon `CoreOptions` (`tag.*`), `TagAutoCreation`, `TagBatchCreation`."""

    mode: AutoTagMode
    zone: tzinfo
    """The zone of a snapshot's commit time (or its watermark, for `watermark`)."""
    period: timedelta = timedelta(days=1)
    is_custom_period: bool = False
    """`tag.creation-period-duration` states it, so names contain minutes."""
    formatter: Formatter = "with_dashes"
    delay: timedelta = timedelta(0)
    completion: bool = False
    """A missed period gets its tag from a later snapshot."""
    max_count: int | None = None
    time_retained_ms: int | None = None
    batch_name: str | None = None


@dataclass(frozen=True, slots=True)
class KeepRules:
    """Calendar rules that decide which tags are kept. They do not affect tags whose names do not match the pattern."""

    pattern: str
    """Pattern of names, with `*` and `?` as in a shell."""
    last: int | None = None
    within_ms: int | None = None
    daily: int | None = None
    weekly: int | None = None
    monthly: int | None = None
    yearly: int | None = None
    tags: tuple[str, ...] = ()
    """Patterns of names that are always kept."""

    def to_json(self) -> Mapping[str, object]:
        """Return the rules as plans and policies print them."""
        given = {
            "pattern": self.pattern,
            "keep_last": self.last,
            "keep_within_ms": self.within_ms,
            "keep_daily": self.daily,
            "keep_weekly": self.weekly,
            "keep_monthly": self.monthly,
            "keep_yearly": self.yearly,
            "keep_tags": list(self.tags) or None,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """Which data files passes compact. At least one of the two times is stated, each for its kind of tables."""

    idle_ms: int | None = None
    """Of append tables, those of partitions into which nobody wrote for longer than this; `None`: none."""
    max_bytes: int | None = None
    """In one run; `None`: as many as a call by default."""
    max_partition_bytes: int | None = None
    """In one partition and run; `None`: no limit of its own."""
    level_0_ms: int | None = None
    """Those of tables with a primary key, once a file of level 0 is older than this; `None`: none."""
    sole_compactor: bool = False
    """No writer and no other job compacts the tables with a primary key, whatever their option `write-only` says."""

    def states(self, *, has_key: bool) -> bool:
        """Tell whether passes compact tables of a kind.

        Args:
            has_key: They have a primary key.
        """
        return (self.level_0_ms if has_key else self.idle_ms) is not None

    def to_json(self) -> Mapping[str, object]:
        """Return the rules as policies print them."""
        given = {
            "partition_idle_ms": self.idle_ms,
            "level_0_age_ms": self.level_0_ms,
            "sole_compactor": self.sole_compactor or None,
            "max_bytes": self.max_bytes,
            "max_partition_bytes": self.max_partition_bytes,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class TagFacts:
    """The facts about one tag of a branch."""

    name: str
    snapshot_id: int
    commit_ms: int
    """When its snapshot was committed, epoch milliseconds."""
    modified_ms: int
    """When the tag's document was written, by the store's clock."""
    create_time: datetime | None = None
    """By its creator's clock, without a zone; `None`: the document does not state it."""
    time_retained_ns: int | None = None


@dataclass(frozen=True, slots=True)
class FleetRule:
    """The rules for the tables of one folder: as one rule of the document states them, or with all that it inherits."""

    tables: str
    """The folder in its normal spelling, without a trailing slash."""
    mode: Mode = "observe"
    """`observe`: plan and report, delete nothing."""
    pause: Paused = False
    min_snapshots: int = 1
    """At least this many newest snapshots are kept."""
    min_time_retained_ms: int = 0
    """A snapshot is kept until its successor is older than this."""
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
    catalog_type: CatalogType | None = None
    """The type of the tables' catalog; `None`: the rule does not say, so nothing is committed."""
    catalog_lock: bool = False
    """Every writer takes the catalog's lock for a commit."""
    partitions: Mapping[str, str] = field(default_factory=dict)
    """Table options about the expiry of partitions, for tables whose schema states no expiration time."""
    manifests: Mapping[str, str] | Literal[False] = field(default_factory=dict)
    """Table options that say when manifests are compacted, each for schemas that do not state it; `False`: never."""
    compaction: CompactionRules | Literal[False] | None = None
    """Which data files passes compact; `None`: none, and they say when it is worth it; `False`: not even that."""
    deciders: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Name of each stated field -> folder of the rule that decides it."""

    @property
    def floor(self) -> SnapshotRetention | None:
        """The minimum retention: a snapshot is only deleted if these rules allow it, too."""
        if not {"min_snapshots", "min_time_retained_ms"} & self.deciders.keys():
            return None
        return SnapshotRetention(self.min_snapshots, INT_MAX, self.min_time_retained_ms, INT_MAX)

    @property
    def has_sole_compactor(self) -> bool:
        """Tell whether the rule declares that nobody else compacts the tables with a primary key."""
        return isinstance(self.compaction, CompactionRules) and self.compaction.sole_compactor

    def holds_for(self, table: str) -> bool:
        """Tell whether a table, spelled as `tables`, is this folder or lies below it."""
        return table == self.tables or table.startswith(self.tables.rstrip("/") + "/")

    def unpaused(self) -> "FleetRule":
        """Return this rule as if it did not state a pause."""
        return replace(self, pause=False, deciders={k: v for k, v in self.deciders.items() if k != "pause"})

    def within(self, outer: "FleetRule") -> "FleetRule":
        """Return this rule, with every field that it does not state from the rule of a folder around it."""
        own = {name: getattr(self, name) for name in self.deciders}
        return replace(outer, tables=self.tables, deciders={**outer.deciders, **self.deciders}, **own)
