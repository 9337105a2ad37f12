"""The summary of a table: the values that `show` finds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from lakesweep.model.policy import ChangelogRetention, SnapshotRetention


@dataclass(frozen=True, slots=True)
class ShownSnapshot:
    """A snapshot or changelog document by id."""

    id: int
    time_ms: int
    """When it was committed."""


@dataclass(frozen=True, slots=True)
class ShownRange:
    """Snapshots or changelogs from the earliest to the latest."""

    count: int
    earliest: ShownSnapshot | None = None
    latest: ShownSnapshot | None = None


@dataclass(frozen=True, slots=True)
class ShownTag:
    """A tag."""

    name: str
    snapshot_id: int
    time_ms: int
    """When its snapshot was committed."""
    created: str | None
    """ISO-8601 by the clock of who made it, without a zone; only tags with a time to live say it."""
    time_retained_ms: int | None


@dataclass(frozen=True, slots=True)
class ShownHint:
    """A hint file and what it should say."""

    path: str
    value: int | None
    """`None`: not a snapshot id."""
    expected: int | None
    """`None`: there is nothing that it could name."""
    off: bool


@dataclass(frozen=True, slots=True)
class ShownLive:
    """What one version consists of."""

    files: int
    """As its manifest lists count them; when pins were measured, as its manifests name them."""
    bytes: int | None
    """`None`: not asked for. Only manifests say it."""
    rows: int | None
    """As the snapshot counts them, `None` where it does not; when pins were measured, as its manifests count them."""
    manifests: int


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """One version that was asked for."""

    kind: Literal["snapshot", "tag"]
    """Which document holds it."""
    name: str
    """The snapshot's id or the tag's name."""
    snapshot_id: int
    schema_id: int
    time_ms: int
    """When its snapshot was committed."""
    watermark: int | None
    commit_kind: str
    commit_user: str
    delta_rows: int | None
    """By how many rows the commit changed the table, `None` where the snapshot does not say it."""
    live: ShownLive


@dataclass(frozen=True, slots=True)
class ShownPin:
    """What keeps old files besides the retention."""

    kind: Literal["consumer", "branch", "tag"]
    name: str
    snapshot_id: int
    """The oldest snapshot that it keeps."""
    files: int | None = None
    """Data files that would go with it; `None`: not asked for."""
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Everything that `show` says."""

    table: str
    branch: str
    type: str
    schema_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    """Those that matter for retention, as the schema states them."""
    retention: SnapshotRetention | None
    """The rules in force; `None` when an option does not parse or refuses."""
    changelog_retention: ChangelogRetention | None
    """The rules for long-lived changelogs; `None` when changelogs go with their snapshots."""
    retention_stated: bool
    """The schema states a retention, so unattended maintenance may delete."""
    branches: tuple[str, ...]
    snapshots: ShownRange
    changelogs: ShownRange
    tags: tuple[ShownTag, ...]
    consumers: Mapping[str, int]
    """Consumer -> smallest snapshot id that it still needs."""
    hints: tuple[ShownHint, ...]
    live: ShownLive | None
    """`None`: there is no snapshot."""
    pins: tuple[ShownPin, ...]
    """The oldest consumer, the oldest other branch, and tags without a time to live, oldest first."""
    warnings: tuple[str, ...]
    version: ShownVersion | None = None
    """`None`: none was asked for."""
    damage: tuple[str, ...] = ()
    """What is broken: a sentence each."""

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            "table": self.table,
            "branch": self.branch,
            "type": self.type,
            "schema_id": self.schema_id,
            "partition_keys": list(self.partition_keys),
            "primary_keys": list(self.primary_keys),
            "options": dict(self.options),
            "retention": self.retention and self.retention.to_json(),
            "changelog_retention": self.changelog_retention and self.changelog_retention.to_json(),
            "retention_stated": self.retention_stated,
            "branches": list(self.branches),
            "snapshots": asdict(self.snapshots),
            "changelogs": asdict(self.changelogs),
            "tags": [asdict(tag) for tag in self.tags],
            "consumers": [{"id": name, "next_snapshot": next_id} for name, next_id in self.consumers.items()],
            "hints": [asdict(hint) for hint in self.hints],
            "live": self.live and asdict(self.live),
            "version": self.version and asdict(self.version),
            "pins": [asdict(pin) for pin in self.pins],
            "damage": list(self.damage),
            "warnings": [*self.damage, *self.warnings],
        }
