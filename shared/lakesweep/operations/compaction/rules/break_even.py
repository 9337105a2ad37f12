"""From how many rows on a job on Spark is worth its start, for tables with a primary key."""

from collections.abc import Sequence

from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.commits.report import CommitsReport

SPARK_ROWS = 1_000_000
"""A job on Spark that merges fewer rows costs more than it saves.

Source: `benchmarks/merge.py --only start`: up to this number, a command takes a fraction of the time of a new session.
"""


def beside_spark(commits: CommitsReport | None) -> Sequence[str]:
    """Say that one process merges such a number of rows cheaper than a job on Spark, if it does.

    Args:
        commits: What is merged.
    """
    if not isinstance(commits, CompactionReport) or commits.buckets is None:
        return ()
    rows = sum(each.rows for each in commits.partitions)
    if rows >= SPARK_ROWS:
        return ()
    why = f"{rows} rows are fewer than {SPARK_ROWS}, so one process merges them cheaper than a job on Spark"
    return (f"{why} (`lakesweep compact TABLE --engine local`)",)
