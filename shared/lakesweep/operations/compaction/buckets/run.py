"""`compact` of a table with a primary key: merge files of level 0 upwards, and hide the rows that they replace.

Writers add files on level 0. Where readers apply deletion vectors, they do not see level 0: its rows are visible once a
compaction has merged them upwards, and marked the older rows of the same keys. What is merged is what Paimon would
choose. A bucket is committed if no other compaction has touched it meanwhile; new files of level 0 do not matter.

Source: Paimon 1.4 `MergeTreeCompactManager`, `UniversalCompaction`, `MergeTreeCompactTask`.
"""

from dataclasses import replace
from datetime import tzinfo
from typing import TYPE_CHECKING

from lakesweep.commit.base import Base
from lakesweep.errors import RefusedError
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.buckets.choice import report_of as choice_report
from lakesweep.operations.compaction.buckets.former import doubtful, lost_marks
from lakesweep.operations.compaction.buckets.task import Task
from lakesweep.operations.compaction.task import OPERATION
from lakesweep.operations.rows.commit import index_at
from lakesweep.runs.committing.opened import Opened
from lakesweep.runs.reports import report_of
from lakesweep.runs.session import NOT_EXECUTABLE

if TYPE_CHECKING:
    from lakesweep.operations.compaction.buckets.engine import MergingEngine


def compact_buckets(
    target: Opened, arguments: CompactArguments, zone: tzinfo | None, *, execute: bool, engine: "MergingEngine | None"
) -> RunReport:
    """Merge data files of a branch, or say which ones a call would merge.

    Args:
        target: One branch of a table with a primary key.
        arguments: What the caller asked for.
        zone: The declared zone of the writers' clocks.
        execute: If false, nothing changes.
        engine: Merges data files; by default this process.

    Raises:
        RefusedError: The table is none that Lakesweep merges; the code says why.
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    task = Task(target.table, target.schema, arguments, zone, target.now_ms)
    if target.base is None:
        return report_of(target.table, OPERATION, "nothing_to_do", None)
    if execute:
        from lakesweep.operations.compaction.buckets.execution import Execution  # a plan starts without what merges

        return Execution(target, task, engine).report()
    return planned(target, target.base, task)


def planned(target: Opened, base: Base, task: Task) -> RunReport:
    """Say what a call would merge.

    Raises:
        RefusedError: It would be refused, whatever the catalog.
        StorageError: A request failed.
    """
    warnings = list[str]()
    try:
        warnings += task.allow(base)
    except RefusedError as error:
        warnings.append(f"{NOT_EXECUTABLE}: {error}")
    index = index_at(task.table, base)
    buckets = task.buckets(base, index)
    found = lost_marks(task, target.table.area, base, index, buckets) if target.table.area is not None else {}
    warnings += [
        f"{lost.rows} rows are visible again that snapshot {lost.snapshot_id} of Lakesweep had hidden; an execution "
        "hides them again"
        for lost in found.values()
        if not lost.is_doubtful
    ]
    warnings += filter(None, [doubtful(found)])
    choice = task.choice(buckets)
    report = report_of(target.table, OPERATION, "planned" if choice.merges else "nothing_to_do", None)
    commits = choice_report(base.schema, buckets, choice, task.arguments.catalog.type)
    return replace(report, commits=commits, warnings=tuple(warnings))
