"""The part of a report about a rollback that commits an old version as the newest.

A commit deletes no file. Its snapshot names the files of the old version again, and those of the present one no longer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakesweep.model.commits.report import CommitsReport

SHOWN_PARTITIONS = 1000
"""A document lists partitions up to this number; `partition_count` counts all of them."""
SHOWN_LOST = 10


@dataclass(frozen=True, slots=True)
class Part:
    """Files that come back, or that leave."""

    files: int = 0
    rows: int = 0
    """For a table with a primary key, before its versions are merged."""
    bytes: int = 0
    partitions: tuple[str, ...] = ()
    """As their folders, in order; `""` is the whole table."""

    def to_json(self) -> dict[str, object]:
        """Return the part as it appears under `commits`."""
        return {
            "files": self.files,
            "rows": self.rows,
            "bytes": self.bytes,
            "partition_count": len(self.partitions),
            "partitions": list(self.partitions[:SHOWN_PARTITIONS]),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AsLatestReport(CommitsReport):
    """What a rollback as latest takes back and gives up, or would."""

    snapshot: int
    """The target."""
    tag: str | None = None
    """The tag that holds the target, if it was read from one."""
    time_ms: int
    """When the target was committed, epoch milliseconds."""
    back: Part = Part()
    gone: Part = Part()
    index: bool = False
    """Other index files come back, such as deletion vectors."""
    newer_files: int = 0
    """Files that writers added after the plan, and that the commit gives up as well."""
    kept_by: tuple[str, ...] = ()
    """The tags that keep the files which came back from Paimon's expiry, of the target and of the new snapshot."""
    lost: Sequence[str] = ()
    """Files that the new snapshot names and that do not exist."""

    @property
    def is_damaged(self) -> bool:
        """The new snapshot names files that do not exist."""
        return bool(self.lost)

    def to_json(self) -> dict[str, object]:
        """Return the document that a report has under `commits`."""
        return {
            "target": {"snapshot": self.snapshot, "tag": self.tag, "time_ms": self.time_ms},
            "back": self.back.to_json(),
            "gone": self.gone.to_json(),
            "index": self.index,
            "newer_files": self.newer_files,
            "kept_by": list(self.kept_by),
            "lost": {"count": len(self.lost), "first": list(self.lost[:SHOWN_LOST])},
            **CommitsReport.to_json(self),
        }
