"""The execution of a call that takes partitions out of a table: a commit for each batch, and the report."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from lakesweep.commit.base import Base
from lakesweep.commit.environment import Attempt, Committed, Prepared
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.commit.next_snapshot import statistics_of
from lakesweep.errors import StalePlanError
from lakesweep.format.identity_digests import SIZE, Digests
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.schema import TableSchema
from lakesweep.model.commits.partitions import PartitionsReport
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.report import RunReport
from lakesweep.operations.partitions.deletion import Removed, prepared, removed_of
from lakesweep.operations.partitions.task import Task, check_allowed, large, rows_of, summary_of
from lakesweep.runs.committing.opened import Opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.table.contents.index import index_of


class Execution:
    """One execution: a commit for each batch."""

    def __init__(self, target: Opened, task: Task) -> None:
        self._table, self._base, self._task = target.table, target.base, task
        self._run = CommitRun(
            target,
            task.operation,
            task.options,
            has_lock=task.catalog.has_lock,
            unattended=task.unattended,
            show=self._shown,
        )
        self._first: PartitionsReport | None = None
        """What the first attempt was to take out."""
        self._known = Digests()
        """The names of the files of the first attempt."""
        self._left: frozenset[bytes] = frozenset()
        """Partitions that the first attempt found, and was not to take out."""
        self._removed: Removed | None = None
        self._partitions = 0
        self._newer: set[str] = set()
        self._written: Mapping[str, bytes] = {}

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        return self._run.report(self._commits)

    def _commits(self) -> Committed:
        while True:
            last = self._run.commit(self._prepare, self._noted)
            if last.status == "committed":
                self._task.contents.remember(self._written)
            if not self._has_more(last):
                return last

    def _has_more(self, last: Committed) -> bool:
        batch, first = self._task.batch_size, self._first
        if last.status != "committed" or batch is None or first is None:
            return False
        return len(self._run.made) * batch < len(first.partitions)

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, task, store = attempt.base, self._task, self._table.store
        newest = base.root
        self._check_rules(base)
        for warning in check_allowed(task, base):
            self._run.warn(warning)
        content = task.contents.read(newest.snapshot, whole=newest.snapshot.total_record_count is None)
        index = index_of(store, newest.snapshot, task.contents.corrupt)
        selection = task.choose(content, index)
        for warning in selection.warnings:
            self._run.warn(warning)
        selection = replace(selection, due=tuple(each for each in selection.due if each.facts.row not in self._left))
        rows = rows_of(selection.due) | selection.index_rows
        whole = removed_of(base.schema, content, index, rows, self._see_file)
        if self._first is None:
            self._first = summary_of(base.schema, task, content, selection, whole)
            self._left = frozenset(facts.row for facts in content.partitions() if facts.files) - rows_of(selection.due)
        batch = tuple(each for each in selection.due if each.facts.row in whole.rows)[: task.batch_size]
        removed = whole
        if len(batch) < len(selection.due):
            removed = removed_of(base.schema, content, index, rows_of(batch))
        if removed.is_empty:
            return None
        for root in base.since:
            if root.snapshot.commit_kind != "APPEND":
                self._run.warn(
                    f"{root.ref} ({root.snapshot.commit_kind}) was committed meanwhile, so the commit was planned "
                    "anew as a whole"
                )
        statistics, lost = statistics_of(store, newest.snapshot, base.schema)
        if lost is not None:
            self._run.warn(lost)
        self._removed, self._partitions = removed, len(batch)

        def write(name: str, body: bytes) -> None:
            attempt.write(name, body)
            if task.batch_size is not None:
                task.contents.remember({name: body})  # the next batch reads it

        made = prepared(replace(attempt, write=write), content, removed, manifests_of(task.options), statistics)
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

    def _see_file(self, entry: ManifestEntry) -> None:
        """Note which files the first attempt was to take out, and which came since."""
        digest = blake2b(entry.file_name.encode(), digest_size=SIZE).digest()
        if self._first is None:
            self._known.add(digest)
        elif digest not in self._known:
            self._newer.add(entry.file_name)

    def _noted(self, made: MadeCommit) -> MadeCommit:
        removed = self._removed
        assert removed is not None
        return replace(
            made,
            partitions=self._partitions,
            rows=removed.row_count,
            files=removed.file_count,
            bytes=removed.size_bytes,
        )

    def _shown(self, report: RunReport, made: tuple[MadeCommit, ...]) -> RunReport:
        if self._first is None:
            return report
        commits = replace(self._first, made=made, newer_files=len(self._newer))
        if made:
            for warning in large(self._task, commits):
                self._run.warn(warning)
        return replace(report, commits=commits)


def _rules(schema: TableSchema) -> tuple[object, ...]:
    """Return what decides which partitions go."""
    options = {name: value for name, value in schema.options.items() if name.startswith("partition.")}
    return schema.partition_keys, schema.partition_types, options
