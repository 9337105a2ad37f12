"""What became of the files of one bucket, and the bucket after a commit."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakesweep.format.entry_writer import NewDataFile
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.combined import union
from lakesweep.format.vectors.vector import read_vector
from lakesweep.model.keyed import KeyedFile
from lakesweep.model.reading.plan import ReadFile
from lakesweep.operations.compaction.buckets.bucket import Bucket
from lakesweep.operations.compaction.buckets.choice import Merge
from lakesweep.operations.keyed.merging.work import MergedJob
from lakesweep.table.reach.keyed_files import key_names, key_of, key_types


@dataclass(frozen=True, slots=True)
class Merged:
    """One bucket, and what became of it."""

    merge: Merge
    jobs: tuple[MergedJob, ...]
    """Of each job."""

    @property
    def moved(self) -> frozenset[KeyedFile]:
        """The files that get another level, and stay as they are."""
        read = (job.files[0] for job, made in zip(self.merge.work.jobs, self.jobs, strict=True) if made.is_upgraded)
        return frozenset(read).union(self.merge.work.moved)

    @property
    def rewritten(self) -> frozenset[KeyedFile]:
        """The files that leave the table."""
        return self.merge.inputs - self.moved

    @property
    def marks(self) -> Mapping[str, bytes]:
        """Name of a data file -> positions of rows that newer ones replace, as the bytes of a vector."""
        found: dict[str, bytes] = {}
        for each in self.jobs:
            for name, blob in each.marks.items():
                found[name] = _both(found[name], blob) if name in found else blob
        return found

    @property
    def marked_rows(self) -> int:
        """The number of these rows."""
        return sum(each.marked for each in self.jobs)


def after(merged: Merged, bucket: Bucket, schema: TableSchema) -> Iterator[KeyedFile]:
    """Yield the files of a bucket as they are after a commit.

    Args:
        merged: What was merged.
        bucket: The bucket before.
        schema: The schema of the new files.
    """
    moved = merged.moved
    for file in bucket.files:
        if file in moved:
            yield file._replace(file=file.file._replace(level=merged.merge.unit.level))
        elif file not in merged.rewritten:
            yield file
    for job, made in zip(merged.merge.work.jobs, merged.jobs, strict=True):
        yield from (_keyed(new, job.files[0], schema) for new in made.files)


def _keyed(new: NewDataFile, beside: KeyedFile, schema: TableSchema) -> KeyedFile:
    """Return a new file as `Levels` takes it."""
    file = ReadFile(
        path=f"{beside.file.path.rpartition('/')[0]}/{new.name}",
        size_bytes=new.size_bytes,
        rows=new.rows,
        format="parquet",
        schema_id=new.schema_id,
        level=new.level,
        bucket=beside.file.bucket,
        partition=beside.file.partition,
        vector=None,
        min_sequence=new.min_sequence,
        created_ms=new.creation_time_ms,
    )
    names, types = key_names(schema), key_types(schema)
    low, high = (key_of(row, names, types, new.name) for row in (new.min_key, new.max_key))
    return KeyedFile(file, low, high, new.max_sequence, new.delete_rows, beside.total_buckets)


def _both(one: bytes, other: bytes) -> bytes:
    """Return the positions of two vectors. Keys of two tasks differ, but they may lie in one deeper file."""
    return bytes(union(read_vector(one, None, "marked rows"), read_vector(other, None, "marked rows")).blob)
