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


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionReport(CommitsReport):
    """The data files that a run rewrites, or would."""

    partitions: tuple[PartitionBins, ...] = ()
    all_files: int = 0
    """Live data files of the snapshot."""
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
            **CommitsReport.to_json(self),
        }
