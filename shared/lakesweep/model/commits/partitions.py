"""The part of a report about the partitions that a run takes out of a table.

A commit deletes no file. Its snapshot stops naming the files of the partitions. Older snapshots, tags and branches
still name them, and the files are deleted when the last of these expires.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.model.commits.report import CommitsReport

SHOWN_PARTITIONS = 10_000
"""A document lists partitions up to this number; `partition_count` counts all of them."""


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """One partition that the newest snapshot shows and a commit takes out."""

    partition: str
    """As its folder, such as `dt=20240101/hr=08`."""
    values: Mapping[str, str | None]
    """Partition key -> value as text; `None` is null."""
    rows: int
    """Rows of its live files; for a table with a primary key, before its versions are merged."""
    files: int
    """Live data files."""
    bytes: int
    time_ms: int | None = None
    """The time that its expiration counts from, epoch milliseconds; `None`: the operation needs none."""
    why: str = ""
    """Why it is taken out, in words."""

    def to_json(self) -> dict[str, object]:
        """Return the partition as it appears under `commits`."""
        return {
            "partition": self.partition,
            "values": dict(self.values),
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "time_ms": self.time_ms,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsReport(CommitsReport):
    """What a run takes out, or would. Totals are about all partitions, also those that a document leaves out."""

    partitions: tuple[PartitionSummary, ...] = ()
    rows: int = 0
    files: int = 0
    bytes: int = 0
    live_files: int = 0
    """Live data files of the newest snapshot, in all partitions."""
    shown_by: tuple[str, ...] | None = None
    """The snapshots, tags and branches, in words, that still show a partition after the commit, so that its files stay.
    `None`: nobody looked."""
    not_due: Mapping[str, int] = field(default_factory=dict)
    """Reason -> how many partitions do not expire for it."""
    due_later: int = 0
    """Partitions that are due, and left to a later pass by `partition.expiration-max-num`."""
    next_due_ms: int | None = None
    """When the next partition is due, epoch milliseconds; `None`: not known, or never."""
    dangling_vectors: int = 0
    """Deletion vectors of files that were not live. The commit leaves them out."""
    newer_files: int = 0
    """Files that writers added after the plan, and that the commits took out as well."""

    def to_json(self) -> dict[str, object]:
        """Return the document that a report has under `commits`."""
        return {
            "partition_count": len(self.partitions),
            "partitions": [partition.to_json() for partition in self.partitions[:SHOWN_PARTITIONS]],
            "rows": self.rows,
            "files": self.files,
            "bytes": self.bytes,
            "live_files": self.live_files,
            "shown_by": None if self.shown_by is None else list(self.shown_by),
            "not_due": dict(self.not_due),
            "due_later": self.due_later,
            "next_due_ms": self.next_due_ms,
            "dangling_vectors": self.dangling_vectors,
            "newer_files": self.newer_files,
            **CommitsReport.to_json(self),
        }
