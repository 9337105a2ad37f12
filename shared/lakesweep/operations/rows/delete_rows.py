"""`delete-rows`: take rows out of the newest version of a table by deletion vectors, in one commit.

No data file is rewritten. If every row of a file is deleted, the file leaves the table. If every file of a partition
does, the partition is dropped.

The rows are looked for in the newest snapshot, before the commit. If another writer commits meanwhile, the commit is
built on top, provided that each data file with such rows is still there with the same vector. Otherwise those that
changed are searched again, with those that came since. No change of another writer is ever undone.
"""

from collections.abc import Sequence
from dataclasses import replace

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base
from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.index_files import refuse_external
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.commit.next_snapshot import statistics_of
from lakesweep.errors import RefusedError, StalePlanError, UsageError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.schema import TableSchema
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.commits.rows import RowsReport
from lakesweep.model.reading.plan import ReadFile
from lakesweep.model.report import RunReport
from lakesweep.model.where.where import Where, parse_where
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.checks import check_condition, check_table
from lakesweep.operations.rows.commit import NewIndex, index_at, leaving_of, prepared
from lakesweep.operations.rows.engine import LocalEngine, RowsEngine
from lakesweep.operations.rows.groups import Group, groups_of
from lakesweep.operations.rows.rewriting import Rewriting
from lakesweep.operations.rows.search import Found, Search
from lakesweep.operations.rows.shown import roots_that_show
from lakesweep.operations.rows.summary import partitions_of, sample_of
from lakesweep.runs.committing.opened import Opened, opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.runs.fleet import rule_of, ruling_of
from lakesweep.runs.metadata_cache import remembering_manifests
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import NOT_EXECUTABLE, Table

OPERATION = "delete-rows"
_UTC = "UTC"


def delete_rows(
    table: Table, arguments: DeleteRowsArguments, *, execute: bool, engine: RowsEngine | None = None
) -> RunReport:
    """Delete the rows of a condition from a branch, or say which rows a call would delete.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        execute: If false, nothing changes.
        engine: Searches data files and writes index files; by default this process.

    Raises:
        UsageError: The condition is not valid (`bad_where`).
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        target = opened(table, OPERATION, execute=execute)
        check_table(target.schema)
        where = where_of(table, target.schema, arguments)
        task = _Task(table, arguments, where, engine or LocalEngine(table))
        if target.base is None or where.always is False:
            return replace(report_of(table, OPERATION, "nothing_to_do", None), commits=task.report())
        return _Execution(target, task).report() if execute else _planned(target, target.base, task)
    except RefusedError as error:
        return refused(table, OPERATION, error)


def where_of(table: Table, schema: TableSchema, arguments: DeleteRowsArguments) -> Where:
    """Return the condition. The fleet policy is read only if a time zone matters that the call does not state.

    Raises:
        UsageError: It is not valid (`bad_where`).
        RefusedError: See `check_condition`.
    """
    zone = arguments.zone
    where = parse_where(arguments.where, schema.fields, zone=zone or _UTC)
    if zone is None and where.depends_on_zone:
        zone = rule_of(ruling_of(table)).time_zone
        where = parse_where(arguments.where, schema.fields, zone=zone or _UTC)
    check_condition(where, zone=zone, confirm=arguments.confirm)
    return where


class _Task:
    """What a call deletes, on any snapshot."""

    def __init__(self, table: Table, arguments: DeleteRowsArguments, where: Where, engine: RowsEngine) -> None:
        self.arguments = arguments
        self.table = remembering_manifests(table)
        self.where = where
        self.search = Search(self.table, engine, where)
        self.engine = engine

    def warnings(self, base: Base) -> tuple[str, ...]:
        """Return the warnings of a commit that a table allows.

        Raises:
            RefusedError: It does not allow the commit.
        """
        check_table(base.schema)
        refuse_external(self.table.store, base.schema)
        newest, given = base.root, self.arguments
        return refuse_commit(
            base.schema, newest.snapshot, newest.body, given.catalog.type, "delete_rows", given.fallback_reappears
        )

    def groups(self, base: Base, index: RawIndex | None, found: Found) -> tuple[Group, ...]:
        """Return the index files to write."""
        changes = (match.change for match in found.matches)
        return groups_of(changes, index, base.schema, dangling=found.plan.counts.dangling)

    def report(self, base: Base | None = None, found: Found | None = None, groups: Sequence[Group] = ()) -> RowsReport:
        """Return what a report says."""
        where, given = self.where, self.arguments
        report = RowsReport(
            condition=where.text if given.keep_condition else str(where),
            zone=where.zone if where.depends_on_zone else None,
            catalog=given.catalog.type,
        )
        if base is None or found is None:
            return report
        return replace(
            report,
            base_uuid=base.root.snapshot.uuid,
            partitions=partitions_of(base.schema, found),
            all_files=found.plan.counts.files + found.plan.counts.pruned_files,
            searched_files=self.search.searched_files,
            index_files=sum(len(group.former) for group in groups),
        )


def _planned(target: Opened, base: Base, task: _Task) -> RunReport:
    table, warnings = target.table, list[str]()
    try:
        warnings += task.warnings(base)
    except RefusedError as error:
        warnings.append(f"{NOT_EXECUTABLE}: {error}")
    found = task.search.at(base.root, base.schema)
    groups = task.groups(base, index_at(task.table, base), found)
    commits = replace(task.report(base, found, groups), shown_by=roots_that_show(target.whole(), found))
    if task.arguments.show_rows:
        commits = replace(commits, sample=sample_of(task.table, base, task.where, found))
    report = report_of(table, OPERATION, "planned" if found.matches else "nothing_to_do", None)
    return replace(report, commits=commits, warnings=tuple(warnings))


class _Execution:
    """One execution: one commit."""

    def __init__(self, target: Opened, task: _Task) -> None:
        self._target, self._task = target, task
        given = task.arguments
        self._options = {**target.schema.options, **given.options}
        self._run = CommitRun(
            target, OPERATION, self._options, has_lock=given.catalog.has_lock, unattended=False, show=self._shown
        )
        self._rewriting = Rewriting(target.table, task.engine)
        self._report = task.report()
        self._whole: Sequence[ReadFile] = ()
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
        index = index_at(table, base)
        groups = task.groups(base, index, found)
        self._report = task.report(base, found, groups)
        if not found.matches:
            return None
        written = self._rewriting.write(
            attempt, groups, sum(match.count for match in found.matches if not match.is_whole)
        )
        self._whole = [match.file for match in found.matches if match.is_whole]
        leaving = leaving_of(attempt, table, self._whole)
        statistics, lost = statistics_of(table.store, base.root.snapshot, base.schema)
        if lost is not None:
            self._run.warn(lost)
        self._report = replace(
            self._report,
            written_files=written.files,
            written_bytes=written.bytes,
            reused_attempt=found.is_reused or written.is_reused,
        )
        new = NewIndex(index, groups, written.groups)
        return prepared(attempt, new, leaving, manifests_of(self._options), statistics, written.since)

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
            files=len(self._whole),
            bytes=sum(file.size_bytes for file in self._whole),
        )

    def _shown(self, report: RunReport, made: tuple[MadeCommit, ...]) -> RunReport:
        return replace(report, commits=replace(self._report, made=made))
