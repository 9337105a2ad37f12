"""Who rewrites data files: this process, or the tasks of Spark."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Protocol

from lakesweep.operations.reading.arrow import stores_of
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.rewriting import RewrittenBin, Work, rewrite_bin
from lakesweep.runs.session import Table
from lakesweep.storage.together import waits

_AT_ONCE = 2
"""Each of them may hold a whole new file in memory."""
_WHAT = "the rewriting of data files"


class RewritingEngine(Protocol):
    """Does the work that grows with the table."""

    def rewrite(self, work: Work, bins: Sequence[Bin]) -> Sequence[RewrittenBin]:
        """Rewrite each bin, and return what was written, in the order of the bins.

        Raises:
            MaintenanceError: As `rewrite_bin`. Some files may exist; they are orphans.
        """


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Does it in this process."""

    table: Table

    def rewrite(self, work: Work, bins: Sequence[Bin]) -> Sequence[RewrittenBin]:
        """Rewrite one bin after another, or two at a time where requests wait."""
        table = self.table
        stores = stores_of(work.plan, table.store, table.open_store)

        def one(found: Bin) -> RewrittenBin:
            table.check_time(_WHAT)
            made = rewrite_bin(stores, work, found, lambda: table.check_time(_WHAT))
            table.progress("rows rewritten", made.rows, None)
            return made

        if len(bins) < 2 or not waits(table.store):
            return [one(found) for found in bins]
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="bins") as pool:
            futures = [pool.submit(copy_context().run, one, found) for found in bins]
            return [future.result() for future in futures]
