"""What `drop-partition`, `truncate` and `expire-partitions` have in common: choose partitions, and commit without them.

A dry run chooses on the newest snapshot, and says which roots still show the partitions. An execution chooses anew for
each attempt, since another writer may have committed. It deletes no file: expiry does, once no root needs it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Attempt, Base, Prepared
from lakesweep.commit.commit import Committed, CommitEnvironment, commit
from lakesweep.control.lease import read_lease
from lakesweep.control.reports import store_report
from lakesweep.errors import MaintenanceError, RefusedError, StorageError
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.values.partition_path import partition_path, value_text
from lakesweep.model.commits_report import CommitsReport, MadeCommit, PartitionSummary
from lakesweep.model.partitions.expiry import Due
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.model.roots import Root
from lakesweep.operations.partitions.arguments import Catalog
from lakesweep.operations.partitions.contents import Content, Contents
from lakesweep.operations.partitions.deletion import Removed, index_of, manifests_of, prepared, removed_of, statistics_of
from lakesweep.operations.partitions.shown import roots_that_show
from lakesweep.runs.execution import finish_begun, require_area
from lakesweep.runs.fleet import check_policy
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView

_MANY = 0.5
"""An unattended call warns when it takes out more than this part of the table's files."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The partitions to take out of one snapshot."""

    due: tuple[Due, ...]
    """In the order in which they are taken out."""
    index_rows: frozenset[bytes] = frozenset()
    """Partitions without files that an index names."""
    not_due: Mapping[str, int] = field(default_factory=dict)
    due_later: int = 0
    next_due_ms: int | None = None
    warnings: tuple[str, ...] = ()


Choose = Callable[[Content, RawIndex | None], Selection]


@dataclass(frozen=True, slots=True)
class Task:
    """What to take out of a table, and how."""

    operation: str
    arguments: Mapping[str, object]
    catalog: Catalog
    contents: Contents
    choose: Choose
    options: Mapping[str, str]
    """The table's options, overridden by the call's."""
    fallback_reappears: bool = False
    batch_size: int | None = None
    """Partitions of one commit; `None`: all."""
    unattended: bool = False


def carry_out(table: Table, view: TableView, task: Task, *, execute: bool) -> RunReport:
    """Take partitions out of a table, or say which ones a call would take out.

    Args:
        table: The table, whose store caches nothing.
        view: The table as it was just listed.
        task: What to do.
        execute: If false, nothing changes.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    if not view.own.snapshots:
        return report_of(table, task.operation, "nothing_to_do", None)
    try:
        if execute:
            return _Run(table, view, task).report()
        return _planned(view, task)
    except RefusedError as error:
        return refused(table, task.operation, error)


def _planned(view: TableView, task: Task) -> RunReport:
    (newest,) = view.own_documents(view.own.snapshots[-1:])
    warnings: tuple[str, ...] = ()
    try:
        warnings = _allowed(view, task, newest)
    except RefusedError as error:
        warnings = (f"this cannot be executed: {error}",)
    content = task.contents.read(newest.snapshot)
    index = index_of(view.table.store, newest.snapshot, task.contents.corrupt)
    selection = task.choose(content, index)
    rows = _rows(selection.due) | selection.index_rows
    removed = removed_of(view.schema, content, index, rows)
    commits = _summary(view, task, content, selection, removed)
    if removed.is_empty:
        report = report_of(view.table, task.operation, "nothing_to_do", None)
        return replace(report, commits=commits, warnings=selection.warnings)
    commits = replace(commits, shown_by=roots_that_show(view, task.contents, rows))
    report = report_of(view.table, task.operation, "planned", None)
    return replace(report, commits=commits, warnings=(*warnings, *selection.warnings, *_large(task, commits)))


class _Run:
    """One execution: a commit for each batch."""

    def __init__(self, table: Table, view: TableView, task: Task) -> None:
        self._table, self._view, self._task = table, view, task
        self._area = require_area(table)
        self._started_ms = table.store.now_ms()
        self._id = new_id(self._started_ms)
        self._first: CommitsReport | None = None
        """What the first attempt was to take out."""
        self._known: frozenset[str] = frozenset()
        """The files of the first attempt."""
        self._removed: Removed | None = None
        self._partitions = 0
        self._newer: set[str] = set()
        self._made: list[MadeCommit] = []
        self._written: Mapping[str, bytes] = {}
        self._warnings: dict[str, None] = {}

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        finished = finish_begun(self._table, read_lease(self._area))
        if finished is not None and read_lease(self._area).intent is not None:
            return finished  # it was interrupted again
        if finished is not None:
            self._warn(f"run {finished.run_id} first finished a plan that an earlier run had begun")
        last: Committed | None = None
        while self._has_more(last):
            try:
                last = self._commit()
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

    def _commit(self) -> Committed:
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
            first=self._base() if not self._made else None,
        )
        committed = commit(env, self._prepare)
        for warning in committed.warnings:
            self._warn(warning)
        if committed.status == "committed":
            self._task.contents.remember(self._written)
            self._note(committed)
        return committed

    def _base(self) -> Base:
        view = self._view
        (newest,) = view.own_documents(view.own.snapshots[-1:])
        return Base(newest, view.schema)

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, task, store = attempt.base, self._task, self._table.store
        newest = base.root
        for warning in _allowed(self._view, task, newest, base.schema):
            self._warn(warning)
        content = task.contents.read(newest.snapshot, whole=newest.snapshot.total_record_count is None)
        index = index_of(store, newest.snapshot, task.contents.corrupt)
        selection = task.choose(content, index)
        for warning in selection.warnings:
            self._warn(warning)
        whole = removed_of(base.schema, content, index, _rows(selection.due) | selection.index_rows)
        self._see(content, selection, whole)
        batch = selection.due[: task.batch_size]
        removed = whole
        if len(batch) < len(selection.due):
            removed = removed_of(base.schema, content, index, _rows(batch))
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

    def _see(self, content: Content, selection: Selection, removed: Removed) -> None:
        """Note what the first attempt was to take out, and which files came since."""
        names = frozenset(raw.entry.file_name for _, raw in removed.files)
        if self._first is None:
            self._first = _summary(self._view, self._task, content, selection, removed)
            self._known = names
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
                self._warnings |= dict.fromkeys(_large(self._task, commits))
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


def _allowed(view: TableView, task: Task, newest: Root, schema: object = None) -> tuple[str, ...]:
    return refuse_commit(
        view.schema if schema is None else schema,  # type: ignore[arg-type]
        newest.snapshot,
        newest.body,
        task.catalog.type,
        "drop",
        task.fallback_reappears,
    )


def _rows(due: Sequence[Due]) -> frozenset[bytes]:
    return frozenset(each.facts.row for each in due)


def _summary(
    view: TableView, task: Task, content: Content, selection: Selection, removed: Removed
) -> CommitsReport:
    return CommitsReport(
        partitions=tuple(_partition(view, each) for each in selection.due),
        rows=removed.row_count,
        files=len(removed.files),
        bytes=removed.size_bytes,
        live_files=content.file_count,
        not_due=selection.not_due,
        due_later=selection.due_later,
        next_due_ms=selection.next_due_ms,
        catalog=task.catalog.type,
        dangling_vectors=removed.dangling_vectors,
    )


def _partition(view: TableView, due: Due) -> PartitionSummary:
    facts, schema = due.facts, view.schema
    keys, types = schema.partition_keys, schema.partition_types
    return PartitionSummary(
        partition_path(keys, types, facts.values, legacy_name=False).rstrip("/"),
        {
            key: None if value is None else value_text(value, type_, legacy_name=False)
            for key, type_, value in zip(keys, types, facts.values, strict=True)
        },
        facts.rows,
        facts.files,
        facts.bytes,
        due.time_ms,
        due.why,
    )


def _large(task: Task, commits: CommitsReport) -> tuple[str, ...]:
    if not task.unattended or not commits.live_files or commits.files <= _MANY * commits.live_files:
        return ()
    return (
        f"{commits.files} of {commits.live_files} live files lie in expired partitions, more than half of the table",
    )
