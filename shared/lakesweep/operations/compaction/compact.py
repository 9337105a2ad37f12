"""`compact`: merge small data files of an append table, and take deleted rows out, in one commit.

Rows stay as they are, in the columns of the latest schema. If another writer commits while data files are rewritten,
each bin is committed whose files are all still there with the same deletion vectors. A bin that has lost one of them is
given up. So no row that somebody deleted meanwhile comes back.

Source: Paimon 1.4 `AppendCompactTask`, `AppendCompactCoordinator`.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base
from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.index_files import refuse_external
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.commit.next_snapshot import statistics_of
from lakesweep.errors import FormatError, RefusedError, StalePlanError
from lakesweep.format.entry_writer import new_entry
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import decode_row
from lakesweep.model.commits.compaction import CompactionReport, PartitionBins
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.partitions.names import partition_name
from lakesweep.model.partitions.spec import matcher, parse_specs
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.checks import check_table
from lakesweep.operations.compaction.engine import CompactionEngine, LocalEngine, Work
from lakesweep.operations.compaction.rewriting import RewrittenBin
from lakesweep.operations.compaction.rules.pick import Bin, bins_of, deleted_rows, pick_options
from lakesweep.operations.partitions.drop_partition import DEFAULT_NAME
from lakesweep.operations.reading.plan import plan_at
from lakesweep.operations.rows.checks import check_files, stated_width
from lakesweep.operations.rows.commit import NewIndex, leaving_of, prepared
from lakesweep.operations.rows.engine import LocalEngine as LocalRows
from lakesweep.operations.rows.groups import Change, groups_of, width_of
from lakesweep.operations.rows.rewriting import Rewriting
from lakesweep.operations.tags.options import declared_zone
from lakesweep.operations.writing.options import Writing, writing_of
from lakesweep.operations.writing.parquet import check_types
from lakesweep.runs.committing.opened import Opened, opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.runs.fleet import ruling_of
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import NOT_EXECUTABLE, Table
from lakesweep.storage.clock import Stopwatch
from lakesweep.storage.wrappers.remembering import RememberingStore
from lakesweep.table.contents.content import TextEntry
from lakesweep.table.contents.index import index_of
from lakesweep.table.contents.strict import StrictMetadata
from lakesweep.table.paths import TablePaths

OPERATION = "compact"
BINS_LOST = "bins_lost"
"""Code of a run some of whose data files were rewritten in vain."""


def compact(
    table: Table, arguments: CompactArguments, *, execute: bool, engine: CompactionEngine | None = None
) -> RunReport:
    """Compact the data files of a branch, or say which ones a call would rewrite.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        execute: If false, nothing changes.
        engine: Rewrites data files; by default this process.

    Raises:
        UsageError: A partition is not given as the table's keys ask for.
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        target = opened(table, OPERATION, execute=execute)
        zone = declared_zone(table, arguments.zone, ruling_of(table))
        check_table(target.schema)
        if target.base is None:
            return report_of(table, OPERATION, "nothing_to_do", None)
        task = _Task(table, target.schema, arguments, zone)
        if execute:
            return _Execution(target, task, engine or LocalEngine(table)).report()
        return _planned(target, target.base, task)
    except RefusedError as error:
        return refused(table, OPERATION, error)


class _Task:
    """What a call compacts."""

    def __init__(self, table: Table, schema: TableSchema, arguments: CompactArguments, zone: tzinfo | None) -> None:
        self.arguments, self.zone = arguments, zone
        self.table = table
        if not isinstance(table.store, RememberingStore):
            self.table = replace(table, store=RememberingStore(table.store, table.memory, {}))
        self.options = {**schema.options, **arguments.options}
        self.writing: Writing = writing_of(replace(schema, options=self.options), schema.fields)
        check_types(schema.fields)
        name = schema.options.get(*DEFAULT_NAME)
        keys, types = schema.partition_keys, schema.partition_types
        self._matches: Callable[[tuple[object, ...]], bool] | None = None
        if arguments.partitions:
            self._matches = matcher(parse_specs(arguments.partitions, keys, types, name, zone))

    def allow(self, base: Base) -> tuple[str, ...]:
        """Return the warnings of a commit that a table allows.

        Raises:
            RefusedError: It does not allow the commit.
        """
        check_table(base.schema)
        refuse_external(self.table.store, base.schema)
        newest = base.root
        return refuse_commit(base.schema, newest.snapshot, newest.body, self.arguments.catalog.type, "compact", True)

    def plan(self, base: Base) -> ReadPlan:
        """Return the live data files of a snapshot, with all columns."""
        names = [field.name for field in base.schema.fields]
        plan = plan_at(self.table, base.root, base.schema, None, names)
        check_files(plan)
        return plan

    def bins(self, schema: TableSchema, plan: ReadPlan) -> tuple[tuple[Bin, ...], int]:
        """Return the bins to rewrite, and how many files are left for another run.

        Raises:
            RefusedError: An option does not parse.
        """
        files = [file for split in plan.splits for file in split.files]
        matches = self._matches
        if matches is not None:
            chosen = {
                row: matches(tuple(decode_row(row, schema.partition_types, "a partition")))
                for row in {file.partition for file in files}
            }
            files = [file for file in files if chosen[file.partition]]
        try:
            found = bins_of(files, pick_options(self.options), force=self.arguments.force)
        except FormatError as error:
            raise RefusedError(str(error), code="bad_option") from error
        taken, size = list[Bin](), 0
        for each in found:
            if not taken or size + each.size_bytes <= self.arguments.max_bytes:
                taken.append(each)
                size += each.size_bytes
        return tuple(taken), sum(len(each.files) for each in found) - sum(len(each.files) for each in taken)

    def report(self, schema: TableSchema, plan: ReadPlan, bins: Sequence[Bin], left: int) -> CompactionReport:
        """Return what a report says."""
        return CompactionReport(
            partitions=_partitions(schema, bins),
            all_files=plan.counts.files,
            waiting_files=left,
            catalog=self.arguments.catalog.type,
        )


def _partitions(schema: TableSchema, bins: Sequence[Bin]) -> tuple[PartitionBins, ...]:
    by_partition: defaultdict[bytes, list[Bin]] = defaultdict(list)
    for each in bins:
        by_partition[each.partition].append(each)
    keys, types = schema.partition_keys, schema.partition_types
    found = []
    for partition, own in by_partition.items():
        files = [file for each in own for file in each.files]
        deleted = [deleted_rows(file) for file in files]
        found.append(
            PartitionBins(
                partition_name(keys, types, decode_row(partition, types, "a partition")),
                len(files),
                sum(file.size_bytes for file in files),
                sum(file.rows for file in files),
                None if None in deleted else sum(count for count in deleted if count is not None),
                len(own),
            )
        )
    return tuple(found)


def _planned(target: Opened, base: Base, task: _Task) -> RunReport:
    warnings = list[str]()
    try:
        warnings += task.allow(base)
    except RefusedError as error:
        warnings.append(f"{NOT_EXECUTABLE}: {error}")
    plan = task.plan(base)
    bins, left = task.bins(base.schema, plan)
    report = report_of(target.table, OPERATION, "planned" if bins else "nothing_to_do", None)
    return replace(report, commits=task.report(base.schema, plan, bins, left), warnings=tuple(warnings))


class _Execution:
    """One execution: one commit."""

    def __init__(self, target: Opened, task: _Task, engine: CompactionEngine) -> None:
        self._target, self._task, self._engine = target, task, engine
        self._run = CommitRun(
            target,
            OPERATION,
            task.options,
            has_lock=task.arguments.catalog.has_lock,
            unattended=False,
            show=self._shown,
        )
        self._vectors = Rewriting(target.table, LocalRows(task.table))
        self._rewritten: dict[Bin, RewrittenBin] | None = None
        """What was written; `None`: nothing yet. `_since` counts from before that."""
        self._since = Stopwatch()
        self._schema_id = target.schema.id
        self._report = CompactionReport(catalog=task.arguments.catalog.type)
        self._lost: frozenset[Bin] = frozenset()
        self._taken: tuple[Bin, ...] = ()

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        return self._run.report(lambda: self._run.commit(self._prepare, self._noted))

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, task = attempt.base, self._task
        store = task.table.store
        for warning in task.allow(base):
            self._run.warn(warning)
        if base.schema.id != self._schema_id:
            raise StalePlanError(
                f"table {task.table.ref}: schema {base.schema.id} came while data files were rewritten in the columns "
                f"of schema {self._schema_id}; run again"
            )
        plan = task.plan(base)
        if not attempt.may_reuse or base.is_restart or self._since.elapsed_ms() > ORPHAN_AGE_MS // 2:
            self._rewritten = None  # a rollback or an orphan scan may have deleted what an earlier attempt wrote
        if self._rewritten is None:
            bins, left = task.bins(base.schema, plan)
            self._report = task.report(base.schema, plan, bins, left)
            if not bins:
                return None
            self._rewritten = self._rewrite(attempt, plan, bins)
        files = {file.path: file for split in plan.splits for file in split.files}
        self._taken = tuple(
            each for each in self._rewritten if all(files.get(file.path) == file for file in each.files)
        )
        self._lost = frozenset(self._rewritten) - frozenset(self._taken)
        if not self._taken:
            return None
        corrupt = StrictMetadata(store, str(task.table.ref)).corrupt
        index = index_of(store, base.root.snapshot, corrupt)
        inputs = [file for each in self._taken for file in each.files]
        changes = (Change(file, None) for file in inputs)
        width = width_of(index, stated_width(base.schema))
        groups = groups_of(changes, index, TablePaths(base.schema), width, dangling=plan.counts.dangling)
        vectors = self._vectors.write(attempt, groups, 0)
        self._report = replace(self._report, index_files=sum(len(group.former) for group in groups))
        leaving = leaving_of(attempt, store, str(task.table.ref), inputs)
        statistics, lost = statistics_of(store, base.root.snapshot, base.schema)
        if lost is not None:
            self._run.warn(lost)
        return prepared(
            attempt,
            NewIndex(index, groups, vectors.groups),
            leaving,
            manifests_of(task.options),
            statistics,
            self._since,
            kind="COMPACT",
            added=self._added(),
        )

    def _rewrite(self, attempt: Attempt, plan: ReadPlan, bins: Sequence[Bin]) -> dict[Bin, RewrittenBin]:
        self._since = Stopwatch()
        zone = self._task.zone or UTC
        local = datetime.fromtimestamp(attempt.now_ms / 1000, zone).replace(tzinfo=UTC)
        work = Work(plan.shared, attempt.base.schema, self._task.writing, int(local.timestamp() * 1000))
        return dict(zip(bins, self._engine.rewrite(work, bins), strict=True))

    def _added(self) -> tuple[TextEntry, ...]:
        assert self._rewritten is not None
        return tuple(
            new_entry(file, each.partition, 0, -1) for each in self._taken for file in self._rewritten[each].files
        )

    def _noted(self, made: MadeCommit) -> MadeCommit:
        return replace(
            made,
            files=sum(len(each.files) for each in self._taken),
            bytes=sum(each.size_bytes for each in self._taken),
        )

    def _shown(self, report: RunReport, made: tuple[MadeCommit, ...]) -> RunReport:
        rewritten = self._rewritten or {}
        new = [file for each in self._taken for file in rewritten[each].files] if made else []
        lost = sum(len(each.files) for each in self._lost)
        commits = replace(
            self._report,
            made=made,
            written_files=len(new),
            written_bytes=sum(file.size_bytes for file in new),
            written_rows=sum(file.rows for file in new),
            vain_files=lost,
        )
        if lost:
            sentence = (
                f"{lost} data files were rewritten in vain, since other writers changed or deleted some of them "
                "meanwhile; run again"
            )
            self._run.warn(sentence)
            status: Status = "partial" if made else "stale"
            report = replace(report, status=status, refusal=Refusal(BINS_LOST, f"table {report.table}: {sentence}"))
        return replace(report, commits=commits)
