"""What is merged of the buckets of a snapshot, and what a report says of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from lakesweep.format.schema import TableSchema
from lakesweep.model.commits.compaction import BucketMerge, CompactionReport
from lakesweep.model.keyed import KeyedFile
from lakesweep.operations.compaction.buckets.bucket import Bucket, Place
from lakesweep.operations.compaction.partitions import name_of, partition_bins
from lakesweep.operations.keyed.rules.facts import BucketFacts
from lakesweep.operations.keyed.rules.jobs import BucketWork
from lakesweep.operations.keyed.rules.pick import Unit


@dataclass(frozen=True, slots=True)
class Merge:
    """What is merged of one bucket."""

    bucket: Bucket
    unit: Unit
    work: BucketWork
    facts: BucketFacts

    @property
    def inputs(self) -> frozenset[KeyedFile]:
        """The files that are rewritten, or get another level."""
        return frozenset(file for job in self.work.jobs for file in job.files).union(self.work.moved)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run merges, and what is left."""

    merges: tuple[Merge, ...] = ()
    waiting_files: int = 0
    busy_files: int = 0
    idle_from_ms: int | None = None


def report_of(
    schema: TableSchema, buckets: Mapping[Place, Bucket], choice: Choice, catalog: str | None
) -> CompactionReport:
    """Return what a report says.

    Args:
        schema: The latest schema of the branch.
        buckets: The buckets that the call looks at.
        choice: What it merges of them.
        catalog: The declared type of the catalog.
    """
    rewritten = (
        (tuple(file.file for file in merge.inputs), len(merge.work.jobs) + len(merge.work.moved))
        for merge in choice.merges
    )
    return CompactionReport(
        partitions=partition_bins(schema, rewritten),
        all_files=sum(len(bucket.files) for bucket in buckets.values()),
        waiting_files=choice.waiting_files,
        busy_files=choice.busy_files,
        idle_from_ms=choice.idle_from_ms,
        catalog=catalog,
        buckets=tuple(_bucket(schema, merge) for merge in choice.merges),
    )


def _bucket(schema: TableSchema, merge: Merge) -> BucketMerge:
    partition, number = merge.bucket.place
    deeper = {file for job in merge.work.jobs for run in job.deeper for file in run}
    facts = merge.facts
    return BucketMerge(
        partition=name_of(schema, partition),
        bucket=number,
        why=merge.unit.why,
        level=merge.unit.level,
        runs=facts.runs,
        level_0_files=facts.level_0_files,
        level_0_rows=facts.level_0_rows,
        level_0_since_ms=facts.level_0_from_ms,
        files=len(merge.inputs),
        bytes=sum(file.file.size_bytes for file in merge.inputs),
        deeper_bytes=sum(file.file.size_bytes for file in deeper),
        jobs=tuple(job.size_bytes for job in merge.work.jobs),
    )
