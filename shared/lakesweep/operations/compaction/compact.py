"""`compact`: merge small data files of an append table, and take deleted rows out, in one commit.

Tables with a primary key are merged bucket by bucket (`buckets/run.py`).

Rows stay as they are, in the columns of the latest schema. If another writer commits while data files are rewritten,
each bin is committed whose files are all still there with the same deletion vectors. A bin that has lost one of them is
given up. So no row that somebody deleted meanwhile comes back.

Source: Paimon 1.4 `AppendCompactTask`, `AppendCompactCoordinator`.
"""

from dataclasses import replace
from typing import Any

from lakesweep.commit.base import Base
from lakesweep.errors import RefusedError
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.buckets.run import compact_buckets
from lakesweep.operations.compaction.task import INSTEAD, OPERATION, Task
from lakesweep.operations.rows.checks import check_append_table
from lakesweep.operations.tags.options import declared_zone
from lakesweep.runs.committing.opened import Opened, opened
from lakesweep.runs.fleet import rule_of, ruling_of
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import NOT_EXECUTABLE, Table


def compact(table: Table, arguments: CompactArguments, *, execute: bool, engine: Any = None) -> RunReport:
    """Compact the data files of a branch, or say which ones a call would rewrite.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        execute: If false, nothing changes.
        engine: Rewrites data files, a `RewritingEngine` and `MergingEngine`; by default this process.

    Raises:
        UsageError: A partition is not given as the table's keys ask for.
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        target = opened(table, OPERATION, execute=execute)
        ruling = ruling_of(table)
        zone = declared_zone(table, arguments.zone, ruling)
        arguments = replace(arguments, sole_compactor=arguments.sole_compactor or rule_of(ruling).has_sole_compactor)
        if target.schema.primary_keys:
            return _named(compact_buckets(target, arguments, zone, execute=execute, engine=engine), target, arguments)
        check_append_table(target.schema, INSTEAD)
        if target.base is None:
            return report_of(table, OPERATION, "nothing_to_do", None)
        task = Task(table, target.schema, arguments, zone, target.now_ms)
        if execute:
            from lakesweep.operations.compaction.execution import Execution  # a plan starts without what commits

            return _named(Execution(target, task, engine).report(), target, arguments)
        return _named(planned(target, target.base, task), target, arguments)
    except RefusedError as error:
        return refused(table, OPERATION, error)


def planned(target: Opened, base: Base, task: Task) -> RunReport:
    """Say what a call would rewrite.

    Raises:
        RefusedError: It would be refused, whatever the catalog.
        StorageError: A request failed.
    """
    warnings = list[str]()
    try:
        warnings += task.allow(base)
    except RefusedError as error:
        warnings.append(f"{NOT_EXECUTABLE}: {error}")
    plan = task.plan(base)
    choice = task.choice(plan)
    report = report_of(target.table, OPERATION, "planned" if choice.bins else "nothing_to_do", None)
    return replace(report, commits=task.report(base.schema, choice), warnings=tuple(warnings))


def _named(report: RunReport, target: Opened, arguments: CompactArguments) -> RunReport:
    """Return a report that says so if the snapshot has no data file in the partitions that the call names."""
    commits = report.commits
    is_whole = not arguments.partitions or report.status != "nothing_to_do"
    if is_whole or not isinstance(commits, CompactionReport) or commits.all_files:
        return report
    sentence = f"table {target.table.ref}: no data file of its newest snapshot is in such a partition"
    return replace(report, warnings=(*report.warnings, sentence))
