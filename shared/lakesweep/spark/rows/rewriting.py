"""Data files rewritten on Spark: a task rewrites one bin, or merges some files of a bucket. Rows stay in the task.

Spark may run a task twice. The answer of one copy counts, and files that another copy has written are orphans.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesweep.model.keyed import MergeJob
from lakesweep.operations.keyed.merging.merge import merge_job
from lakesweep.operations.keyed.merging.work import MergedJob, MergeWork
from lakesweep.operations.reading.arrow import stores_of
from lakesweep.operations.rows.hiding import values_kept
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.rewriting import RewrittenBin, Work, rewrite_bin
from lakesweep.runs.session import Table
from lakesweep.spark.rows.answers import answers
from lakesweep.spark.rows.tasks import packed, unpacked
from lakesweep.spark.tasks import Row, Task
from lakesweep.storage.open import DEFAULT_SETTINGS, StoreSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkRewriting:
    """Rewrites data files by the tasks of Spark; see `RewritingEngine` and `MergingEngine`."""

    open_session: "Callable[[], SparkSession]"
    """Called only once there is work."""
    table: Table
    settings: StoreSettings = DEFAULT_SETTINGS
    """How tasks reach S3."""

    def rewrite(self, work: Work, bins: Sequence[Bin]) -> Sequence[RewrittenBin]:
        """Rewrite each bin, and return what was written, in the order of the bins.

        Raises:
            MaintenanceError: A task failed, or Spark did. Some files may exist; they are orphans.
        """
        pieces = [{"number": number, "bin": packed(each)} for number, each in enumerate(bins)]
        found = answers(self.open_session(), self.table, self.settings, RewriteBin(work), pieces)
        return [unpacked(row["made"]) for row in sorted(found, key=lambda row: int(row["number"]))]

    def merge(self, work: MergeWork, jobs: Sequence[MergeJob]) -> Sequence[MergedJob]:
        """Carry out each job, and return what was written and found, in the order of the jobs.

        Raises:
            MaintenanceError: A task failed, or Spark did. Some files may exist; they are orphans.
        """
        pieces = [{"number": number, "job": packed(each)} for number, each in enumerate(jobs)]
        found = answers(self.open_session(), self.table, self.settings, MergeFiles(work), pieces)
        return [unpacked(row["made"]) for row in sorted(found, key=lambda row: int(row["number"]))]


@dataclass(frozen=True, slots=True)
class RewriteBin:
    """A task's work: rewrite one bin."""

    work: Work

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Answer with the one row that says what was written."""
        work = self.work
        stores = stores_of(work.plan, task.store(work.plan.table), task.store)
        with values_kept(f"table {work.plan.table}"):
            made = rewrite_bin(stores, work, unpacked(piece["bin"]))
        yield {"number": piece["number"], "made": packed(made)}


@dataclass(frozen=True, slots=True)
class MergeFiles:
    """A task's work: one job of a merge."""

    work: MergeWork

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Answer with the one row that says what was written and found."""
        work = self.work
        stores = stores_of(work.plan, task.store(work.plan.table), task.store)
        with values_kept(f"table {work.plan.table}"):
            made = merge_job(stores, work, unpacked(piece["job"]))
        yield {"number": piece["number"], "made": packed(made)}
