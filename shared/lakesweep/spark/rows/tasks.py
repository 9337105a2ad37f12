"""What Spark's tasks do for `delete_rows`: find the rows of splits, and write index files.

Nobody learns the values of a condition from Spark: they are neither in its event log nor in a log. So a condition comes
to tasks only within their pickled function, and no SQL plan has it. An error that is none of Lakesweep's may quote a
value, so its text does not leave the task.
"""

import base64
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lakesweep.format.schema import TableSchema
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.operations.reading.arrow import stores_of
from lakesweep.operations.rows.hiding import values_kept
from lakesweep.operations.rows.match import FileMatch, match_split
from lakesweep.operations.rows.writing import write_group
from lakesweep.spark.tasks import Row, Task


@dataclass(frozen=True, slots=True)
class MatchSplit:
    """A task's work: find the rows of one split."""

    plan: ReadPlan
    """Without splits."""

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Answer with a row for each data file that has such rows."""
        stores = stores_of(self.plan, task.store(self.plan.table), task.store)
        with values_kept(f"table {self.plan.table}"):
            for found in match_split(stores, self.plan, unpacked(piece["split"])):
                yield {"path": found.path, "count": found.count, "blob": _as_text(found.blob)}


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """A task's work: write the index files of one group. A copy of the task writes others, which are orphans."""

    schema: TableSchema

    def __call__(self, task: Task, piece: Row) -> Iterator[Row]:
        """Answer with the one row that says what was written."""
        store = task.store(task.access.table)
        with values_kept(f"table {task.access.table}"):
            written = write_group(store, self.schema, unpacked(piece["group"]), lambda: None)
        yield {"number": piece["number"], "written": packed(written)}


def match_of(row: Row) -> FileMatch:
    """Return the match in a row of an answer."""
    return FileMatch(str(row["path"]), int(row["count"]), base64.b64decode(row["blob"]))


def packed(value: object) -> str:
    """Return a value as a text for pieces and answers."""
    return _as_text(pickle.dumps(value))


def unpacked(text: str) -> Any:
    """Return the value that `packed` got: of this driver, or of a task of its own."""
    return pickle.loads(base64.b64decode(text))


def _as_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
