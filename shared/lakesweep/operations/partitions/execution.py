"""The execution of a call that takes partitions out of a table: a commit for each batch, and the report."""

from collections.abc import Mapping
from dataclasses import replace

from lakesweep.commit.base import Base
from lakesweep.commit.environment import Attempt, CommitEnvironment, Committed, Prepared
from lakesweep.commit.loop import commit
from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.control.reports import store_report
from lakesweep.errors import MaintenanceError, StalePlanError, StorageError
from lakesweep.format.schema import TableSchema
from lakesweep.model.commits_report import CommitsReport, MadeCommit
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.operations.partitions.content import Content
from lakesweep.operations.partitions.deletion import (
    Removed,
    index_of,
    manifests_of,
    prepared,
    removed_of,
    statistics_of,
)
from lakesweep.operations.partitions.opened import Opened
from lakesweep.operations.partitions.task import Selection, Task, check_allowed, large, rows_of, summary_of
from lakesweep.runs.execution import finish_begun, require_area
from lakesweep.runs.fleet import check_policy
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.reports import report_of


class Execution:
    """One execution: a commit for each batch."""

    def __init__(self, target: Opened, task: Task) -> None:
        self._table, self._base, self._task = target.table, target.base, task
        table = self._table
        self._area = require_area(table)
        self._started_ms = table.store.now_ms()
        self._id = new_id(self._started_ms)
        self._first: CommitsReport | None = None
        """What the first attempt was to take out."""
        self._known: frozenset[str] = frozenset()
        """The files of the first attempt."""
        self._left: frozenset[bytes] = frozenset()
        """Partitions that the first attempt found, and was not to take out."""
        self._removed: Removed | None = None
        self._partitions = 0
        self._newer: set[str] = set()
        self._made: list[MadeCommit] = []
        self._written: Mapping[str, bytes] = {}
        self._warnings: dict[str, None] = {}

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        lease = read_lease(self._area)
        finished = finish_begun(self._table, lease) if self._table.may_delete else None
        if finished is not None:
            lease = read_lease(self._area)
            if lease.intent is not None:
                return finished  # it was interrupted again
            self._warn(f"run {finished.run_id} first finished a plan that an earlier run had begun")
        last: Committed | None = None
        while self._has_more(last):
            try:
                last = self._commit(None if last else lease)
            except MaintenanceError as error:
                if not self._made:
                    raise
                return self._ended("partial", Refusal(error.code, str(error), error.exit_code))
        assert last is not None
        if last.status in ("committed", "nothing_to_do"):
            if not self._made:
                return self._shown(report_of(self._table, self._task.operation, "nothing_to_do", None))
            return self._ended("done", None)
        is_half = bool(self._made) or last.status != "gave_up"
        return self._ended("partial" if is_half else "stale", Refusal(last.code, last.message))

    def _has_more(self, last: Committed | None) -> bool:
        if last is None:
            return True
        batch, first = self._task.batch_size, self._first
        if last.status != "committed" or batch is None or first is None:
            return False
        return len(self._made) * batch < len(first.partitions)

    def _commit(self, lease: LeaseDocument | None) -> Committed:
        table = self._table
        env = CommitEnvironment(
            store=table.store,
            area=self._area,
            branch=table.ref.branch,
            run_id=self._id,
            batch=len(self._made) + 1,
            options=self._task.options,
            has_lock=self._task.catalog.has_lock,
            sleep=table.sleep,
            check_time=table.check_time,
            check_policy=lambda: check_policy(table, manual=not self._task.unattended),
            first=None if self._made else self._base,
            lease=lease,
        )
        committed = commit(env, self._prepare)
        for warning in committed.warnings:
            self._warn(warning)
        if committed.status == "committed":
            self._task.contents.remember(self._written)
            self._note(committed)
        return committed

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, task, store = attempt.base, self._task, self._table.store
        newest = base.root
        self._check_rules(base)
        for warning in check_allowed(task, base):
            self._warn(warning)
        content = task.contents.read(newest.snapshot, whole=newest.snapshot.total_record_count is None)
        index = index_of(store, newest.snapshot, task.contents.corrupt)
        selection = task.choose(content, index)
        for warning in selection.warnings:
            self._warn(warning)
        selection = replace(selection, due=tuple(each for each in selection.due if each.facts.row not in self._left))
        whole = removed_of(base.schema, content, index, rows_of(selection.due) | selection.index_rows)
        self._see(base, content, selection, whole)
        batch = tuple(each for each in selection.due if each.facts.row in whole.rows)[: task.batch_size]
        removed = whole
        if len(batch) < len(selection.due):
            removed = removed_of(base.schema, content, index, rows_of(batch))
        if removed.is_empty:
            return None
        for root in base.since:
            if root.snapshot.commit_kind != "APPEND" and not root.snapshot.commit_user.endswith(self._id):
                self._warn(
                    f"{root.ref} ({root.snapshot.commit_kind}) was committed meanwhile, so the commit was planned "
                    "anew as a whole"
                )
        statistics, lost = statistics_of(store, newest.snapshot, base.schema)
        if lost is not None:
            self._warn(lost)
        self._removed, self._partitions = removed, len(batch)
        made = prepared(attempt, content, removed, manifests_of(task.options), statistics)
        self._written = made.files
        return made

    def _check_rules(self, base: Base) -> None:
        """Make sure that the newest schema still says what the partitions were asked for, or expire, by.

        Raises:
            StalePlanError: It does not.
        """
        first = self._base
        if first is not None and base.schema_ref != first.schema_ref and _rules(base.schema) != _rules(first.schema):
            raise StalePlanError(
                f"table {self._table.ref}: schema {base.schema.id} has other partition keys, or other options "
                f"partition.*, than schema {first.schema.id}, by which the partitions were chosen; run again"
            )

    def _see(self, base: Base, content: Content, selection: Selection, removed: Removed) -> None:
        """Note what the first attempt was to take out, and which files came since."""
        names = frozenset(raw.entry.file_name for _, raw in removed.files)
        if self._first is None:
            self._first = summary_of(base.schema, self._task, content, selection, removed)
            self._known = names
            self._left = frozenset(facts.row for facts in content.partitions() if facts.files) - rows_of(selection.due)
        else:
            self._newer |= names - self._known

    def _note(self, committed: Committed) -> None:
        removed = self._removed
        assert removed is not None and committed.snapshot_id is not None and committed.uuid is not None
        self._made.append(
            MadeCommit(
                committed.snapshot_id,
                committed.uuid,
                self._partitions,
                removed.row_count,
                len(removed.files),
                removed.size_bytes,
                committed.attempts,
                committed.replaced,
            )
        )

    def _warn(self, warning: str) -> None:
        self._warnings[warning] = None

    def _shown(self, report: RunReport) -> RunReport:
        commits = self._first
        if commits is not None:
            commits = replace(commits, made=tuple(self._made), newer_files=len(self._newer))
            if self._made:
                self._warnings |= dict.fromkeys(large(self._task, commits))
        return replace(report, commits=commits, warnings=tuple(self._warnings), requests=self._table.counter.snapshot())

    def _ended(self, status: Status, refusal: Refusal | None) -> RunReport:
        table = self._table
        report = self._shown(report_of(table, self._task.operation, status, None))
        report = replace(report, run_id=self._id, executed=True, refusal=refusal)
        times_ms = (self._started_ms, table.store.now_ms())
        try:
            store_report(self._area, self._id, report.to_json(), report.all_warnings(), times_ms)
        except StorageError as error:
            ids = ", ".join(str(made.snapshot_id) for made in self._made)
            raise type(error)(
                f"table {table.ref}: snapshot {ids} is committed; the report of run {self._id} could not be written: "
                f"{error}",
                code=error.code,
            ) from error
        return replace(report, requests=table.counter.snapshot())


def _rules(schema: TableSchema) -> tuple[object, ...]:
    """Return what decides which partitions go."""
    options = {name: value for name, value in schema.options.items() if name.startswith("partition.")}
    return schema.partition_keys, schema.partition_types, options
