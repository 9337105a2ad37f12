"""The engine of `delete_rows` on Spark. A job finds the rows, another one writes the index files.

A task gets one split, or one group. Spark may run a task twice; the answer of one copy counts, and files that another
copy has written are orphans.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from lakesweep.errors import MaintenanceError
from lakesweep.format.schema import TableSchema
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.operations.rows.groups import Group
from lakesweep.operations.rows.match import FileMatch
from lakesweep.operations.rows.writing import WrittenGroup
from lakesweep.spark.rows.tasks import MatchSplit, WriteGroup, match_of, packed, unpacked
from lakesweep.spark.tasks import Access, Row, Work, count_requests, run_tasks
from lakesweep.storage.open import DEFAULT_SETTINGS, StoreSettings
from lakesweep.storage.requests import RequestCounter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_ROWS = 1 << 29
"""Rows that one job looks at, if they are in several splits. Its answers come to the driver at once, with at most one
bit for each row: 64 MiB."""
MOST_BYTES = MOST_ROWS // 8
"""Positions that one job is given to write, if they are in several groups."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Finds rows and writes index files by the tasks of Spark; see `RowsEngine`."""

    open_session: "Callable[[], SparkSession]"
    """Called only once there is work."""
    location: str
    """The table's."""
    settings: StoreSettings = DEFAULT_SETTINGS
    counter: RequestCounter = field(default_factory=RequestCounter)
    """Counts the requests of the tasks."""

    def match(self, plan: ReadPlan) -> Iterator[FileMatch]:
        """Yield the data files that have rows of a plan's condition, with their positions.

        Raises:
            MaintenanceError: A task failed, or Spark did.
        """
        where = plan.where
        shared = replace(plan.shared, where=None if where is None else replace(where, text=""))
        for splits in _jobs(plan.splits, lambda split: split.rows, MOST_ROWS):
            pieces = [{"split": packed(split)} for split in splits]
            yield from map(match_of, self._answers(MatchSplit(shared), pieces))

    def write(self, schema: TableSchema, groups: Sequence[Group]) -> Sequence[WrittenGroup]:
        """Write the index files of groups, and return what was written, in their order.

        Raises:
            MaintenanceError: A task failed, or Spark did. Some files may exist; they are orphans.
        """
        written: list[WrittenGroup] = []
        for some in _jobs(groups, lambda group: sum(map(len, group.positions.values())), MOST_BYTES):
            pieces = [{"number": number, "group": packed(group)} for number, group in enumerate(some)]
            answers = sorted(self._answers(WriteGroup(schema), pieces), key=lambda row: int(row["number"]))
            written += (unpacked(row["written"]) for row in answers)
        return written

    def _answers(self, work: Work, pieces: Sequence[Row]) -> Iterator[Row]:
        if not pieces:
            return
        access = Access(self.location, "", self.settings)
        try:
            yield from count_requests(self.counter, run_tasks(self.open_session(), access, work, pieces))
        except MaintenanceError as error:
            if error.code != "spark_failed":
                raise
            sentence = str(error).partition("; nothing was changed")[0]  # the rest of the message is about scans
            raise MaintenanceError(sentence, code=error.code) from error


def _jobs(items: Sequence[T], weigh: Callable[[T], int], most: int) -> Iterator[Sequence[T]]:
    """Yield the items of each job, in their order. A job has more than the most only if it has one item."""
    part: list[T] = []
    weight = 0
    for item in items:
        if part and weight + weigh(item) > most:
            yield part
            part, weight = [], 0
        part.append(item)
        weight += weigh(item)
    if part:
        yield part
