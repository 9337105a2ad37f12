"""The part of a report about data files that a compaction rewrites.

The former files stay as long as a snapshot, tag or branch names them.
"""

from dataclasses import dataclass

from lakesweep.model.commits.report import CommitsReport

SHOWN = 10_000
"""A document lists partitions up to this number; counts are of all of them."""


@dataclass(frozen=True, slots=True)
class PartitionBins:
    """What is rewritten of one partition."""

    partition: str
    """As its folder, such as `dt=20240101/hr=08`; "" without partition keys."""
    files: int
    bytes: int
    rows: int
    """With deleted ones."""
    deleted_rows: int | None
    """`None`: unknown."""
    bins: int
    """About so many files come out."""

    def to_json(self) -> dict[str, object]:
        """Return the partition as it appears under `commits`."""
        return {
            "partition": self.partition,
            "files": self.files,
            "bytes": self.bytes,
            "rows": self.rows,
            "deleted_rows": self.deleted_rows,
            "bins": self.bins,
        }


@dataclass(frozen=True, slots=True)
class BucketMerge:
    """What is merged of one bucket of a table with a primary key."""

    partition: str
    """As its folder; "" without partition keys."""
    bucket: int
    why: str
    """Why it is merged, as Paimon would decide."""
    level: int
    """That of the new files."""
    runs: int
    """Sorted runs of the bucket: a reader without deletion vectors merges so many."""
    level_0_files: int
    level_0_rows: int
    level_0_since_ms: int | None
    """When the oldest of them was written, as the writer's clock says without its zone; `None`: unknown, or none."""
    files: int
    """Files that are rewritten, or moved to another level."""
    bytes: int
    deeper_bytes: int
    """Files whose keys alone are read."""
    jobs: tuple[int, ...]
    """Bytes that each task reads whole."""

    def to_json(self) -> dict[str, object]:
        """Return the bucket as it appears under `commits`."""
        return {
            "partition": self.partition,
            "bucket": self.bucket,
            "why": self.why,
            "level": self.level,
            "runs": self.runs,
            "level_0_files": self.level_0_files,
            "level_0_rows": self.level_0_rows,
            "level_0_since_ms": self.level_0_since_ms,
            "files": self.files,
            "bytes": self.bytes,
            "deeper_bytes": self.deeper_bytes,
            "jobs": list(self.jobs),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport(CommitsReport):
    """The data files that a run rewrites, or would."""

    partitions: tuple[PartitionBins, ...] = ()
    all_files: int = 0
    """Live data files of the snapshot, in the partitions that the call names."""
    waiting_files: int = 0
    """Data files that are due, and beyond the most bytes of one run."""
    busy_files: int = 0
    """Data files that are due, in partitions into which somebody wrote of late."""
    idle_from_ms: int | None = None
    """When the next of these partitions is idle, if nobody writes into it; `None`: unknown, or there is none."""
    vain_files: int = 0
    """Data files that were rewritten in vain: other writers changed or deleted them meanwhile."""
    written_files: int = 0
    written_bytes: int = 0
    written_rows: int = 0
    index_files: int = 0
    """Index files that the new snapshot does not name any more."""
    buckets: tuple[BucketMerge, ...] | None = None
    """What is merged of each bucket; `None`: the table has no primary key."""
    moved_files: int = 0
    """Files that changed their level, and stay as they are."""
    marked_rows: int = 0
    """Rows of other files that deletion vectors hide from now on, since newer ones replace them."""

    @property
    def files(self) -> int:
        """The number of data files that are rewritten."""
        return sum(each.files for each in self.partitions)

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(each.bytes for each in self.partitions)

    def to_json(self) -> dict[str, object]:
        """Return the document that a report has under `commits`."""
        deleted = [each.deleted_rows for each in self.partitions]
        return {
            "files": self.files,
            "bytes": self.bytes,
            "rows": sum(each.rows for each in self.partitions),
            "deleted_rows": None if None in deleted else sum(count for count in deleted if count is not None),
            "bins": sum(each.bins for each in self.partitions),
            "all_files": self.all_files,
            "waiting_files": self.waiting_files,
            "busy_files": self.busy_files,
            "idle_from_ms": self.idle_from_ms,
            "vain_files": self.vain_files,
            "partition_count": len(self.partitions),
            "partitions": [each.to_json() for each in self.partitions[:SHOWN]],
            "written": {"files": self.written_files, "bytes": self.written_bytes, "rows": self.written_rows},
            "index_files": self.index_files,
            "bucket_count": len(self.buckets or ()),
            "buckets": None if self.buckets is None else [each.to_json() for each in self.buckets[:SHOWN]],
            "moved_files": self.moved_files,
            "marked_rows": self.marked_rows,
            **CommitsReport.to_json(self),
        }
