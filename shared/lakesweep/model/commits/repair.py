"""The part of a report about what a table names and has lost, and what a repair leaves out of it.

A repair brings nothing back. It makes the rest readable, so a report names everything that is lost.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lakesweep.model.commits.partitions import PartitionSummary
from lakesweep.model.commits.report import CommitsReport

SHOWN = 10_000
"""A document lists files, manifests and partitions up to this number; counts are of all of them."""


@dataclass(frozen=True, slots=True)
class LostFile:
    """A data file that the newest snapshot names, and that does not exist."""

    path: str
    partition: str
    """As its folder, such as `dt=20240101/hr=08`."""
    bucket: int
    level: int
    rows: int
    bytes: int
    created_ms: int | None
    """When it was written, by the writer's wall clock without its zone, in epoch milliseconds as if that were UTC."""
    is_restorable: bool = False
    """The bucket keeps versions, and a delete marker lies right above the file. So it can be restored."""
    named_by: tuple[str, ...] | None = None
    """Snapshots, tags and branches that need it, in words. They stay incomplete. `None`: nobody looked."""


@dataclass(frozen=True, slots=True)
class LostManifest:
    """A manifest that the newest snapshot names, and that does not exist. Nothing tells which files it named."""

    path: str
    bytes: int
    added: int
    """Entries that add a file, as its list states."""
    deleted: int
    """Entries that delete a file. Without them, rows that were replaced or deleted may return."""
    partition_min: Mapping[str, str | None] | None
    """The smallest value of each partition key in it; `None`: its list does not say."""
    partition_max: Mapping[str, str | None] | None
    is_restorable: bool = False
    named_by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport(CommitsReport):
    """What is lost, and what a repair leaves out."""

    partitions: tuple[PartitionSummary, ...] = ()
    """The lost rows by partition."""
    files: tuple[LostFile, ...] = ()
    manifests: tuple[LostManifest, ...] = ()
    statistics: str | None = None
    """The path of the statistics, if they do not exist."""
    live_files: int = 0
    """Data files of the newest snapshot, before the repair."""
    rows_left: int | None = None
    """The rows that the new snapshot has."""
    dangling_vectors: int = 0
    """Deletion vectors of lost files. They delete nothing any more."""
    loss_id: str | None = None
    """By this id a call accepts the loss; `None`: no rows are given up."""
    doubts: tuple[str, ...] = ()
    """Why the loss may be none, or costs more than it seems."""
    left_files: tuple[str, ...] = ()
    """Data files that do not exist either, and that stay named: the repair of manifests leaves out no file."""
    extra_files: tuple[str, ...] = ()
    """Files beside data files that do not exist, though their data file does. No repair leaves them out."""
    index_files: tuple[str, ...] = ()
    """Index files that do not exist. No repair leaves them out: without them, deleted rows would return."""

    @property
    def is_damaged(self) -> bool:
        """The newest snapshot names files that do not exist, also after the repair."""
        return bool(self.left_files or self.extra_files or self.index_files)

    def to_json(self) -> dict[str, object]:
        """Return the document that a report has under `commits`."""
        return {
            "lost": {
                "files": len(self.files),
                "rows": sum(file.rows for file in self.files),
                "bytes": sum(file.bytes for file in self.files),
                "manifests": len(self.manifests),
                "statistics": self.statistics,
            },
            "partition_count": len(self.partitions),
            "partitions": [partition.to_json() for partition in self.partitions[:SHOWN]],
            "lost_files": [_to_json(file) for file in self.files[:SHOWN]],
            "lost_manifests": [_to_json(manifest) for manifest in self.manifests[:SHOWN]],
            "live_files": self.live_files,
            "rows_left": self.rows_left,
            "dangling_vectors": self.dangling_vectors,
            "loss_id": self.loss_id,
            "doubts": list(self.doubts),
            "left_files": list(self.left_files[:SHOWN]),
            "extra_files": list(self.extra_files[:SHOWN]),
            "index_files": list(self.index_files[:SHOWN]),
            **CommitsReport.to_json(self),
        }


def _to_json(found: LostFile | LostManifest) -> dict[str, object]:
    document = asdict(found)
    document["named_by"] = None if found.named_by is None else list(found.named_by)
    return document
