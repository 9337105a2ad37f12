"""One execution of `delete-rows`: search, write index files or data files, and commit."""

from collections.abc import Sequence
from dataclasses import replace

from lakesweep.commit.base import Base
from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.commit.next_snapshot import statistics_of
from lakesweep.errors import StalePlanError, UsageError
from lakesweep.format.entry_writer import new_entry
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.reading.plan import ReadFile
from lakesweep.model.report import RunReport
from lakesweep.model.where.where import parse_where
from lakesweep.operations.rows.commit import NewIndex, leaving_of, prepared
from lakesweep.operations.rows.copies import Copies, Copying
from lakesweep.operations.rows.rewriting import Rewriting
from lakesweep.operations.rows.task import OPERATION, Task
from lakesweep.runs.committing.opened import Opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.storage.clock import Stopwatch
from lakesweep.table.contents.content import TextEntry


class Execution:
    """One execution: one commit."""

    def __init__(self, target: Opened, task: Task) -> None:
        self._target, self._task = target, task
        given = task.arguments
        self._options = {**target.schema.options, **given.options}
        self._run = CommitRun(
            target, OPERATION, self._options, has_lock=given.catalog.has_lock, unattended=False, show=self._shown
        )
        self._rewriting = Rewriting(target.table, task.engine)
        self._copying = Copying(target.table, task.engine, given.zone)
        self._report = task.report()
        self._leaving: Sequence[ReadFile] = ()
        """The data files that leave the table."""

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        return self._run.report(lambda: self._run.commit(self._prepare, self._noted))

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, task, table = attempt.base, self._task, self._task.table
        self._check_schema(base)
        for warning in task.warnings(base):
            self._run.warn(warning)
        # A rollback brings older files back, also one that is committed on top; that is an OVERWRITE.
        has_older = base.is_restart or any(root.snapshot.commit_kind == "OVERWRITE" for root in base.since)
        found = task.search.at(base.root, base.schema, looks_anew=has_older)
        deletion = task.deletion(base, found)
        self._report = task.report(base, deletion)
        if not found.matches:
            return None
        written = self._rewriting.write(attempt, deletion.groups, deletion.vector_rows)
        added = self._copied(attempt, deletion.copies)
        self._leaving = deletion.leaving
        statistics, lost = statistics_of(table.store, base.root.snapshot, base.schema)
        if lost is not None:
            self._run.warn(lost)
        self._report = replace(
            self._report,
            written_files=written.files,
            written_bytes=written.bytes,
            reused_attempt=found.is_reused or written.is_reused or self._copying.is_reused,
        )
        since = [each for each in (written.since, self._copying.since) if each is not None]
        return prepared(
            attempt,
            NewIndex(deletion.index, deletion.groups, written.groups),
            leaving_of(attempt, table, self._leaving),
            manifests_of(self._options),
            statistics,
            max(since, key=Stopwatch.elapsed_ms, default=None),
            added=added,
        )

    def _copied(self, attempt: Attempt, copies: Copies | None) -> Sequence[TextEntry]:
        """Rewrite data files, and return the entries of the new ones."""
        if copies is None:
            return ()
        made = self._copying.write(attempt, copies)
        self._report = replace(self._report, rewritten=copies.report(made))
        return [
            new_entry(file, each.partition, 0, -1)
            for each, written in zip(copies.bins, made, strict=True)
            for file in written.files
        ]

    def _check_schema(self, base: Base) -> None:
        """Make sure that the columns of the condition are still the same.

        Raises:
            StalePlanError: They are not.
        """
        given = self._task.arguments
        try:
            where = parse_where(given.where, base.schema.fields, zone=self._task.where.zone)
        except UsageError as error:
            where, why = None, f": {error}"
        else:
            why = ""
        if where != self._task.where:
            raise StalePlanError(
                f"table {self._target.table.ref}: schema {base.schema.id} has changed columns of the condition since "
                f"the call began{why}; run again"
            )

    def _noted(self, made: MadeCommit) -> MadeCommit:
        return replace(
            made,
            partitions=sum(each.loses_all for each in self._report.partitions),
            rows=self._report.rows,
            files=len(self._leaving),
            bytes=sum(file.size_bytes for file in self._leaving),
        )

    def _shown(self, report: RunReport, made: tuple[MadeCommit, ...]) -> RunReport:
        return replace(report, commits=replace(self._report, made=made))
