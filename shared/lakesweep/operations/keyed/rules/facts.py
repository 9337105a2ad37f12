"""What people see of a bucket: how much its readers have to merge, and what a compaction takes."""

from dataclasses import dataclass

from lakesweep.operations.keyed.rules.levels import Levels
from lakesweep.operations.keyed.rules.pick import Unit


@dataclass(frozen=True, slots=True)
class BucketFacts:
    """One bucket."""

    runs: int
    """How many sorted runs a reader of all rows merges."""
    files: int
    bytes: int
    level_0_files: int
    level_0_rows: int
    level_0_from_ms: int | None
    """When the oldest file of level 0 was written, as its writer's clock says without its zone; `None`: there is no
    such file, or one does not say it."""
    why: str | None = None
    """`None`: a compaction takes none."""


def bucket_facts(levels: Levels, unit: Unit | None) -> BucketFacts:
    """Return the facts of a bucket.

    Args:
        levels: The bucket.
        unit: What a compaction takes of it.
    """
    files, upper = levels.files, levels.level_0
    times = [file.file.created_ms for file in upper]
    known = [ms for ms in times if ms is not None]
    return BucketFacts(
        runs=len(levels.runs),
        files=len(files),
        bytes=sum(file.file.size_bytes for file in files),
        level_0_files=len(upper),
        level_0_rows=sum(file.file.rows for file in upper),
        level_0_from_ms=min(known) if known and len(known) == len(times) else None,
        why=None if unit is None else unit.why,
    )
