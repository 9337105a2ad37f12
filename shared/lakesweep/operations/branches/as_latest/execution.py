"""The execution of a rollback as latest: hold the target by a tag, check its files, commit, and check again."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from lakesweep.commit.base import Base, list_branch
from lakesweep.commit.environment import Attempt, Committed, Prepared
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.errors import MaintenanceError, ObjectNotFoundError, StalePlanError
from lakesweep.model.commits.as_latest import AsLatestReport
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.report import RunReport
from lakesweep.model.roots import BranchListing, Root
from lakesweep.operations.branches.as_latest.commit import prepared
from lakesweep.operations.branches.as_latest.protection import hold, left_behind, let_go, make_it
from lakesweep.operations.branches.as_latest.step import Step, part_of, step_of
from lakesweep.operations.branches.as_latest.task import Task, check_commit, check_readable
from lakesweep.operations.branches.target_files import COUNTED
from lakesweep.operations.tags.rules.rollback import tag_name
from lakesweep.runs.committing.opened import Opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.table.documents import read_roots
from lakesweep.table.reach.completeness import lost_files
from lakesweep.table.stores import OutsideFiles

_FOLDERS = ("schema", "snapshot", "tag", "changelog")
_TAGS = 2
"""A run in which files come back leaves so many: of the target, and of the new snapshot."""


class Execution:
    """One execution."""

    def __init__(
        self,
        target: Opened,
        task: Task,
        step: Step,
        operation: str,
        check_files: Callable[[], None],
        warnings: Iterable[str] = (),
    ) -> None:
        """Begin.

        Args:
            target: The branch.
            task: What to do.
            step: What there is to do on the branch as it was listed.
            operation: The name of the operation.
            check_files: Refuses the target if one of its files does not exist.
            warnings: What the report says first.
        """
        self._table, self._view, self._task, self._check_files = target.table, target.whole(), task, check_files
        self._run = CommitRun(
            target,
            operation,
            task.options(target.schema),
            has_lock=False,  # a tag of a snapshot that was replaced would mislead Paimon's expiry
            unattended=False,
            show=self._shown,
        )
        self._warn_all(warnings)
        self._first = step
        self._step = step
        """Of the latest attempt."""
        self._tags: tuple[str, ...] = ()
        """The tags of this run that exist."""
        self._lost: tuple[str, ...] = ()

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        return self._run.report(self._commits)

    def _commits(self) -> Committed:
        for name, doubt in left_behind(self._view):
            if doubt is None:
                left = let_go(self._table, name)
                self._run.warn(left or f"tag {name} is deleted: the run that made it has committed nothing")
        try:
            self._hold_target(self._first)
            self._check_files()
            last = self._run.commit(self._prepare, self._noted, self._check_held)
        except MaintenanceError as error:
            error.args = ("; ".join((str(error), *self._let_go())),)
            raise
        if last.status == "committed":
            self._finish(last)
        elif last.status == "unknown" or last.code == "commit_failed":
            for name in self._tags:
                self._run.warn(
                    f"tag {name} is kept, since the snapshot may still come to exist; if it does, a later rollback as "
                    "latest makes the second tag"
                )
        else:
            self._warn_all(self._let_go())
        return last

    def _hold_target(self, step: Step) -> None:
        """Hold the target if files come back. Otherwise all its files are live, and no expiry deletes them."""
        if step.takes_back and not self._tags:
            self._hold(self._task.target)

    def _hold(self, root: Root) -> None:
        name, warnings = hold(self._table, root, self._run.id)
        self._tags += (name,)
        self._warn_all(warnings)

    def _let_go(self) -> tuple[str, ...]:
        """Delete the tags of this run, and return why some are still there."""
        left = (let_go(self._table, name) for name in self._tags)
        self._tags, said = (), tuple(each for each in left if each is not None)
        return said

    def _warn_all(self, sentences: Iterable[str]) -> None:
        for sentence in sentences:
            self._run.warn(sentence)

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, task, store = attempt.base, self._task, self._table.store
        own = list_branch(store, self._table.ref.branch, _FOLDERS)
        if base.root.ref not in own.snapshots:
            # The commit begins anew on what is there now.
            raise ObjectNotFoundError(f"table {self._table.ref}: {base.root.ref} is gone, or it is another one")
        self._warn_all((*check_commit(task, base), *check_readable(store, own, task.target, base.schema)))
        step: Step | None = self._first
        if not self._is_as_listed(base, own):
            step = step_of(task, base, _up_to(own, base))
        if step is None:
            return None
        if step.takes_back and not self._tags:
            self._hold_target(step)
            self._check_files()
        self._step = step
        return prepared(attempt, task.target, step.difference, manifests_of(task.options(base.schema)))

    def _check_held(self) -> None:
        """Refuse if the tag of the target is gone. Lakesweep deletes files of a tag only under the lease.

        Raises:
            StalePlanError: It is gone.
            StorageError: A request failed.
        """
        own = list_branch(self._table.store, self._table.ref.branch, ("tag",)) if self._tags else None
        if own is not None and not any(ref.name in self._tags for ref in own.tags):
            raise StalePlanError(
                f"table {self._table.ref}: tag {self._tags[0]}, which this run had made to keep "
                f"{self._task.target.ref}, is gone; expected it to stay; run again"
            )

    def _is_as_listed(self, base: Base, own: BranchListing) -> bool:
        """Tell whether the branch has the versions that it had when the first step was made, and this run's tag."""
        before = self._view.own
        tags = tuple(ref for ref in own.tags if ref.name not in self._tags)
        return base == self._first.base and (own.snapshots, tags) == (before.snapshots, before.tags)

    def _noted(self, made: MadeCommit) -> MadeCommit:
        gone = report_of_step(self._task, self._step).gone
        return replace(made, rows=gone.rows, files=gone.files, bytes=gone.bytes)

    def _finish(self, last: Committed) -> None:
        """Let tags stay if they are needed, and look whether the files of the new snapshot exist.

        An expiry of Paimon that began before the first tag existed may have deleted files since they were checked.
        """
        snapshot_id = last.snapshot_id or 0
        try:
            own = list_branch(self._table.store, self._table.ref.branch, ("snapshot", "tag"))
            found = read_roots(self._table.store, [ref for ref in own.snapshots if ref.id == snapshot_id]).roots
            roots = [root for root in found if root.snapshot.uuid == last.uuid]
            self._keep_tags(snapshot_id, own, roots)
            outside = OutsideFiles(self._table.store, self._table.open_store)
            self._lost = lost_files(self._table.store, self._step.base.schema, roots, COUNTED, outside)
        except MaintenanceError as error:
            self._run.warn(
                f"snapshot {snapshot_id} is committed; whether all its files still exist could not be checked "
                f"({error}); lakesweep check TABLE --files does so"
            )
            if self._step.takes_back and len(self._tags) < _TAGS:
                self._miss(snapshot_id, "is not made")
        if self._lost:
            self._run.warn(
                f"snapshot {snapshot_id} names {len(self._lost)} files that do not exist, the first is "
                f"{self._lost[0]}: an expiry that had begun before has deleted them. Commit the version before it "
                f"again: lakesweep rollback TABLE --as-latest --snapshot {self._first.base.id}"
            )

    def _keep_tags(self, snapshot_id: int, own: BranchListing, roots: Sequence[Root]) -> None:
        if not self._step.takes_back:
            self._warn_all(self._let_go())
            return
        there = {ref.name for ref in own.tags}
        for name in self._tags:
            if name not in there:
                self._miss(self._task.target.snapshot.id, "is gone")
        self._tags = tuple(name for name in self._tags if name in there)
        try:
            for root in roots:
                self._hold(root)
        except MaintenanceError as error:
            self._miss(snapshot_id, f"could not be made ({error})")
        if not roots:
            self._run.warn(
                f"another program has deleted or replaced snapshot {snapshot_id} since, so no tag is made of it; make "
                "one of the oldest snapshot that was built on it, or Paimon's expiry may delete files that came back"
            )

    def _miss(self, snapshot_id: int, what: str) -> None:
        """Warn that a tag does not exist that has to stay."""
        name = tag_name(snapshot_id, self._run.id)
        self._run.warn(f"tag {name} {what}; {make_it(name, snapshot_id)}")

    def _shown(self, report: RunReport, made: tuple[MadeCommit, ...]) -> RunReport:
        newer = self._step.difference.going.keys() - self._first.difference.going.keys()
        commits = replace(
            report_of_step(self._task, self._first),
            made=made,
            newer_files=len(newer),
            kept_by=self._tags,
            lost=self._lost,
        )
        return replace(report, commits=commits)


def report_of_step(task: Task, step: Step) -> AsLatestReport:
    """Return what a report says of a commit."""
    schema, target = step.base.schema, task.target
    return AsLatestReport(
        catalog=task.arguments.catalog.type,
        snapshot=target.snapshot.id,
        tag=target.ref.name if target.ref.kind == "tag" else None,
        time_ms=target.snapshot.time_ms,
        back=part_of(schema, step.difference.coming),
        gone=part_of(schema, step.difference.going),
        index=step.changes_index,
    )


def _up_to(own: BranchListing, base: Base) -> BranchListing:
    """Return a listing without the snapshots after a base; the commit will notice these."""
    return replace(own, snapshots=tuple(ref for ref in own.snapshots if ref.id <= base.id))
