"""Who merges data files: this process, or the tasks of Spark."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Protocol

from lakesweep.model.keyed import MergeJob
from lakesweep.operations.keyed.merging.merge import merge_job
from lakesweep.operations.keyed.merging.work import MergedJob, MergeWork
from lakesweep.operations.reading.arrow import stores_of
from lakesweep.runs.session import Table
from lakesweep.storage.together import waits

_AT_ONCE = 2
"""Each of them may hold a whole new file in memory."""
_WHAT = "the merge of data files"


class MergingEngine(Protocol):
    """Does the work that grows with the table."""

    def merge(self, work: MergeWork, jobs: Sequence[MergeJob]) -> Sequence[MergedJob]:
        """Carry out each job, and return what was written and found, in the order of the jobs.

        Raises:
            MaintenanceError: As `merge_job`. Some files may exist; they are orphans.
        """


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Does it in this process."""

    table: Table

    def merge(self, work: MergeWork, jobs: Sequence[MergeJob]) -> Sequence[MergedJob]:
        """Carry out one job after another, or two at a time where requests wait."""
        table = self.table
        stores = stores_of(work.plan, table.store, table.open_store)

        def one(job: MergeJob) -> MergedJob:
            table.check_time(_WHAT)
            made = merge_job(stores, work, job, lambda: table.check_time(_WHAT))
            table.progress("rows merged", made.rows_read, None)
            return made

        if len(jobs) < 2 or not waits(table.store):
            return [one(job) for job in jobs]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="merges") as pool:
            futures = [pool.submit(copy_context().run, one, job) for job in jobs]
            return [future.result() for future in futures]
