"""One execution of a compaction: rewrite the bins, and commit those whose files are all still there."""

from collections.abc import Sequence
from dataclasses import replace

from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.commit.next_snapshot import statistics_of
from lakesweep.errors import StalePlanError
from lakesweep.format.entry_writer import new_entry
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.compaction.task import OPERATION, Task
from lakesweep.operations.rows.commit import NewIndex, index_at, leaving_of, prepared
from lakesweep.operations.rows.engine import LocalEngine as LocalRows
from lakesweep.operations.rows.groups import Change, groups_of, vector_files
from lakesweep.operations.rows.rewriting import Rewriting
from lakesweep.operations.writing.bins import Bin
from lakesweep.operations.writing.engine import LocalEngine, RewritingEngine
from lakesweep.operations.writing.rewriting import RewrittenBin, Work, creation_time_ms
from lakesweep.runs.committing.opened import Opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.storage.clock import Stopwatch
from lakesweep.table.contents.content import TextEntry
from lakesweep.table.paths import TablePaths
from lakesweep.table.vectors import locate

BINS_LOST = "bins_lost"
"""Code of a run some of whose data files were rewritten in vain."""


class Execution:
    """One execution: one commit."""

    def __init__(self, target: Opened, task: Task, engine: RewritingEngine | None) -> None:
        self._target, self._task, self._engine = target, task, engine or LocalEngine(target.table)
        self._run = CommitRun(
            target,
            OPERATION,
            task.options,
            has_lock=task.arguments.catalog.has_lock,
            unattended=task.arguments.unattended,
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
            choice = task.choice(plan)
            self._report = task.report(base.schema, choice)
            self._taken, self._lost = (), frozenset()
            if not choice.bins:
                return None
            self._rewritten = self._rewrite(attempt, plan, choice.bins)
        files = {file.path: file for split in plan.splits for file in split.files}
        self._taken = tuple(
            each for each in self._rewritten if all(files.get(file.path) == file for file in each.files)
        )
        self._lost = frozenset(self._rewritten) - frozenset(self._taken)
        if not self._taken:
            return None
        index = index_at(task.table, base)
        # By the index itself: a table whose vectors are switched off has them still, and no reader sees them.
        located = locate(task.table.store, vector_files(index), TablePaths(base.schema))
        taken = (file for each in self._taken for file in each.files)
        inputs = [file._replace(vector=located.get(file.vector_key)) for file in taken]
        changes = (Change(file, None) for file in inputs)
        groups = groups_of(changes, index, base.schema, dangling=plan.counts.dangling)
        vectors = self._vectors.write(attempt, groups, 0)
        self._report = replace(self._report, index_files=sum(len(group.former) for group in groups))
        leaving = leaving_of(attempt, task.table, inputs)
        statistics, lost = statistics_of(task.table.store, base.root.snapshot, base.schema)
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
        created_ms = creation_time_ms(attempt.now_ms, self._task.zone)
        work = Work(plan.shared, attempt.base.schema, self._task.writing, created_ms)
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
