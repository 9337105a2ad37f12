"""The summary of a table: the values that `show` finds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from lakesweep.model.policy import ChangelogRetention, SnapshotRetention
from lakesweep.operations.inspect.deleted_rows import DeletedRows
from lakesweep.operations.inspect.levels import ShownLevels
from lakesweep.operations.lifetimes.ruling import ShownRuling


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
    """ISO-8601 by the clock of its maker, without a zone; only tags with a time to live have it."""
    time_retained_ms: int | None


@dataclass(frozen=True, slots=True)
class ShownHint:
    """A hint file and what it should say."""

    path: str
    value: int | None
    """`None`: it names no snapshot id."""
    expected: int | None
    """`None`: there is no document that it could name."""
    off: bool


@dataclass(frozen=True, slots=True)
class ShownLive:
    """The contents of one version."""

    files: int
    """From the manifest lists; if pins were measured, from the manifests."""
    bytes: int | None
    """`None`: not asked for. Only manifests have this number."""
    rows: int | None
    """From the snapshot, `None` if it has no count; if pins were measured, from the manifests."""
    manifests: int


@dataclass(frozen=True, slots=True)
class ShownManifests:
    """When a pass compacts the manifests of the newest snapshot."""

    small: int
    """Manifests of its base list below `manifest.target-file-size`."""
    max_count: int
    """With more than these, a compaction is due."""
    rewritten_bytes: int
    """Size of the manifests that a compaction rewrites."""
    max_bytes: int
    """From this size on, a compaction is due."""
    is_due: bool
    by_passes: bool
    """Passes compact them: the fleet policy declares a catalog, and does not say `false`."""


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """The version that the caller asked for."""

    kind: Literal["snapshot", "tag"]
    """The kind of document that holds it."""
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
    """By how many rows the commit changed the table, `None` if the snapshot does not say."""
    live: ShownLive


@dataclass(frozen=True, slots=True)
class ShownPin:
    """A consumer, branch or tag that keeps old files beyond the retention."""

    kind: Literal["consumer", "branch", "tag"]
    name: str
    snapshot_id: int
    """The oldest snapshot that it keeps."""
    files: int | None = None
    """Data files that would be deleted without it; `None`: not asked for."""
    bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """Everything that `show` finds."""

    table: str
    branch: str
    type: str
    schema_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    """The options about retention, as the schema states them."""
    retention: SnapshotRetention | None
    """The rules in force; `None` if an option does not parse or the rules are invalid."""
    changelog_retention: ChangelogRetention | None
    """The rules for long-lived changelogs; `None` if changelogs expire with their snapshots."""
    retention_stated: bool
    """The schema states a retention, so unattended maintenance may delete."""
    retention_from: Literal["schema", "policy", "defaults"]
    """Who states it. A pass does not follow Paimon's defaults: it deletes nothing then."""
    policy: ShownRuling | None
    """What the fleet policy says about the table; `None`: none is stated."""
    branches: tuple[str, ...]
    snapshots: ShownRange
    changelogs: ShownRange
    tags: tuple[ShownTag, ...]
    consumers: Mapping[str, int]
    """Consumer -> smallest snapshot id that it needs."""
    hints: tuple[ShownHint, ...]
    live: ShownLive | None
    """`None`: the branch has no snapshot."""
    manifests: ShownManifests | None = None
    """`None`: the branch has no snapshot, or an option does not parse."""
    version: ShownVersion | None = None
    """`None`: the caller asked for none."""
    deletion_vectors: DeletedRows | None = None
    """Of the version that the caller asked for, else of the latest snapshot; `None`: readers apply no vectors."""
    levels: ShownLevels | None = None
    """Of the same version; `None`: not asked for, or the table has no primary key."""
    pins: tuple[ShownPin, ...]
    """The oldest consumer, the oldest other branch, and tags without a time to live, oldest first."""
    damage: tuple[str, ...] = ()
    """One sentence for each damage."""
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            **{key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()},
            "retention": self.retention and self.retention.to_json(),
            "changelog_retention": self.changelog_retention and self.changelog_retention.to_json(),
            "consumers": [{"id": name, "next_snapshot": next_id} for name, next_id in self.consumers.items()],
            "deletion_vectors": self.deletion_vectors and self.deletion_vectors.to_json(),
            "warnings": [*self.damage, *self.warnings],
        }
