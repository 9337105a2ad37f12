"""One execution of a compaction of buckets: merge, and commit each bucket that nobody else has compacted meanwhile."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lakesweep.commit.base import Base
from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.commit.next_snapshot import statistics_of
from lakesweep.errors import StalePlanError
from lakesweep.format.entry_writer import new_entry
from lakesweep.format.index_manifest_writer import RawIndex
from lakesweep.format.upgrades import as_level
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.keyed import MergeJob
from lakesweep.model.report import Refusal, RunReport, Status
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.compaction.buckets.bucket import Bucket, Place
from lakesweep.operations.compaction.buckets.choice import Choice, report_of
from lakesweep.operations.compaction.buckets.engine import LocalEngine, MergingEngine
from lakesweep.operations.compaction.buckets.former import Lost, doubtful, lost_marks
from lakesweep.operations.compaction.buckets.merged import Merged, after
from lakesweep.operations.compaction.buckets.task import Task
from lakesweep.operations.compaction.execution import BINS_LOST
from lakesweep.operations.compaction.task import OPERATION
from lakesweep.operations.keyed.merging.work import MergeWork
from lakesweep.operations.keyed.rules.levels import levels_of
from lakesweep.operations.rows.commit import Leaving, NewIndex, index_at, leaving_of, prepared
from lakesweep.operations.rows.engine import LocalEngine as LocalRows
from lakesweep.operations.rows.groups import Group, vector_files, width_of
from lakesweep.operations.rows.rewriting import Rewriting
from lakesweep.operations.writing.rewriting import creation_time_ms
from lakesweep.runs.committing.opened import Opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.storage.clock import Stopwatch
from lakesweep.table.contents.content import TextEntry

MARKS_LOST = "marks_lost"
"""Code of a run that found rows visible which an earlier run had hidden."""


class Execution:
    """One execution: one commit."""

    def __init__(self, target: Opened, task: Task, engine: MergingEngine | None) -> None:
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
        self._merged: tuple[Merged, ...] | None = None
        """What was merged; `None`: nothing yet. `_since` counts from before that."""
        self._since = Stopwatch()
        self._schema_id = target.schema.id
        self._report = CompactionReport(catalog=task.arguments.catalog.type, buckets=())
        self._taken: tuple[Merged, ...] = ()
        self._lost: tuple[Merged, ...] = ()
        self._visible: Mapping[Place, Lost] = {}
        """Rows that were marked, and are visible again; they are marked again."""

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        return self._run.report(lambda: self._run.commit(self._prepare, self._noted))

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, task = attempt.base, self._task
        for warning in task.allow(base):
            self._run.warn(warning)
        if base.schema.id != self._schema_id:
            raise StalePlanError(
                f"table {task.table.ref}: schema {base.schema.id} came while data files were merged by the rules of "
                f"schema {self._schema_id}; run again"
            )
        index = index_at(task.table, base)
        buckets = task.buckets(base, index)
        if not attempt.may_reuse or base.is_restart or self._since.elapsed_ms() > ORPHAN_AGE_MS // 2:
            self._merged = None  # a rollback or an orphan scan may have deleted what an earlier attempt wrote
        lost = lost_marks(task, self._run.area, base, index, buckets)
        self._visible = {place: each for place, each in lost.items() if not each.is_doubtful}
        if doubt := doubtful(lost):
            self._run.warn(doubt)
        if self._merged is None:
            choice = task.choice({place: bucket for place, bucket in buckets.items() if place not in self._visible})
            self._report = report_of(base.schema, buckets, choice, task.arguments.catalog.type)
            self._merged = self._merge(attempt, choice) if choice.merges else ()
        self._taken = tuple(each for each in self._merged if self._holds(each, buckets))
        self._lost = tuple(each for each in self._merged if each not in self._taken)
        if not self._taken and not self._visible:
            return None
        return self._prepared(attempt, index, buckets)

    def _merge(self, attempt: Attempt, choice: Choice) -> tuple[Merged, ...]:
        self._since = Stopwatch()
        base, task = attempt.base, self._task
        created_ms = creation_time_ms(attempt.now_ms, task.zone)
        work = MergeWork(task.plan(base, choice), base.schema, task.rules, task.writing, created_ms)
        jobs: list[MergeJob] = [job for merge in choice.merges for job in merge.work.jobs]
        made = iter(self._engine.merge(work, jobs) if jobs else ())
        return tuple(Merged(merge, tuple(next(made) for _ in merge.work.jobs)) for merge in choice.merges)

    def _prepared(self, attempt: Attempt, index: RawIndex | None, buckets: Mapping[Place, Bucket]) -> Prepared:
        base, task = attempt.base, self._task
        for each in self._taken:
            levels_of(after(each, buckets[each.merge.bucket.place], base.schema), task.levels.num_levels)
        found = {each.merge.bucket.place: each for each in self._taken}
        changed: list[tuple[Bucket, Merged | None, Lost | None]] = [
            (buckets[place], each, None) for place, each in found.items()
        ]
        changed += [(lost.bucket, None, lost) for lost in self._visible.values()]
        groups = tuple(_groups(changed, index, base))
        marked = sum(each.marked_rows for each in self._taken) + sum(lost.rows for lost in self._visible.values())
        vectors = self._vectors.write(attempt, groups, marked)
        self._report = replace(self._report, index_files=sum(len(group.former) for group in groups))
        inputs = [file.file for each in self._taken for file in sorted(each.merge.inputs)]
        leaving = leaving_of(attempt, task.table, inputs)
        statistics, lost = statistics_of(task.table.store, base.root.snapshot, base.schema)
        if lost is not None:
            self._run.warn(lost)
        made = prepared(
            attempt,
            NewIndex(index, groups, vectors.groups),
            leaving,
            manifests_of(task.options),
            statistics,
            self._since,
            kind="COMPACT",
            added=tuple(_added(self._taken, leaving)),
        )
        return replace(made, compares_marks=task.rules.has_vectors)

    def _holds(self, merged: Merged, buckets: Mapping[Place, Bucket]) -> bool:
        """Tell whether what was merged of a bucket still holds."""
        place = merged.merge.bucket.place
        if place in self._visible or place not in buckets:
            return False
        return buckets[place].has_still(merged.merge.bucket, merged.merge.inputs)

    def _noticed(self, report: RunReport) -> RunReport:
        """Say that rows were visible again."""
        rows = sum(lost.rows for lost in self._visible.values())
        snapshot_id = max(lost.snapshot_id for lost in self._visible.values())
        sentence = (
            f"{rows} rows in {len(self._visible)} buckets were visible again that snapshot {snapshot_id} of Lakesweep "
            "had hidden: another writer compacts this table, and has replaced its deletion vectors. The run has hidden "
            "the rows again; set write-only on every other writer, and run again"
        )
        self._run.warn(sentence)
        return replace(report, status="partial", refusal=Refusal(MARKS_LOST, f"table {report.table}: {sentence}"))

    def _noted(self, made: MadeCommit) -> MadeCommit:
        files = [file.file for each in self._taken for file in each.rewritten]
        return replace(made, files=len(files), bytes=sum(file.size_bytes for file in files))

    def _shown(self, report: RunReport, made: tuple[MadeCommit, ...]) -> RunReport:
        taken = self._taken if made else ()
        new = [file for each in taken for job in each.jobs for file in job.files]
        lost = sum(len(each.merge.inputs) for each in self._lost)
        commits = replace(
            self._report,
            made=made,
            written_files=len(new),
            written_bytes=sum(file.size_bytes for file in new),
            written_rows=sum(file.rows for file in new),
            vain_files=lost,
            moved_files=sum(len(each.moved) for each in taken),
            marked_rows=sum(each.marked_rows for each in taken),
        )
        if lost:
            sentence = (
                f"{lost} data files of {len(self._lost)} bucket{'' if len(self._lost) == 1 else 's'} were merged in "
                "vain, since another writer has compacted or replaced some of them meanwhile; run again, and let "
                "nobody else compact this table"
            )
            self._run.warn(sentence)
            status: Status = "partial" if made else "stale"
            report = replace(report, status=status, refusal=Refusal(BINS_LOST, f"table {report.table}: {sentence}"))
        if self._visible and made:
            report = self._noticed(report)
        return replace(report, commits=commits)


def _groups(
    changed: Iterable[tuple[Bucket, Merged | None, Lost | None]], index: RawIndex | None, base: Base
) -> Iterator[Group]:
    """Yield the new vectors of each bucket whose vectors change. All vectors of a bucket lie in one index file."""
    every = vector_files(index)
    for bucket, merged, lost in changed:
        names = {file.name for file in bucket.files}
        rewritten = {file.name for file in merged.rewritten} if merged is not None else set()
        marks = merged.marks if merged is not None else lost.positions if lost is not None else {}
        vectors = {vector[0] for entry in bucket.index for vector in entry.vectors}
        leaving = {name for name in vectors if name in rewritten or name not in names}
        if marks or leaving:
            width = width_of((*bucket.index, *every), base.schema)
            yield Group(*bucket.place, width, bucket.index, frozenset(leaving), marks)


def _added(taken: Sequence[Merged], leaving: Leaving) -> Iterator[TextEntry]:
    """Yield the entries of new files, and of files on their new level."""
    former = {
        (raw.entry.partition, raw.entry.bucket, raw.entry.file_name): (text, raw) for text, raw in leaving.entries
    }
    for each in taken:
        partition, bucket = each.merge.bucket.place
        for job, made in zip(each.merge.work.jobs, each.jobs, strict=True):
            total = job.files[0].total_buckets
            yield from (new_entry(file, partition, bucket, total) for file in made.files)
        for file in sorted(each.moved):
            text, raw = former[partition, bucket, file.name]
            yield text, as_level(text, raw, each.merge.unit.level)
