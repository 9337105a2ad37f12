"""Who searches data files, and writes index files and data files: this process, or the tasks of Spark."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Protocol

from lakesweep.format.schema import TableSchema
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.operations.reading.ahead import read_ahead
from lakesweep.operations.reading.arrow import stores_of
from lakesweep.operations.rows.groups import Group
from lakesweep.operations.rows.match import FileMatch, match_split
from lakesweep.operations.rows.writing import WrittenGroup, write_group
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.engine import LocalEngine as LocalRewriting
from lakesweep.operations.writing.rewriting import RewrittenBin, Work
from lakesweep.runs.session import Table
from lakesweep.storage.together import waits

_AT_ONCE = 8
_WHAT = "a part of the search for rows"


class RowsEngine(Protocol):
    """Does the work that grows with the table."""

    def match(self, plan: ReadPlan) -> Iterable[FileMatch]:
        """Search all splits of a plan, and return what was found, in any order.

        Raises:
            MaintenanceError: As `match_split`. Nothing was written.
        """

    def write(self, schema: TableSchema, groups: Sequence[Group]) -> Sequence[WrittenGroup]:
        """Write the index files of each group, and return what was written, in the order of the groups.

        Raises:
            MaintenanceError: As `write_group`. Some files may exist; they are orphans.
        """

    def rewrite(self, work: Work, bins: Sequence[Bin]) -> Sequence[RewrittenBin]:
        """Rewrite the data files of each bin, and return what was written, in the order of the bins.

        Raises:
            MaintenanceError: As `rewrite_bin`. Some files may exist; they are orphans.
        """


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Does it in this process."""

    table: Table

    def match(self, plan: ReadPlan) -> Iterator[FileMatch]:
        """Search one split after another, or a few at a time where requests wait."""
        table, shared = self.table, plan.shared
        stores = stores_of(plan, table.store, table.open_store)

        def read(split: object) -> Iterator[FileMatch]:
            table.check_time(_WHAT)
            return match_split(stores, shared, split)  # type: ignore[arg-type]

        found = read_ahead(plan.splits, read, in_threads=waits(table.store) and len(plan.splits) > 1)
        for _, match in found:
            yield match

    def write(self, schema: TableSchema, groups: Sequence[Group]) -> Sequence[WrittenGroup]:
        """Write one group after another, or a few at a time where requests wait."""
        table = self.table

        def one(group: Group) -> WrittenGroup:
            return write_group(table.store, schema, group, lambda: table.check_time(_WHAT))

        if len(groups) < 2 or not waits(table.store):
            return [one(group) for group in groups]
        with ThreadPoolExecutor(min(_AT_ONCE, len(groups)), thread_name_prefix="vectors") as pool:
            futures = [pool.submit(copy_context().run, one, group) for group in groups]
            return [future.result() for future in futures]

    def rewrite(self, work: Work, bins: Sequence[Bin]) -> Sequence[RewrittenBin]:
        """Rewrite one bin after another, or two at a time where requests wait."""
        return LocalRewriting(self.table).rewrite(work, bins)
