"""What `remove-unexisting-files` and `remove-unexisting-manifests` have in common: look, report, and commit.

A dry run looks at the newest snapshot, and says which roots need what is lost. An execution looks anew for each
attempt, since another writer may have committed. It gives up nothing beyond the loss that the caller accepts by its id.
It looks once more right before it publishes, and ends if anything came back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base, list_branch
from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.index_files import put_vectors
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.commit.next_snapshot import statistics_of
from lakesweep.errors import ObjectNotFoundError, RefusedError, StalePlanError, StorageError
from lakesweep.format.manifest import IndexEntry
from lakesweep.model.commits.repair import RepairReport
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.damage import lost_history
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableListing
from lakesweep.operations.repair.arguments import RepairArguments
from lakesweep.operations.repair.existence import Existence, unknown
from lakesweep.operations.repair.lists import NOT_REPAIRABLE
from lakesweep.operations.repair.loss import Loss
from lakesweep.operations.repair.named import with_names
from lakesweep.operations.repair.rewriting import prepared
from lakesweep.operations.repair.vectors import Kept
from lakesweep.runs.committing.opened import Opened, opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.runs.damage import lost_snapshots
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import NOT_EXECUTABLE, Table
from lakesweep.table.contents.contents import Contents

Look = Callable[[Base, Contents, Existence], Loss]


@dataclass(frozen=True, slots=True)
class Task:
    """One repair."""

    operation: str
    arguments: RepairArguments
    options: Mapping[str, str]
    """The table's options, overridden by the call's."""
    look: Look
    contents: Contents
    existence: Existence

    def loss_of(self, base: Base) -> Loss:
        """Look at a snapshot.

        Raises:
            RefusedError: It is not certain what exists, or no repair is possible.
        """
        try:
            return self.look(base, self.contents, self.existence)
        except ObjectNotFoundError:
            raise
        except StorageError as error:
            raise unknown(self.existence.table, error) from error

    def check_allowed(self, base: Base) -> tuple[str, ...]:
        """Return the warnings of a commit that the table allows.

        Raises:
            RefusedError: The table does not allow it.
        """
        newest = base.root
        return refuse_commit(base.schema, newest.snapshot, newest.body, self.arguments.catalog.type, "repair", True)


def repair(table: Table, operation: str, arguments: RepairArguments, look: Look, *, execute: bool) -> RunReport:
    """Leave out of a branch what is lost, or say what a call would leave out.

    Args:
        table: One branch of a table.
        operation: The name of the operation.
        arguments: What the caller asked for.
        look: Finds what is lost.
        execute: If false, nothing changes.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        target = opened(table, operation, execute=execute)
        if target.base is None:
            return _without_snapshot(target, operation)
        _refuse_lost_snapshots(table)
        task = Task(
            operation=operation,
            arguments=arguments,
            options={**target.schema.options, **arguments.options},
            look=look,
            contents=Contents(table.store, str(table.ref), target.schema.partition_types),
            existence=Existence(table),
        )
        return _Execution(target, task).report() if execute else _planned(target, target.base, task)
    except RefusedError as error:
        return refused(table, operation, error)


def _without_snapshot(target: Opened, operation: str) -> RunReport:
    why = lost_history(target.whole().own)
    if why is not None:
        raise RefusedError(
            f"table {target.table.ref}: {why}; only a restore, or a rollback to a tag, brings a snapshot back "
            "(lakesweep check TABLE)",
            code=NOT_REPAIRABLE,
        )
    return report_of(target.table, operation, "nothing_to_do", None)


def _refuse_lost_snapshots(table: Table) -> None:
    """Refuse to commit where a later snapshot is lost: the new one would take its id."""
    own = list_branch(table.store, table.ref.branch, ("snapshot",))
    for why in lost_snapshots(table.store, TableListing({own.name: own})).values():
        raise RefusedError(
            f"table {table.ref}: {why}; restore what is lost. If nothing is, lakesweep repair-hints TABLE comes first",
            code="lost_snapshots",
        )


def _planned(target: Opened, base: Base, task: Task) -> RunReport:
    warnings: tuple[str, ...] = ()
    try:
        warnings = task.check_allowed(base)
    except RefusedError as error:
        warnings = (f"{NOT_EXECUTABLE}: {error}",)
    loss = task.loss_of(base)
    shown, about_others = with_names(target.whole(), reported(loss))
    given = task.arguments.accept_loss
    if loss.id not in (None, given):
        warnings += (f"{NOT_EXECUTABLE}: {loss.unaccepted(str(target.table.ref), given)}",)
    return replace(
        report_of(target.table, task.operation, "nothing_to_do" if loss.is_empty else "planned", None),
        commits=replace(shown, catalog=task.arguments.catalog.type),
        warnings=(*loss.warnings, *about_others, *(() if loss.is_empty else warnings)),
    )


def reported(loss: Loss) -> RepairReport:
    """Return what a report says of a loss."""
    return replace(loss.report, loss_id=loss.id, doubts=tuple(each.why for each in loss.doubts))


class _Execution:
    """One execution: one commit."""

    def __init__(self, target: Opened, task: Task) -> None:
        self._target, self._task = target, task
        self._run = CommitRun(
            target,
            task.operation,
            task.options,
            has_lock=task.arguments.catalog.has_lock,
            unattended=False,
            show=self._shown,
        )
        self._loss: Loss | None = None
        self._accepted: frozenset[tuple[str, str]] | None = None
        """What the caller accepts; `None`: no attempt has compared the ids."""

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        return self._run.report(lambda: self._run.commit(self._prepare, self._noted, self._look_again))

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, task = attempt.base, self._task
        loss = self._loss = task.loss_of(base)
        for warning in loss.warnings:
            self._run.warn(warning)
        if loss.is_empty:
            return None
        for warning in task.check_allowed(base):
            self._run.warn(warning)
        self._check_accepted(loss)
        statistics, lost = statistics_of(self._target.table.store, base.root.snapshot, base.schema)
        if lost is None:
            statistics = base.root.snapshot.statistics
        elif loss.report.statistics is None:
            self._run.warn(lost)

        def put(kept: Kept) -> tuple[IndexEntry, ...]:
            table = task.existence.table
            return put_vectors(
                table.store,
                base.schema,
                kept.partition,
                kept.bucket,
                kept.vectors,
                lambda: table.check_time(task.operation),
            )

        return prepared(attempt, loss, manifests_of(task.options), statistics, put)

    def _check_accepted(self, loss: Loss) -> None:
        """Make sure that the caller accepts a loss. A later attempt may find a part of it.

        Raises:
            RefusedError: The caller has accepted nothing, or another loss.
        """
        given = self._task.arguments.accept_loss
        if self._accepted is None and loss.id in (None, given):
            self._accepted = loss.to_accept
        if self._accepted is None or not loss.to_accept <= self._accepted:
            raise loss.unaccepted(str(self._target.table.ref), given)

    def _look_again(self) -> None:
        """Make sure, right before the snapshot is written, that nothing came back.

        Raises:
            StalePlanError: Something did.
            RefusedError: It is not certain what exists.
        """
        assert self._loss is not None
        existence = self._task.existence
        back: Sequence[str] = sorted(set(self._loss.lost) - existence.absent(self._loss.lost))
        if back:
            raise StalePlanError(
                f"table {existence.table.ref}: {back[0]} came back while the commit was prepared; run again"
            )

    def _noted(self, made: MadeCommit) -> MadeCommit:
        assert self._loss is not None
        report = self._loss.report
        return replace(
            made,
            partitions=len(report.partitions),
            rows=sum(file.rows for file in report.files),
            files=len(report.files),
            bytes=sum(file.bytes for file in report.files),
        )

    def _shown(self, report: RunReport, made: tuple[MadeCommit, ...]) -> RunReport:
        if self._loss is None:
            return report
        found = reported(self._loss)
        return replace(report, commits=replace(found, made=made, catalog=self._task.arguments.catalog.type))
