"""Carry out a stored plan: recheck the roots, delete a batch, write the ledger, and repeat to the end.

The execution makes two decisions only: to stop, and to keep what a recheck finds in use. Stopping is harmless at any
point:

- Before the first document is deleted, the table is as it was.
- After that, the remaining files belong to no root, or a recheck finds the root that needs them.

Documents are snapshots, changelogs and tags. When a tag is renamed, the new name is written before the old one is
deleted.

A plan is overtaken if another maintainer removed its documents before the plan's first delete. The files are then the
other maintainer's to delete. On a store that cannot tell a missing object from one that it deletes, both would claim
the deletion. On a versioned bucket each object would get two delete markers, and undo cannot bring it back from below
both.

So a plan that turns out stale before its first delete is dropped. A plan that turns out stale while only documents are
deleted is compensated: the documents return. They do not return where a rollback has left them behind, or where
somebody else may have touched their files.

A plan that turns out stale later, or after others had time to act, is finished in *salvage*. Lakesweep deletes no
further document. It asks every present root again what it needs, and deletes only files that no root needs.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar, get_args

from lakesweep.control.lease import Lease, NoLease
from lakesweep.control.ledger import Ledger
from lakesweep.control.ledger_rows import EarlierWork, earlier_work
from lakesweep.errors import (
    HeldBackError,
    MaintenanceError,
    ObjectNotFoundError,
    OutOfTimeError,
    PreconditionFailedError,
    StalePlanError,
)
from lakesweep.execute.attempt import Attempt, Environment, Executed, UnderLease, record_stop, under_lease
from lakesweep.execute.batches import (
    CONSUMER_PHASE,
    DOCUMENT_PHASE,
    FILES_STEP,
    TAG_PHASE,
    batches,
    expiring_snapshots,
    id_of,
    is_head,
    last_hints,
    outcome_of,
    removed_roots,
    step_of,
)
from lakesweep.execute.deletions.compensation import Compensation, Progress
from lakesweep.execute.deletions.deleting import BY_INTENT, BY_MARKER, REWRITTEN, earlier_deletions, send
from lakesweep.execute.present import NEEDED, STILL_NEEDED, NewRoots, ask_present_roots, refuse_live_files
from lakesweep.execute.recheck import RootRecheck, references_of
from lakesweep.model.outcome import Outcome
from lakesweep.model.paths.stays import count_stays
from lakesweep.model.plan import Action, Delete, Plan, Put, to_bytes
from lakesweep.model.roots import FileKind, References, base_name, branch_dir
from lakesweep.model.safety import EPOCH_MS, FRESH_MS
from lakesweep.storage.keys import SINGLE_DELETES
from lakesweep.storage.store import DeleteResult
from lakesweep.storage.together import both, waits
from lakesweep.table.discover import ROOT_FOLDERS, discover

T = TypeVar("T")
_GONE = ("deleted", "already_gone")
_CONDITIONAL = frozenset({"tag", "consumer", "changelog_document"})
"""Kinds that a recheck lists, and whose ETags it otherwise compares only while they are deleted or written."""


class OvertakenError(StalePlanError):
    """Another run has deleted all documents of a stored plan. Its execution deletes nothing, and ends the plan."""


def execute(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
    """Execute a stored plan under the table's lease.

    Args:
        env: Stores and control area.
        plan: Checked and stored.
        attempt: The run, and what earlier runs did.

    Raises:
        LeaseHeldError: Another run maintains this table.
        LeaseLostError: The lease went to another run; this one stopped.
        StorageError: A request failed before anything was deleted; the intent is kept, and the next run continues the
            plan.
    """

    def run(lease: Lease) -> Executed:
        return _Execution(env.under(lease), plan, attempt, lease).run()

    return under_lease(env.area, plan.header, attempt, run, expiring_snapshots(plan))


def recheck_plan(env: Environment, plan: Plan) -> int:
    """Recheck a stored plan that no run has begun, as its execution does before the first deletion. Change nothing.

    Returns:
        How many objects the execution would keep.

    Raises:
        OvertakenError: The execution would delete nothing, and end the plan.
        StalePlanError: The plan is stale.
        RefusedError: A root cannot be read.
        StorageError: A request failed.
    """
    lease = NoLease(env.area)
    return _Execution(env.under(lease), plan, Attempt("", lambda executed: None), lease).recheck()


class _Execution(UnderLease):
    def __init__(self, env: Environment, plan: Plan, attempt: Attempt, lease: Lease) -> None:
        super().__init__(env, plan.header, attempt, lease)
        self._plan = plan
        self._ledger = Ledger(env.area, attempt.run_id, plan.header.plan_id, attempt.chain)
        self._changelogs = {
            action.path: action
            for action in plan.actions
            if isinstance(action, Put) and action.kind == "changelog_document"
        }
        self._roots = frozenset(delete.path for delete in removed_roots(plan.actions))
        self._recheck = RootRecheck(
            env.stores.table, plan.header, env.known, self._pause, env.clear, written=frozenset(self._changelogs)
        )
        self._new_roots = NewRoots(self._recheck)
        self._epoch_began_ms = env.area.store.now_ms()
        self._kept: dict[str, str] = {}
        self._warnings: tuple[str, ...] = ()
        self._was_overtaken = False
        self._untold: frozenset[str] = frozenset()
        """Paths that an earlier run was about to delete, where the store cannot tell whether it did."""
        self._outcome = Outcome()
        self._settled: set[str] = set()
        """Paths that this run has deleted or kept. Deleting one again would lay a second marker."""
        self._progress = Progress(others_were_here=bool(attempt.earlier_runs))

    def run(self) -> Executed:
        try:
            return self._run()
        except KeyboardInterrupt as stop:
            record_stop(self._attempt, self._ledger, self._outcome, stop)
            raise

    def _run(self) -> Executed:
        plan_id = self._plan.header.plan_id
        earlier = earlier_work(self._env.area, plan_id, self._attempt.earlier_runs)
        done = {**earlier.settled, **self._settle(earlier)}
        # An action that an earlier run intended may have happened, whether or not that run recorded it. A plan of files
        # alone has no documents, so it cannot be half done.
        self._progress.documents_gone = bool(self._attempt.earlier_runs) and any(map(is_head, self._plan.actions))
        self._progress.data_begun = earlier.may_have_begun_files
        self._recheck.forget(path for path in self._roots if done.get(path) in _GONE)
        if self._attempt.earlier_runs:
            self._progress.removed.update(self._roots)
        self._kept = {path: "an earlier run kept it" for path, result in done.items() if result == "kept_by_recheck"}
        pending = [action for action in self._plan.actions if done.get(action.path) not in _GONE]
        try:
            try:
                self._keep_outside(pending)
                self._carry_out(pending)
                self._ledger.flush()
            except StalePlanError as error:
                return self._after_stale(pending, error)
        except MaintenanceError as error:
            with suppress(MaintenanceError):  # the next run finds out what is not recorded
                self._ledger.flush()
            if not self._outcome.deleted:
                raise
            is_put_off = isinstance(error, HeldBackError | OutOfTimeError) and self._is_of_orphans
            status = "put_off" if is_put_off and not self._lease.is_let_go else "interrupted"
            return Executed(status, self._outcome, str(error), error.code, self._warnings)
        status = "partial" if self._outcome.failed else "done"
        return Executed(status, self._outcome, warnings=self._warnings, is_overtaken=self._was_overtaken)

    def recheck(self) -> int:
        """See `recheck_plan`."""
        self._keep_outside(self._plan.actions)
        if self._look(self._plan.actions, asks_all=self._ask_all(self._plan.actions), is_new=True):
            raise OvertakenError(
                f"table {self._plan.header.table}: another run has deleted all {len(self._roots)} documents of the "
                "plan since it was made; execute would delete nothing",
                code="overtaken",
            )
        for action in self._plan.actions:
            self._check_condition(action)
        return len(self._kept)

    def _check_condition(self, action: Action) -> None:
        """Make sure that no condition of an action fails by what the last recheck listed.

        Raises:
            StalePlanError: As its execution raises.
        """
        found = self._recheck.etags.get(action.path)
        if isinstance(action, Delete):
            if action.kind in _CONDITIONAL and found is not None and action.etag not in (None, found):
                raise self._rewritten(action.path)
            return
        if action.kind not in _CONDITIONAL or self._is_past(action):
            return
        old = self._lost_name(action)
        is_other = found is not None if action.if_absent else action.etag not in (None, found)
        if (old or is_other) and not self._holds(action):
            raise self._rewritten(action.path) if old is None else self._moved_from_nothing(old.path)

    def _keep_outside(self, pending: Sequence[Action]) -> None:
        """Exclude objects outside the table that may not be deleted there, whatever the plan says."""
        stays = self._env.stores.stays((action.kind, action.path) for action in pending if isinstance(action, Delete))
        self._kept |= {path: str(stay) for path, stay in stays.items()}
        self._warnings = tuple(map(str, count_stays(stays.values())))

    def _settle(self, earlier: EarlierWork) -> dict[str, str]:
        """Record what earlier runs deleted without recording it, and return path -> result of these deletions.

        Documents have no intents of their own. The lease names the plan, so the documents may be gone.
        """
        if not self._attempt.earlier_runs:
            return {}
        suspects = [
            delete
            for delete in self._plan.deletes
            if delete.path not in earlier.settled
            and (is_head(delete) or earlier.is_damaged or delete.path in earlier.unanswered)
        ]
        outside = self._env.stores.stays((delete.kind, delete.path) for delete in suspects)
        suspects = [delete for delete in suspects if delete.path not in outside]
        found = earlier_deletions(self._env.stores, suspects, self._plan.header.created_ms, self._still_ours)
        self._untold = frozenset(found.untold)
        gone = [delete for delete in suspects if delete.path in found.deleted]
        if gone:
            self._ledger.record_earlier(gone, found.deleted, dict.fromkeys(found.deleted, BY_MARKER))
            self._outcome += outcome_of(gone, found.deleted, 0)
        return {delete.path: "deleted" for delete in gone}

    def _pause(self, seconds: float) -> None:
        """Sleep after recording all results: a waiting process may be killed."""
        self._ledger.flush()
        self._env.sleep(seconds)

    def _carry_out(self, pending: Sequence[Action]) -> None:
        total = sum(isinstance(action, Delete) for action in pending)
        # An earlier run has waited before its first file.
        grace_ms = 0 if self._progress.data_begun else self._attempt.grace_ms
        is_new = not self._attempt.earlier_runs
        whole: tuple[Action, ...] = ()
        asks_all = self._ask_all(pending)
        hints: tuple[Put, ...] = ()
        for whole in batches(pending):
            batch, next_hints = last_hints(whole)
            self._rest()
            if not is_head(whole[0]) and grace_ms > 0:
                self._write_hints(hints)
                self._wait(grace_ms)
                grace_ms, hints = 0, ()
            self._still_ours()
            look = partial(self._look, pending, whole, asks_all=asks_all, is_new=is_new)
            if self._beside(hints, look):
                self._note_overtaken()
                return
            is_new, hints = False, next_hints
            self._batch(batch)
            self._env.progress("objects deleted", self._outcome.deleted + self._outcome.already_gone, total)
        if whole and is_head(whole[-1]) and self._progress.documents_gone:
            # The plan deletes no file, so there was no recheck after the documents were deleted. One of them may be the
            # target of a rollback.
            self._beside(hints, lambda: self._recheck.look(()))
        else:
            self._write_hints(hints)

    def _beside(self, hints: tuple[Put, ...], look: Callable[[], T]) -> T:
        """Recheck the roots, and write hints at the same time.

        No root is a hint of this phase, and no recheck looks at one (it is `EARLIEST`). Both have ended before the next
        deletion, and the recheck begins when all documents are deleted.
        """
        if not hints:
            return look()
        _, found = both(lambda: self._write_hints(hints), look, at_once=waits(self._env.stores.table))
        return found

    def _write_hints(self, hints: Sequence[Put]) -> None:
        for hint in hints:
            self._write(hint)

    def _look(self, pending: Sequence[Action], batch: Sequence[Action] = (), *, asks_all: bool, is_new: bool) -> bool:
        """Recheck the roots before a batch. Tell whether another maintainer has removed the documents of a new plan."""
        deletes = [action for action in pending if isinstance(action, Delete)]
        if asks_all and self._is_of_orphans:
            self._new_roots.look()
            self._kept |= self._new_roots.needed(deletes)
        elif not batch or not self._was_just_listed(batch):
            references = self._recheck.look(deletes)
            if is_new and self._is_overtaken():
                return True
            self._keep(pending, references)
        return False

    def _ask_all(self, pending: Sequence[Action]) -> bool:
        """Ask the present roots for the files of a plan that this call did not make; tell whether they were asked."""
        files = [a for a in pending if isinstance(a, Delete) and a.kind in get_args(FileKind)]
        if (self._attempt.has_just_planned and not self._attempt.asks_roots) or not files:
            return False
        has_begun = bool(self._attempt.earlier_runs)
        if self._is_of_orphans:
            self._new_roots.ask_all(lambda: files, self._still_ours, has_begun=has_begun)
            return True
        references = ask_present_roots(self._recheck, self._plan.actions, files)
        if references.names and not has_begun:
            refuse_live_files(self._plan.header, files, lambda delete: base_name(delete.path) in references.names)
        self._keep(pending, references, STILL_NEEDED)
        return True

    @property
    def _is_of_orphans(self) -> bool:
        """Tell whether the plan deletes nothing but files that no root refers to. Such a plan may stop anywhere."""
        return self._plan.header.end_id is None and not any(is_head(action) for action in self._plan.actions)

    def _rest(self) -> None:
        """Let others maintain the table after a long time. The plan deletes files alone, so it may stop anywhere."""
        now_ms = self._env.area.store.now_ms()
        if now_ms - self._epoch_began_ms < EPOCH_MS or any(is_head(action) for action in self._plan.actions):
            return
        self._ledger.flush()  # if this run dies meanwhile, no other run finishes the plan
        self._lease.check()  # a lease that was lost meanwhile cannot be released, and must not be taken again
        self._attempt.on_rest()
        self._lease.rest(lambda seconds: self._env.wait(seconds, self._what), self._attempt.before_return)
        self._env.check_policy()
        self._epoch_began_ms = self._env.area.store.now_ms()

    def _is_overtaken(self) -> bool:
        """Tell whether another maintainer has removed every document of this plan, so that nothing is left to do.

        Raises:
            StalePlanError: Another maintainer has removed only some of them, or the plan renames a tag.
        """
        gone = sorted(self._roots - self._recheck.listed)
        moves = any(isinstance(action, Put) and action.phase == TAG_PHASE for action in self._plan.actions)
        if gone and (moves or len(gone) < len(self._roots)):
            how = "deleted" if "tag/tag-" in gone[0] else "expired"
            raise StalePlanError(
                f"table {self._plan.header.table}: {gone[0]} was {how} by another maintainer since the plan was "
                "made; expected it there",
                code="overtaken",
            )
        return bool(gone)

    def _note_overtaken(self) -> None:
        """Count the documents that are gone. Their files are left to the maintainer that deleted the documents."""
        gone = len(self._roots)
        self._was_overtaken = True
        self._outcome += Outcome(already_gone=gone)
        self._warnings += (
            f"another maintainer has deleted the {gone} documents of the plan since it was made; the files of these "
            "documents are left to that maintainer",
        )

    def _was_just_listed(self, batch: Sequence[Action]) -> bool:
        """Tell whether the listing that the plan was made from serves as the recheck before the documents are deleted.

        The recheck after the documents covers what the listing cannot have seen. Until then the plan deletes nothing
        that cannot be put back. No other maintainer can have worked here since, because the lease is unchanged since
        before the listing.
        """
        header = self._plan.header
        age_ms = self._env.area.store.now_ms() - header.created_ms
        documents = sum(action.phase == DOCUMENT_PHASE for action in batch)
        is_fresh = self._attempt.has_just_planned and header.settled and 0 <= age_ms < FRESH_MS
        return is_fresh and self._lease.is_as_known and is_head(batch[0]) and documents <= SINGLE_DELETES

    def _wait(self, grace_ms: int) -> None:
        """Wait for readers while holding the lease."""
        step_ms = 10_000  # shorter than the time that a caller keeps in reserve
        self._progress.others_were_here = True
        self._ledger.flush()
        plan = f"plan {self._plan.header.plan_id}"
        self._env.say(f"{plan}: waiting {grace_ms / 1000:g} s for readers (grace), before files are deleted")
        while grace_ms > 0:
            self._env.check_time(f"readers of what plan {self._plan.header.plan_id} removes")
            self._env.sleep(min(step_ms, grace_ms) / 1000)
            grace_ms -= step_ms
            self._lease.check()

    def _keep(self, pending: Sequence[Action], references: References, why: str = NEEDED) -> None:
        """Exclude files that roots need from the plan."""
        if not references.names and not references.unknown:
            return
        for action in pending:
            if isinstance(action, Delete) and not is_head(action):
                name = base_name(action.path)
                if (
                    name in references.names
                    or (action.owner is not None and action.owner in references.names)
                    or action.kind in references.unknown
                ):
                    self._kept.setdefault(action.path, why)

    def _batch(self, batch: Sequence[Action]) -> None:
        """Delete one batch, step by step: each step is complete before the next begins."""
        deletes = [a for a in batch if isinstance(a, Delete) and a.path not in self._kept]
        kept = [(a, self._kept[a.path]) for a in batch if isinstance(a, Delete) and a.path in self._kept]
        if any(not is_head(delete) for delete in deletes):
            self._ledger.intend(deletes)
            self._progress.data_begun = True
        results: dict[str, DeleteResult] = {}
        try:
            for step in dict.fromkeys(map(step_of, batch)):
                for action in batch:
                    if isinstance(action, Put) and step_of(action) == step and not self._is_past(action):
                        self._write(action)
                # The recheck and the earlier steps may have taken long, so the lease is checked again.
                going = [delete for delete in deletes if step_of(delete) == step]
                found = send(self._env.stores, going, self._lease.check, answered=results)
                if step == FILES_STEP:
                    written = {path for path, result in found.items() if result.code == "precondition_failed"}
                    kept += [(delete, REWRITTEN) for delete in deletes if delete.path in written]
                    found = {path: result for path, result in found.items() if path not in written}
                results.update(found)
                self._check_documents(step, found)
        finally:
            answered = [delete for delete in deletes if delete.path in results]
            by_intent = {path for path in self._untold if path in results and results[path].code == "already_gone"}
            results |= {path: DeleteResult(results[path].key, "deleted") for path in by_intent}
            self._settled.update(path for path, result in results.items() if result.code in _GONE)
            self._settled.update(delete.path for delete, _ in kept)
            self._outcome += outcome_of(answered, results, len(kept))
            self._ledger.record(answered, results, kept, dict.fromkeys(by_intent, BY_INTENT))

    def _write(self, action: Put) -> None:
        """Write an object under its conditions. An object with the same bytes is an earlier write of this plan.

        Raises:
            StalePlanError: A different object is there.
        """
        store, key = self._env.stores.resolve(action.path)
        if old := self._lost_name(action):
            # Either an earlier run has renamed the tag, or others deleted it, and maybe its files. It must not return.
            if self._holds(action):
                return
            raise self._moved_from_nothing(old.path)
        try:
            etag = store.put(key, to_bytes(action.body), if_absent=action.if_absent, if_match=action.etag)
        except PreconditionFailedError as error:
            if self._holds(action):
                return
            raise self._rewritten(action.path) from error
        self._progress.written[action.path] = etag

    def _holds(self, action: Put) -> bool:
        """Tell whether the object is there as the plan writes it."""
        store, key = self._env.stores.resolve(action.path)
        try:
            return store.read(key).data == to_bytes(action.body)
        except ObjectNotFoundError:
            return False

    def _lost_name(self, action: Put) -> Delete | None:
        """Return the old name of a renamed tag, if others or an earlier run deleted or replaced that tag."""
        old = next(iter(removed_roots(self._plan.actions)), None) if action.phase == TAG_PHASE else None
        return None if old is None or self._is_there(old) else old

    def _rewritten(self, path: str) -> StalePlanError:
        return StalePlanError(
            f"table {self._plan.header.table}: {path} is another document than when the plan was made"
        )

    def _is_there(self, document: Delete) -> bool:
        """Tell whether the plan's version of a document existed at the last recheck."""
        return document.path in self._recheck.listed and self._recheck.seen.get(document.path) == document.etag

    def _moved_from_nothing(self, old: str, what: str = "") -> StalePlanError:
        return StalePlanError(
            f"table {self._plan.header.table}: {old} was deleted or replaced by another maintainer since the plan was "
            f"made; expected it unchanged{what}",
            code="overtaken",
        )

    def _is_past(self, action: Put) -> bool:
        """Tell whether the snapshot that was to become a changelog is already gone.

        Either an earlier run of this plan has written the changelog, or others deleted the snapshot. In that case they
        may have deleted its changelog and the files as well, so the changelog must not return.
        """
        if action.phase != "changelog_documents":
            return False
        paths = [action.path] if action.path in self._changelogs else self._changelogs
        folder = f"{branch_dir(self._plan.header.branch)}snapshot/snapshot-"
        return self._recheck.listed.isdisjoint(f"{folder}{id_of(path)}" for path in paths)

    def _check_documents(self, step: str, found: dict[str, DeleteResult]) -> None:
        if step not in (DOCUMENT_PHASE, TAG_PHASE, CONSUMER_PHASE):
            return
        if step != CONSUMER_PHASE:
            gone = [path for path, result in found.items() if result.ok]
            progress = self._progress
            progress.documents_gone = progress.documents_gone or bool(gone)
            progress.removed.update(path for path in gone if found[path].code == "deleted")
            progress.others_were_here = progress.others_were_here or not progress.removed.issuperset(gone)
            self._recheck.forget(gone)
        written = [path for path in self._progress.written if path not in self._changelogs]
        for path, result in found.items():
            if step == TAG_PHASE and result.code == "already_gone" and written:
                # The maintainer that deleted it may have looked for other tags before the new one existed.
                what = f". {written[0]} was written meanwhile and is kept; some of its files may be missing"
                raise self._moved_from_nothing(path, what)
            if result.code == "precondition_failed":
                raise self._rewritten(path)
            if not result.ok and step != CONSUMER_PHASE:
                what = "tags" if step == TAG_PHASE else "snapshot documents"
                raise MaintenanceError(
                    f"table {self._plan.header.table}: {path} could not be deleted ({result.code}), so its files are "
                    f"kept; expected permission to delete {what}",
                    code=result.code,
                )

    def _after_stale(self, pending: Sequence[Action], error: StalePlanError) -> Executed:
        compensation = Compensation(self._env.stores.table, self._plan, self._recheck.saw_latest, self._progress)
        if not self._progress.documents_gone:
            compensation.changelogs()
        elif compensation.may_restore():
            self._ledger.record_restored(compensation.documents())
            compensation.changelogs()
        else:
            files = [a for a in pending if isinstance(a, Delete) and a.phase not in (DOCUMENT_PHASE, TAG_PHASE)]
            self._salvage([file for file in files if file.path not in self._settled])
        compensation.moved_tags()
        self._ledger.flush()
        return Executed("stale", self._outcome, str(error), error.code, self._warnings)

    def _salvage(self, deletes: Sequence[Delete]) -> None:
        """Delete the files that no present root needs. See the module's docstring."""
        table = self._env.stores.table
        for batch in batches(deletes):
            self._lease.check()
            refs = list(discover(table, ROOT_FOLDERS).roots())
            if not refs:
                raise StalePlanError(
                    f"table {table.location}: no root is left; expected some, so nothing more is deleted"
                )
            self._keep(deletes, references_of(table, self._env.known, refs, deletes, self._plan.header.branch))
            self._batch(batch)
