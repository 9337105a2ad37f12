"""The engine of `delete_rows` on Spark. A job finds the rows, another one writes index files, or rewrites data files.

A task gets some data files, one group, or one bin. Spark may run a task twice; the answer of one copy counts, and files
that another copy has written are orphans.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from lakesweep.format.schema import TableSchema
from lakesweep.model.reading.plan import ReadFile, ReadPlan, Split
from lakesweep.operations.rows.engine import LocalEngine
from lakesweep.operations.rows.groups import Group
from lakesweep.operations.rows.match import FileMatch
from lakesweep.operations.rows.writing import WrittenGroup
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.rewriting import RewrittenBin, Work
from lakesweep.runs.session import Table
from lakesweep.spark.rows.answers import answers
from lakesweep.spark.rows.rewriting import SparkRewriting
from lakesweep.spark.rows.tasks import MatchSplit, WriteGroup, match_of, packed, unpacked
from lakesweep.storage.open import DEFAULT_SETTINGS, StoreSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_ROWS = 1 << 24
"""Rows that a task searches, if they are in several files. Each file counts as `OPEN_ROWS` more."""
OPEN_ROWS = 100_000
MOST_ROWS = 1 << 29
"""Rows that one job searches, if it has several tasks. Its answers come to the driver at once, with at most one bit for
each row: 64 MiB."""
MOST_BYTES = MOST_ROWS // 8
"""Positions that one job is given to write, if they are in several groups."""
FEW_GROUPS, FEW_BYTES = 4, 1 << 20
"""The driver writes so few groups, with so few bytes of positions and former index files. A job would take longer."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Finds rows, writes index files and rewrites data files by the tasks of Spark; see `RowsEngine`."""

    open_session: "Callable[[], SparkSession]"
    """Called only once there is work."""
    table: Table
    settings: StoreSettings = DEFAULT_SETTINGS
    """How tasks reach S3."""

    def match(self, plan: ReadPlan) -> Iterator[FileMatch]:
        """Yield the data files that have rows of a plan's condition, with their positions.

        Raises:
            MaintenanceError: A task failed, or Spark did.
        """
        if not plan.splits:
            return
        where = plan.where
        shared = replace(plan.shared, where=None if where is None else replace(where, text=""))
        session = self.open_session()
        splits = tasks_of(plan, session.sparkContext.defaultParallelism)
        for some in _parts(splits, lambda split: split.rows, MOST_ROWS):
            pieces = [{"split": packed(split)} for split in some]
            yield from map(match_of, answers(session, self.table, self.settings, MatchSplit(shared), pieces))

    def write(self, schema: TableSchema, groups: Sequence[Group]) -> Sequence[WrittenGroup]:
        """Write the index files of groups, and return what was written, in their order.

        Raises:
            MaintenanceError: A task failed, or Spark did. Some files may exist; they are orphans.
        """
        weight = sum(map(_bytes, groups)) + sum(entry.file_size for group in groups for entry in group.former)
        if len(groups) <= FEW_GROUPS and weight <= FEW_BYTES:
            return LocalEngine(self.table).write(schema, groups)
        session, written = self.open_session(), list[WrittenGroup]()
        for some in _parts(groups, _bytes, MOST_BYTES):
            pieces = [{"number": number, "group": packed(group)} for number, group in enumerate(some)]
            found = answers(session, self.table, self.settings, WriteGroup(schema), pieces)
            written += (unpacked(row["written"]) for row in sorted(found, key=lambda row: int(row["number"])))
        return written

    def rewrite(self, work: Work, bins: Sequence[Bin]) -> Sequence[RewrittenBin]:
        """Rewrite the data files of bins, and return what was written, in their order.

        Raises:
            MaintenanceError: A task failed, or Spark did. Some files may exist; they are orphans.
        """
        engine, written = SparkRewriting(self.open_session, self.table, self.settings), list[RewrittenBin]()
        for some in _parts(bins, lambda each: sum(map(len, each.gone)), MOST_BYTES):
            written += engine.rewrite(work, some)
        return written


def tasks_of(plan: ReadPlan, at_once: int) -> Sequence[Split]:
    """Return the files of a plan as splits for tasks: one for each core, or more if there are many rows.

    Args:
        plan: The plan.
        at_once: How many tasks run at a time.
    """
    files = [file for split in plan.splits for file in split.files]
    most = min(TASK_ROWS, -(-sum(map(_weight, files)) // max(1, at_once)))
    return [Split(tuple(some)) for some in _parts(files, _weight, most)]


def _weight(file: ReadFile) -> int:
    return file.rows + OPEN_ROWS


def _bytes(group: Group) -> int:
    return sum(map(len, group.positions.values()))


def _parts(items: Sequence[T], weigh: Callable[[T], int], most: int) -> Iterator[Sequence[T]]:
    """Yield the items in parts, in their order. A part weighs more than the most only if it is one item."""
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
