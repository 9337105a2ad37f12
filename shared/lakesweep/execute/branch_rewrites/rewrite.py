"""Carry out a branch rewrite request by request, so that the table is readable after each one.

A branch rewrite deletes no file. It deletes documents whose content the plan holds, so every deletion can be reverted
(`execute/branch_rewrites/compensation.py`). Compensation happens when somebody commits meanwhile: the history becomes
complete again, and the commit builds on it. It also happens when files of the target version turn out to be missing.

A run that continues a plan, or carries out a stored one, first checks that all files exist that the roots it writes
name. While no run worked on the plan, no root named these files, so an orphan scan may have deleted some. A call that
has just made the plan checked this when it made it.

The run rechecks before the first action, after the last snapshot is removed, after a fixed number of deletions, and at
the end. The window that remains lies between the last recheck and a request. A writer that commits in this window
builds on a history that is being removed. The next recheck then puts that history back.
"""

from collections.abc import Sequence
from contextlib import suppress

from lakesweep.control.lease import Lease, NoLease
from lakesweep.control.ledger import Ledger
from lakesweep.control.ledger_rows import earlier_work
from lakesweep.errors import (
    AccessDeniedError,
    MaintenanceError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StalePlanError,
    some_of,
)
from lakesweep.execute.attempt import Attempt, Environment, Executed, UnderLease, record_stop, under_lease
from lakesweep.execute.batches import expiring_snapshots, id_of, outcome_of
from lakesweep.execute.branch_rewrites.compensation import reverse, settle_latest
from lakesweep.execute.branch_rewrites.completeness import bare_others, incomplete_snapshots, lost_ahead, lost_of
from lakesweep.execute.branch_rewrites.observation import BranchObservation, observe
from lakesweep.execute.branch_rewrites.progress import LOOSE_KINDS, Documents, bytes_of
from lakesweep.execute.branch_rewrites.requests import RootRequests, is_latest
from lakesweep.execute.deletions.deleting import BY_INTENT, BY_MARKER, earlier_deletions
from lakesweep.execute.planned_roots import newest_schema, schema_id
from lakesweep.execute.recheck import stale
from lakesweep.model.paths.allowed import LAST_PHASE
from lakesweep.model.plan import Action, Delete, Plan, Put, order_problem
from lakesweep.storage.store import DeleteResult

LOOK_AFTER = 100
"""The largest number of deletions between two rechecks."""
LOST_FILES = "target_lost_files"
"""Code of a plan that was compensated because files of the target are missing."""
MOVED_ON = "moved_on"
"""Code of a plan with nothing left to do or to revert: others have expired the target."""
DENIED = AccessDeniedError.code
_NOTHING = "; nothing was done"


def move_roots(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
    """Carry out a plan for which `moves_roots` is true, under the table's lease.

    Raises:
        RefusedError: The actions are in an order that no run could finish.
        LeaseHeldError: Another run maintains this table.
        LeaseLostError: The lease went to another run; this one stopped.
        StorageError: A request failed before anything was done; the intent is kept, and the next run continues the
            plan.
    """
    problem = order_problem(plan.actions)
    if problem is not None:  # a run that finishes the plan loads it, and loading refuses such a plan
        raise RefusedError(
            f"table {plan.header.table}: plan {plan.header.plan_id}: expected {problem}", code="forbidden_action"
        )

    def run(lease: Lease) -> Executed:
        return _Moving(env.under(lease), plan, attempt, lease).run()

    return under_lease(env.area, plan.header, attempt, run, expiring_snapshots(plan))


def recheck_rewrite(env: Environment, plan: Plan) -> None:
    """Recheck a stored branch rewrite that no run has begun, as its execution does first. Change nothing.

    Raises:
        StalePlanError: The execution would do nothing.
        StorageError: A request failed.
    """
    lease = NoLease(env.area)
    _Moving(env.under(lease), plan, Attempt("", lambda executed: None), lease).recheck()


class _Moving(UnderLease):
    def __init__(self, env: Environment, plan: Plan, attempt: Attempt, lease: Lease) -> None:
        super().__init__(env, plan.header, attempt, lease)
        self._plan = plan
        self._is_first = not attempt.earlier_runs
        self._has_begun = bool(attempt.earlier_runs)
        self._store = env.stores.table
        self._documents = Documents(self._store, plan)
        self._ledger = Ledger(env.area, attempt.run_id, plan.header.plan_id, attempt.chain)
        self._requests = RootRequests(self._documents, self._ledger)
        self._warnings: dict[str, None] = {}
        self._number = -1
        """Number of the action that this run has reached."""

    def run(self) -> Executed:
        try:
            return self._run()
        except KeyboardInterrupt as stop:
            record_stop(self._attempt, self._ledger, self._requests.outcome, stop)
            raise

    def _run(self) -> Executed:
        try:
            try:
                self._carry_out()
            except StalePlanError as error:
                return self._stop(error)
            self._ledger.flush()
        except MaintenanceError as error:
            with suppress(MaintenanceError):
                self._ledger.flush()
            if self._requests.has_acted:
                return self._executed("interrupted", error)
            if error.code == DENIED and not self._has_begun:
                return self._executed("stale", error, _NOTHING)  # so the next run need not finish the plan
            raise
        return self._executed("done")

    def recheck(self) -> None:
        """See `recheck_rewrite`."""
        self._check_target(self._look())

    def _executed(self, status: str, error: MaintenanceError | None = None, more: str = "") -> Executed:
        message = "" if error is None else f"{error}{more}"
        code = "" if error is None else error.code
        return Executed(status, self._requests.outcome, message, code, tuple(self._warnings))

    def _carry_out(self) -> None:
        observation = self._look()
        self._settle(observation)
        if not self._attempt.has_just_planned and not (self._has_begun and observation.has_moved_on()):
            self._check_target(observation)
            # This check took as long as listing the table, so the recheck before it is old.
            self._is_first = not self._has_begun
            observation = self._look()
        pending = observation.pending
        if self._has_begun and observation.has_moved_on():
            settle_latest(self._store, observation.own)
            left = [self._plan.actions[number] for number in pending]
            paths = [action.path for action in left if action.kind not in LOOSE_KINDS]
            if paths:
                what = f"others changed the branch after an earlier run of the plan, so {some_of(paths)} is kept"
                raise stale(self._plan.header, what, MOVED_ON)
            return
        phase = ""
        for number in pending:
            action = self._plan.actions[number]
            comes_next = action.phase != phase and (self._requests.unseen or action.phase == LAST_PHASE)
            if comes_next or self._requests.unseen >= LOOK_AFTER:
                observation = self._look()
            phase = action.phase
            if (phase == LAST_PHASE and self._is_needed(action, observation)) or _is_outdated(action, observation):
                continue
            self._still_ours()
            self._number = number
            if isinstance(action, Delete):
                self._requests.delete(action)
            else:
                self._write(action, observation)
            self._env.progress("documents written or deleted", number + 1, len(self._plan.actions))
        self._verify(self._look())
        observation = self._look()
        self._return_schemas(observation)
        settle_latest(self._store, observation.own)

    def _check_target(self, observation: BranchObservation) -> None:
        """Make sure that the branch will have all schemas and files that it needs.

        Raises:
            StalePlanError: It would lack some.
        """
        self._check_schemas(observation)
        lost = lost_ahead(self._env, observation, self._lease.check)
        if lost:
            raise self._lost(lost)

    def _settle(self, observation: BranchObservation) -> None:
        """Record what earlier runs deleted without recording it; the present documents are the proof.

        A listing does not show the success file of a tag. It is deleted again, and its intent is the proof.
        """
        if not self._has_begun:
            return
        settled = earlier_work(self._env.area, self._plan.header.plan_id, self._attempt.earlier_runs).settled
        numbers = [
            n for n in sorted(observation.progress.done) if self._plan.actions[n].path not in observation.progress.etags
        ]
        deletes = {
            action.path: action
            for action in (self._plan.actions[number] for number in numbers)
            if isinstance(action, Delete)
            and action.path not in settled
            and action.path not in observation.progress.foreign
        }
        suspects = list(deletes.values())
        found = earlier_deletions(self._env.stores, suspects, self._plan.header.created_ms, self._lease.check).deleted
        results = {path: found.get(path, DeleteResult(path, "deleted")) for path in deletes}
        why = {path: BY_MARKER if path in found else BY_INTENT for path in deletes}
        self._ledger.record_earlier(suspects, results, why)
        self._requests.outcome += outcome_of(suspects, results, 0)
        self._requests.untold = frozenset(self._documents.numbers.keys() - deletes.keys() - settled.keys())

    def _write(self, action: Put, observation: BranchObservation) -> None:
        if action.former is not None:
            self._check_replaced(action, observation)
        try:
            self._requests.write(action)
        except StalePlanError:
            if not (is_latest(action) and _is_outdated(action, self._look())):
                raise

    def _check_replaced(self, action: Put, observation: BranchObservation) -> None:
        """Make sure that no commit builds on the document that is about to be overwritten.

        Raises:
            StalePlanError: Somebody has committed under a schema, or on top of a snapshot, since the last recheck.
                After the snapshot is replaced, such a commit would look as if it were made on the replacement.
        """
        if self._is_needed(action, observation):
            raise stale(self._plan.header, f"somebody has committed under {action.path}")
        if action.kind != "snapshot" or any(ref.id > id_of(action.path) for ref in observation.own.snapshots):
            return
        after = f"{action.path.rpartition('-')[0]}-{id_of(action.path) + 1}"
        if after in self._documents.numbers:  # the plan writes it, and that write checks it
            return
        with suppress(ObjectNotFoundError):
            self._store.read(after)
            raise stale(self._plan.header, f"{after} was written by somebody else")

    def _check_schemas(self, observation: BranchObservation) -> None:
        """Make sure that the plan deletes no schema that a kept root needs. For commits of others see `_is_needed`.

        Raises:
            StalePlanError: It deletes one: the plan was not made from this branch.
        """
        going = [each for each in self._plan.actions if isinstance(each, Delete) and each.kind == "schema"]
        if not going:
            return
        touched = {action.path for action in self._plan.actions} | {ref.path for ref in observation.new_roots()}
        needed = newest_schema(self._store, (ref for ref in observation.own.roots() if ref.path not in touched))
        for action in going:
            if schema_id(action.path) <= needed:
                raise stale(
                    self._plan.header, f"the plan deletes {action.path}, but a root that the plan keeps needs it"
                )

    def _is_needed(self, action: Action, observation: BranchObservation) -> bool:
        """Tell whether somebody has committed under a schema that the plan deletes."""
        if action.kind != "schema" or not observation.new_roots():
            return False
        return schema_id(action.path) <= newest_schema(self._store, observation.new_roots())

    def _return_schemas(self, observation: BranchObservation) -> None:
        """Warn of commits that came meanwhile, and restore the schemas that they need.

        The plan may have deleted such a schema after the recheck.
        """
        for ref in observation.new_roots():
            if ref.kind == "snapshot":
                self._warnings[f"{ref} was committed meanwhile and is kept; check which snapshot it builds on"] = None
        for action in self._plan.actions:
            if isinstance(action, Delete) and self._is_needed(action, observation):
                with suppress(PreconditionFailedError):  # the schema exists
                    self._store.put(action.path, bytes_of(action) or b"", if_absent=True)
                self._warnings[f"{action.path} is kept: somebody has committed under it meanwhile"] = None

    def _look(self) -> BranchObservation:
        observation = observe(self._documents)
        if self._is_first:
            observation.check_untouched(self._store)
            self._is_first = False
        elif self._requests.has_acted or not observation.has_moved_on():
            observation.check()
        self._requests.see(observation)
        self._warn(observation)
        return observation

    def _warn(self, observation: BranchObservation) -> None:
        """Warn of tags and branches that appeared and are kept."""
        for ref in observation.new_roots():
            if ref.kind == "tag":
                self._warnings[f"{ref} was made meanwhile; it is kept, and so are its files"] = None
        for name in observation.new_branches():
            self._warnings[f"branch {name} was made meanwhile; it is kept, and so are its files"] = None

    def _verify(self, observation: BranchObservation) -> None:
        """Make sure that every file of the roots exists that the plan names as complete.

        Raises:
            StalePlanError: A file is missing: `target_lost_files`.
        """
        lost = lost_of(self._env, observation, self._lease.check)
        if lost:
            raise self._lost(lost)

    def _lost(self, lost: Sequence[str]) -> StalePlanError:
        what = f"files of the target version are missing: {'; '.join(lost)}"
        return stale(self._plan.header, what, LOST_FILES)

    def _stop(self, error: StalePlanError) -> Executed:
        """Revert what was done, if anything was, and report what remains."""
        if error.code == MOVED_ON:
            return self._executed("stale", error)
        if not self._requests.has_acted and not self._has_begun:  # somebody else made what looks done
            return self._executed("stale", error, _NOTHING)
        observation = observe(self._documents)
        if not observation.progress.done | observation.progress.uncertain:
            return self._executed("stale", error, _NOTHING)
        # In a large table, looking for files takes long, and readers find a shorter history until then.
        has_lost = error.code == LOST_FILES or bool(self._requests.outcome.already_gone)
        check = self._lease.check
        incomplete: frozenset[str] = frozenset()
        if has_lost or self._has_begun or observation.is_expired():
            incomplete = incomplete_snapshots(self._env, observation, self._documents, check, goes_on=self._has_begun)
            incomplete |= bare_others(self._env, observation, self._documents, incomplete)
        reversal = reverse(self._documents, check, incomplete, self._until())
        self._ledger.record_restored([action for action in reversal.restored if isinstance(action, Delete)])
        self._ledger.flush()
        return self._executed("stale", error, f"; {reversal.sentence()}")

    def _until(self) -> int | None:
        """Return the last action that was carried out, where the plan had deleted no snapshot yet.

        Then others deleted the snapshots that are gone. A rollback by Paimon deletes the newest snapshots first, as a
        plan does. It would continue below the snapshots that compensation restores.
        """
        done = self._plan.actions[: self._number + 1]
        has_taken = any(action.kind == "snapshot" and isinstance(action, Delete) for action in done)
        return None if self._has_begun or has_taken else self._number


def _is_outdated(action: Action, observation: BranchObservation) -> bool:
    """Tell whether the plan's LATEST is outdated: others have committed on the target, and wrote their own LATEST."""
    return is_latest(action) and bool(observation.foreign_ids()) and observation.is_arrived()
