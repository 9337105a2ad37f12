"""Take back a run of `delete-rows`: one commit that takes the run's positions out of the deletion vectors again.

Rows that others deleted stay deleted. What comes back is decided anew on the base of each attempt. Rows of data files
that are gone do not come back: only a rollback as latest has them, and it also takes back every later commit.
"""

from collections.abc import Sequence
from dataclasses import replace

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base
from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.commit.next_snapshot import statistics_of
from lakesweep.control.area import ControlArea
from lakesweep.control.reports import record_undone
from lakesweep.errors import RefusedError, StorageError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.commits.returned import ReturnedReport
from lakesweep.model.report import Refusal, RunReport
from lakesweep.operations.rows.checks import check_vectors
from lakesweep.operations.rows.commit import NewIndex, index_at, leaving_of, prepared
from lakesweep.operations.rows.engine import LocalEngine
from lakesweep.operations.rows.groups import Group, groups_of
from lakesweep.operations.rows.rewriting import Rewriting
from lakesweep.operations.undo.branch_rewrites import OPERATION
from lakesweep.operations.undo.committed import DeletedRows
from lakesweep.operations.undo.deleted_positions import DeletedPositions, deleted_positions
from lakesweep.operations.undo.returning import Return, Returning
from lakesweep.runs.committing.catalog import Catalog, declared_catalog
from lakesweep.runs.committing.opened import Opened, opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.runs.fleet import ruling_of
from lakesweep.runs.metadata_cache import remembering_manifests
from lakesweep.runs.reports import report_of
from lakesweep.runs.session import NOT_EXECUTABLE, Table

ROWS_LEFT = "rows_left"
"""Code of an undo after which some of the rows are still gone."""


def undo_rows(table: Table, area: ControlArea, run: DeletedRows, *, execute: bool) -> RunReport:
    """Bring the rows of a run back, or say which a call would bring back.

    Args:
        table: The branch of the run.
        area: The table's documents.
        run: The run.
        execute: If false, nothing changes.

    Raises:
        RefusedError: The run cannot be undone, or none of its rows can come back (`rows_left`).
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    target = opened(table, OPERATION, execute=execute)
    if target.base is None:
        raise run.refusal("rolled_back", "its branch has no snapshot")
    task = _Task(table, run, target.base)
    if not execute:
        return _planned(target, target.base, task)
    report = _Execution(target, task).report()
    if report.commits is not None and report.commits.made and report.run_id is not None:
        try:
            record_undone(area, run.run_id, report.run_id)
        except StorageError as error:
            warning = f"the rows are back, but `lakesweep runs` does not show run {run.run_id} as undone: {error}"
            return replace(report, warnings=(*report.warnings, warning))
    return report


class _Task:
    """What an undo brings back, on any snapshot."""

    def __init__(self, table: Table, run: DeletedRows, base: Base) -> None:
        declared = declared_catalog(Catalog(), ruling_of(table))
        self.catalog = declared if declared.type is not None else Catalog(run.catalog)
        table = remembering_manifests(table)
        self.table, self.run = table, run
        check_vectors(base.schema)
        self.deleted: DeletedPositions = deleted_positions(table, base.schema, run)
        self.look = Return(table, run, self.deleted)

    def check_allowed(self, base: Base) -> None:
        """Make sure that the table allows the commit.

        Raises:
            RefusedError: It does not.
        """
        check_vectors(base.schema)
        newest = base.root
        refuse_commit(base.schema, newest.snapshot, newest.body, self.catalog.type, "return_rows", True)

    def groups(self, base: Base, index: RawIndex | None, returning: Returning) -> tuple[Group, ...]:
        """Return the index files to write."""
        return groups_of(returning.changes, index, base.schema, takes_out=True)

    def report(self, returning: Returning, groups: Sequence[Group] = ()) -> ReturnedReport:
        """Return what a report says."""
        return ReturnedReport(
            run_id=self.run.run_id,
            snapshot_id=self.run.snapshot_id,
            rows=returning.rows,
            files=len(returning.changes),
            left=returning.left,
            there_already=returning.there_already,
            index_files=sum(len(group.former) for group in groups),
            catalog=self.catalog.type,
        )

    def rows_left(self, returning: Returning) -> str:
        """Say which rows do not come back, and what brings them back; empty if all do."""
        left, before = returning.left, self.deleted.before
        if not left:
            return ""
        words = {
            "left_whole": "left the table with the run, since all of their rows were deleted",
            "gone": "were compacted, dropped or overwritten since",
            "unclear": "have rows of which nobody can tell whether somebody else deleted them again",
        }
        counts = {why: sum(file.why == why for file in left) for why in words}
        reasons = ", ".join(f"{count} {words[why]}" for why, count in counts.items() if count)
        version = f"--snapshot {before.id}" if before.kind == "snapshot" else f"--tag {before.name}"
        advice = (
            f"; lakesweep rollback TABLE --as-latest {version} commits the version before the run again, and takes "
            "back whatever was committed since"
            if counts["left_whole"] + counts["gone"]
            else ""
        )
        rows, files = sum(file.rows for file in left), len(left)
        return (
            f"table {self.table.ref}: {rows} row{'s'[: rows != 1]} of {files} data file{'s'[: files != 1]} that run "
            f"{self.run.run_id} deleted do not come back. Of these files {reasons}{advice}"
        )

    def check_any(self, returning: Returning) -> None:
        """Make sure that something comes back, or did so before: then it may lie in other files by now.

        Raises:
            RefusedError: Nothing does.
        """
        is_back = returning.there_already or self.run.undone_by is not None
        if returning.left and not returning.changes and not is_back:
            raise RefusedError(self.rows_left(returning), code=ROWS_LEFT)


def _planned(target: Opened, base: Base, task: _Task) -> RunReport:
    table, warnings = target.table, list[str]()
    returning = task.look.at(base)
    task.check_any(returning)
    if returning.changes:
        try:
            task.check_allowed(base)
        except RefusedError as error:
            warnings.append(f"{NOT_EXECUTABLE}: {error}")
    if left := task.rows_left(returning):
        warnings.append(left)
    commits = task.report(returning, task.groups(base, index_at(task.table, base), returning))
    report = report_of(table, OPERATION, "planned" if returning.changes else "nothing_to_do", None)
    return replace(report, commits=commits, warnings=tuple(warnings))


class _Execution:
    """One execution: one commit."""

    def __init__(self, target: Opened, task: _Task) -> None:
        self._target, self._task = target, task
        self._run = CommitRun(
            target,
            OPERATION,
            target.schema.options,
            has_lock=task.catalog.has_lock,
            unattended=False,
            show=self._shown,
        )
        self._rewriting = Rewriting(task.table, LocalEngine(task.table))
        self._returning = Returning()
        self._report = task.report(self._returning)

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        return self._run.report(lambda: self._run.commit(self._prepare))

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, task, table = attempt.base, self._task, self._task.table
        returning = self._returning = task.look.at(base)
        task.check_any(returning)
        self._report = task.report(returning)
        if not returning.changes:
            return None
        task.check_allowed(base)
        index = index_at(table, base)
        groups = task.groups(base, index, returning)
        written = self._rewriting.write(attempt, groups, returning.rows)
        statistics, lost = statistics_of(table.store, base.root.snapshot, base.schema)
        if lost is not None:
            self._run.warn(lost)
        self._report = replace(
            task.report(returning, groups),
            written_files=written.files,
            written_bytes=written.bytes,
            reused_attempt=written.is_reused,
        )
        new = NewIndex(index, groups, written.groups)
        return prepared(
            attempt, new, leaving_of(attempt, table, ()), manifests_of(base.schema.options), statistics, written.since
        )

    def _shown(self, report: RunReport, made: tuple[MadeCommit, ...]) -> RunReport:
        report = replace(report, commits=replace(self._report, made=made))
        left = self._task.rows_left(self._returning)
        if left and report.status == "done":
            return replace(report, status="partial", refusal=Refusal(ROWS_LEFT, left))
        if left:
            self._run.warn(left)
        return report
