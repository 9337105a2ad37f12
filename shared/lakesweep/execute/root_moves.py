"""Move a branch to other documents, one request after another, so that each prefix is a table that reads.

No file goes. What a plan takes are documents whose content it has, so all of it can be taken back: when somebody
commits meanwhile, or when files of the version that the branch moves to turn out to be missing, the history becomes
whole again, and a commit stands on it (`execute/reversal.py`).

A run that goes on with a plan, or carries out one that was stored, first asks whether the files are there of all that
it would write: while nobody worked on the plan, no root named them, and an orphan scan may have taken some. The call
that has just made a plan has asked when it made it.

Looks lie before the first action, after the last snapshot is withdrawn, after so many deletions, and at the end. What
happens between the last look and a request is the window that is left: a writer that commits in it finds its snapshot
on top of a history that is going, and the next look puts that history back.
"""

from collections.abc import Sequence
from contextlib import suppress

from lakesweep.control.lease import Lease
from lakesweep.control.ledger import Ledger, earlier_work
from lakesweep.errors import (
    AccessDeniedError,
    MaintenanceError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StalePlanError,
)
from lakesweep.execute.batches import id_of, outcome_of
from lakesweep.execute.doomed import doomed_snapshots
from lakesweep.execute.earlier import BY_INTENT, BY_MARKER, earlier_deletions
from lakesweep.execute.ground import Ground, stale, take_look
from lakesweep.execute.hollow import bare_others, hollow_snapshots
from lakesweep.execute.reversal import reverse, settle_latest
from lakesweep.execute.root_requests import RootRequests, is_latest
from lakesweep.execute.schema_needs import newest_schema, schema_id
from lakesweep.execute.spine import Attempt, Environment, Executed, stopped, under_lease
from lakesweep.execute.standing import LOOSE_KINDS, Documents, bytes_of
from lakesweep.execute.wholeness import lost_ahead, lost_of
from lakesweep.model.allowed import LAST_PHASE
from lakesweep.model.plan import Action, Delete, Plan, Put, order_problem
from lakesweep.model.wording import some_of
from lakesweep.storage.store import DeleteResult

LOOK_AFTER = 100
"""So many deletions at most lie between two looks."""
LOST_FILES = "target_lost_files"
"""Code of a plan that was taken back because files are missing of what the branch would have been."""
MOVED_ON = "moved_on"
"""Code of a plan of which nothing is left to do or to take back: others have expired what it moved the branch to."""
DENIED = AccessDeniedError.code
_NOTHING = "; nothing was done"


def move_roots(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
    """Carry out a plan for which `moves_roots`, under the table's lease.

    Raises:
        RefusedError: A plan that nobody could finish.
        LeaseHeldError: Another run maintains this table.
        LeaseLostError: The lease went to another run; this one stopped.
        StorageError: A request failed before anything was done; the intent stays, and the next run goes on.
    """
    problem = order_problem(plan.actions)
    if problem is not None:  # whoever finishes a plan loads it, and that refuses it
        raise RefusedError(
            f"table {plan.header.table}: plan {plan.header.plan_id}: expected {problem}", code="forbidden_action"
        )

    def run(lease: Lease) -> Executed:
        return _Moving(env.under(lease), plan, attempt, lease).run()

    return under_lease(env.area, plan.header, attempt, run, doomed_snapshots(plan))


class _Moving:
    def __init__(self, env: Environment, plan: Plan, attempt: Attempt, lease: Lease) -> None:
        self._env = env
        self._plan = plan
        self._lease = lease
        self._is_first = not attempt.earlier_runs
        self._attempt = attempt
        self._has_begun = bool(attempt.earlier_runs)
        self._has_just_planned = attempt.has_just_planned
        self._store = env.stores.table
        self._documents = Documents(self._store, plan)
        self._ledger = Ledger(env.area, attempt.run_id, plan.header.plan_id, attempt.chain)
        self._requests = RootRequests(self._documents, self._ledger)
        self._warnings: dict[str, None] = {}
        self._number = -1
        """Of the action that this run has come to."""

    def run(self) -> Executed:
        try:
            return self._run()
        except KeyboardInterrupt as stop:
            with suppress(MaintenanceError):
                self._ledger.flush()
            self._attempt.on_stop(stopped(self._requests.outcome, stop))
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
                return self._executed("stale", error, _NOTHING)  # and whoever comes next need not finish it
            raise
        return self._executed("done")

    def _executed(self, status: str, error: MaintenanceError | None = None, more: str = "") -> Executed:
        message = "" if error is None else f"{error}{more}"
        code = "" if error is None else error.code
        return Executed(status, self._requests.outcome, message, code, tuple(self._warnings))

    def _carry_out(self) -> None:
        ground = self._look()
        self._settle(ground)
        if not self._has_just_planned and not (self._has_begun and ground.has_moved_on()):
            self._check_schemas(ground)
            lost = lost_ahead(self._env, ground, self._lease.check)
            if lost:
                raise self._lost(lost)
            # To ask took as long as listing the table does, so what the look saw is old.
            self._is_first = not self._has_begun
            ground = self._look()
        pending = ground.pending
        if self._has_begun and ground.has_moved_on():
            settle_latest(self._store, ground.own)
            left = [self._plan.actions[number] for number in pending]
            paths = [action.path for action in left if action.kind not in LOOSE_KINDS]
            if paths:
                what = f"others have gone on since an earlier run of the plan, so {some_of(paths)} stays as it is"
                raise stale(self._plan.header, what, MOVED_ON)
            return
        phase = ""
        for number in pending:
            action = self._plan.actions[number]
            comes_next = action.phase != phase and (self._requests.unseen or action.phase == LAST_PHASE)
            if comes_next or self._requests.unseen >= LOOK_AFTER:
                ground = self._look()
            phase = action.phase
            if (phase == LAST_PHASE and self._is_needed(action, ground)) or _is_outdated(action, ground):
                continue
            self._env.check_time(f"plan {self._plan.header.plan_id} of table {self._plan.header.table}")
            self._lease.check()
            self._number = number
            if isinstance(action, Delete):
                self._requests.delete(action)
            else:
                self._write(action, ground)
            self._env.progress(number + 1, len(self._plan.actions))
        self._verify(self._look())
        ground = self._look()
        self._return_schemas(ground)
        settle_latest(self._store, ground.own)

    def _settle(self, ground: Ground) -> None:
        """Write down what earlier runs deleted and could not write down: the documents that are there tell.

        What nobody can see, such as a success file of a tag, is deleted again, and its intent tells.
        """
        if not self._has_begun:
            return
        settled = earlier_work(self._env.area, self._plan.header.plan_id, self._attempt.earlier_runs).settled
        numbers = [n for n in sorted(ground.standing.done) if self._plan.actions[n].path not in ground.standing.etags]
        deletes = {
            action.path: action
            for action in (self._plan.actions[number] for number in numbers)
            if isinstance(action, Delete) and action.path not in settled and action.path not in ground.standing.foreign
        }
        suspects = list(deletes.values())
        found = earlier_deletions(self._env.stores, suspects, self._plan.header.created_ms, self._lease.check).deleted
        results = {path: found.get(path, DeleteResult(path, "deleted")) for path in deletes}
        why = {path: BY_MARKER if path in found else BY_INTENT for path in deletes}
        self._ledger.record_earlier(suspects, results, why)
        self._requests.outcome += outcome_of(suspects, results, 0)
        self._requests.untold = frozenset(self._documents.numbers.keys() - deletes.keys() - settled.keys())

    def _write(self, action: Put, ground: Ground) -> None:
        if action.former is not None:
            self._check_replaced(action, ground)
        try:
            self._requests.write(action)
        except StalePlanError:
            if not (is_latest(action) and _is_outdated(action, self._look())):
                raise

    def _check_replaced(self, action: Put, ground: Ground) -> None:
        """Make sure that nobody goes by what is about to be written over.

        Raises:
            StalePlanError: Somebody has committed under a schema, or on top of a snapshot since the last look: a commit
                that is there when the snapshot is another one looks as if it were made on that.
        """
        if self._is_needed(action, ground):
            raise stale(self._plan.header, f"somebody has committed under {action.path}")
        if action.kind != "snapshot" or any(ref.id > id_of(action.path) for ref in ground.own.snapshots):
            return
        after = f"{action.path.rpartition('-')[0]}-{id_of(action.path) + 1}"
        if after in self._documents.numbers:  # the plan's own, or found out when it is written
            return
        with suppress(ObjectNotFoundError):
            self._store.read(after)
            raise stale(self._plan.header, f"{after} was written by somebody else")

    def _check_schemas(self, ground: Ground) -> None:
        """Make sure that no schema goes that a root needs which stays. Of what others have written see `_is_needed`.

        Raises:
            StalePlanError: One is: the plan was not made of this branch.
        """
        going = [each for each in self._plan.actions if isinstance(each, Delete) and each.kind == "schema"]
        if not going:
            return
        touched = {action.path for action in self._plan.actions} | {ref.path for ref in ground.newcomers()}
        needed = newest_schema(self._store, (ref for ref in ground.own.roots() if ref.path not in touched))
        for action in going:
            if schema_id(action.path) <= needed:
                raise stale(self._plan.header, f"{action.path} is to go, and a root that stays needs it")

    def _is_needed(self, action: Action, ground: Ground) -> bool:
        """Tell whether somebody has committed under a schema that is to go."""
        if action.kind != "schema" or not ground.newcomers():
            return False
        return schema_id(action.path) <= newest_schema(self._store, ground.newcomers())

    def _return_schemas(self, ground: Ground) -> None:
        """Say which commits came meanwhile, and put the schemas back that they need and that went after the look."""
        for ref in ground.newcomers():
            if ref.kind == "snapshot":
                self._warnings[f"{ref} was committed meanwhile and stays; see what it was made from"] = None
        for action in self._plan.actions:
            if isinstance(action, Delete) and self._is_needed(action, ground):
                with suppress(PreconditionFailedError):  # it is there
                    self._store.put(action.path, bytes_of(action) or b"", if_absent=True)
                self._warnings[f"{action.path} stays: somebody has committed under it meanwhile"] = None

    def _look(self) -> Ground:
        ground = take_look(self._documents)
        if self._is_first:
            ground.check_untouched(self._store)
            self._is_first = False
        elif self._requests.has_acted or not ground.has_moved_on():
            ground.check()
        self._requests.see(ground)
        self._warn(ground)
        return ground

    def _warn(self, ground: Ground) -> None:
        """Keep in mind what appeared and stays."""
        for ref in ground.newcomers():
            if ref.kind == "tag":
                self._warnings[f"{ref} was made meanwhile and stays; its files stay with it"] = None
        for name in ground.new_branches():
            self._warnings[f"branch {name} was made meanwhile and stays; its files stay with it"] = None

    def _verify(self, ground: Ground) -> None:
        """Make sure that every file is there that the plan promises.

        Raises:
            StalePlanError: One is not: `target_lost_files`.
        """
        lost = lost_of(self._env, ground, self._lease.check)
        if lost:
            raise self._lost(lost)

    def _lost(self, lost: Sequence[str]) -> StalePlanError:
        what = f"files are missing of what the branch would be: {'; '.join(lost)}"
        return stale(self._plan.header, what, LOST_FILES)

    def _stop(self, error: StalePlanError) -> Executed:
        """Take back what was done, if anything was, and say what stands."""
        if error.code == MOVED_ON:
            return self._executed("stale", error)
        if (
            not self._requests.has_acted and not self._has_begun
        ):  # what is as the plan would make it, somebody else has made
            return self._executed("stale", error, _NOTHING)
        ground = take_look(self._documents)
        if not ground.standing.done | ground.standing.uncertain:
            return self._executed("stale", error, _NOTHING)
        # To look for files takes long in a large table, and until then readers find a shorter history.
        has_lost = error.code == LOST_FILES or bool(self._requests.outcome.already_gone)
        check = self._lease.check
        hollow: frozenset[str] = frozenset()
        if has_lost or self._has_begun or ground.is_expired():
            hollow = hollow_snapshots(self._env, ground, self._documents, check, goes_on=self._has_begun)
            hollow |= bare_others(self._env, ground, self._documents, hollow)
        reversal = reverse(self._documents, check, hollow, self._until())
        self._ledger.record_restored([action for action in reversal.restored if isinstance(action, Delete)])
        self._ledger.flush()
        return self._executed("stale", error, f"; {reversal.sentence()}")

    def _until(self) -> int | None:
        """Return how far the plan was carried out, where no snapshot had gone yet: those that are gone, others took.

        An engine that rolls back takes the newest ones first, as a plan does, and would go on below what returns.
        """
        done = self._plan.actions[: self._number + 1]
        has_taken = any(action.kind == "snapshot" and isinstance(action, Delete) for action in done)
        return None if self._has_begun or has_taken else self._number


def _is_outdated(action: Action, ground: Ground) -> bool:
    """Tell whether LATEST is to name what others have gone on from since an earlier run: theirs says so."""
    return is_latest(action) and bool(ground.foreign_ids()) and ground.is_arrived()
