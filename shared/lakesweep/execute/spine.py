"""Carry out a stored plan: look, delete a batch, write the ledger, and so on to the end.

Executing decides nothing except to stop, or to keep what a look says. Any executed prefix is harmless:

- Before the first document is gone, stopping leaves the table as it was.
- After it, the files that are still to go belong to no root, or a look says which they belong to.

Documents are snapshots, changelogs and tags. A tag that moves to another name is written before the old one goes.

A plan whose documents another maintainer removed before its first delete was overtaken: the files are the other's to
delete, and on a store that cannot tell a missing object from one that it deletes, both would claim them. On a versioned
bucket each object would get two delete markers, and no undo brings it back from below both.

So a plan that turns out stale before its first delete is dropped. One that turns out stale while only documents are
gone is taken back: the documents return, as far as a rollback has not left them behind and nobody else can have
touched their files. One that turns out stale later, or after others had time, is finished in *salvage*: no further
document goes, every root that exists now is asked again for what it needs, and only what none of them needs is removed.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import get_args

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import Chain
from lakesweep.control.intent import Intent
from lakesweep.control.lease import Lease, LeaseDocument, acquire
from lakesweep.control.ledger import EarlierWork, Ledger, earlier_work
from lakesweep.errors import (
    HeldBackError,
    MaintenanceError,
    ObjectNotFoundError,
    OutOfTimeError,
    PreconditionFailedError,
    StalePlanError,
    stop_code,
    stopped_by,
)
from lakesweep.execute.batches import (
    CONSUMER_PHASE,
    DOCUMENT_PHASE,
    FILES_STEP,
    TAG_PHASE,
    batches,
    id_of,
    is_head,
    outcome_of,
    removed_roots,
    step_of,
)
from lakesweep.execute.deleting import REWRITTEN, send
from lakesweep.execute.doomed import doomed_snapshots
from lakesweep.execute.earlier import BY_INTENT, BY_MARKER, earlier_deletions
from lakesweep.execute.look import Looker, references_of
from lakesweep.execute.newcomers import NEEDED, Newcomers
from lakesweep.execute.present import STILL_NEEDED, ask_present_roots, refuse_live_files
from lakesweep.execute.take_back import Progress, TakeBack
from lakesweep.model.facts import FileKind, References, base_name
from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import Action, Delete, Plan, PlanHeader, Put, to_bytes
from lakesweep.model.stays import count_stays
from lakesweep.model.table_ref import branch_dir
from lakesweep.storage.keys import SINGLE_DELETES
from lakesweep.storage.store import DeleteResult, Store
from lakesweep.table.discover import ROOT_FOLDERS, discover
from lakesweep.table.stores import TableStores

_GONE = ("deleted", "already_gone")
EPOCH_MS = 600_000
"""A plan that no document goes by has the lease for so long at a time."""
_STEP_S = 5.0
FRESH_MS = 10_000
"""The listing that a plan was made from serves as the first look for so long, in the call that made it."""


@dataclass(frozen=True, slots=True)
class Executed:
    """How an execution ended."""

    status: str
    """`done`, `partial` (some objects are still there), `stale` (the table moved), `interrupted` (an error came after
    the first deletion; the next run finishes the plan) or `put_off` (a plan of files alone that goes on when somebody
    executes it again)."""
    outcome: Outcome
    message: str = ""
    """Why it is not done."""
    code: str = ""
    """The word for it."""
    warnings: tuple[str, ...] = ()
    """What people should know besides."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What an execution works with."""

    stores: TableStores
    area: ControlArea
    known: Store
    """The table's store, which may know lists and manifests from before."""
    sleep: Callable[[float], None] = time.sleep
    check_time: Callable[[str], None] = lambda what: None
    """Called before each batch; raises OutOfTimeError when the caller's time is nearly over."""
    check_policy: Callable[[], None] = lambda: None
    """Called now and then in an execution that takes long; raises HeldBackError when it must not go on."""
    throttled: Callable[[], int] = lambda: 0
    """How many answers so far asked for fewer requests."""
    progress: Callable[[int, int], None] = lambda done, total: None
    """Called with objects settled so far and in all."""
    clear: frozenset[str] = frozenset()
    """Manifests that name nothing of the plan."""

    def under(self, lease: Lease) -> "Environment":
        """Return it with stores that change nothing once a lease has ended: no attempt of any request does."""
        return replace(self, stores=self.stores.guarded(lease.refuse_late))

    def wait(self, seconds: float, what: str) -> None:
        """Sleep in steps, so that time that runs out is noticed.

        Args:
            seconds: How long.
            what: What is waited with.

        Raises:
            OutOfTimeError: The caller's time is nearly over.
        """
        while seconds > 0:
            self.check_time(what)
            self.sleep(min(seconds, _STEP_S))
            seconds -= _STEP_S


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run's work on a stored plan."""

    run_id: str
    on_end: Callable[[Executed], None]
    """Called under the lease once the plan has ended, to write that down before the intent is withdrawn."""
    on_rest: Callable[[], None] = lambda: None
    """Called under the lease before it is let go for a while, to write down that the plan goes on: a run that dies
    meanwhile leaves no intent that would say so."""
    on_stop: Callable[[Executed], None] = lambda executed: None
    """Called under the lease when somebody stops this process, to write down how far it came."""
    before_return: Callable[[], None] = lambda: None
    """Called before the lease is taken again after that; raises when the plan must not go on in this run."""
    policy_etag: str | None = None
    """Of the fleet policy, as this call read it."""
    chain: Chain | None = None
    """Of the ledger."""
    grace_ms: int = 0
    """How long readers that opened an expiring snapshot may go on before its files go."""
    earlier_runs: tuple[str, ...] = ()
    """Runs that began this plan and did not end it; what their ledgers settled is not done again."""
    lease: LeaseDocument | None = None
    """The lease as it was just read, when it was."""
    has_just_planned: bool = False
    """The same call made the plan, after it read the lease."""
    asks_roots: bool = False
    """It made the plan of what others wrote into the control location, so present roots are asked all the same."""


def execute(env: Environment, plan: Plan, attempt: Attempt) -> Executed:
    """Execute a stored plan under the table's lease.

    Args:
        env: Stores and control area.
        plan: Checked and stored.
        attempt: Who does it, and how.

    Raises:
        LeaseHeldError: Another run maintains this table.
        LeaseLostError: The lease went to another run; this one stopped.
        StorageError: A request failed before anything was deleted; the intent stays, and the next run goes on.
    """

    def run(lease: Lease) -> Executed:
        return _Execution(env.under(lease), plan, attempt, lease).run()

    return under_lease(env.area, plan.header, attempt, run, doomed_snapshots(plan))


def under_lease(
    area: ControlArea,
    header: PlanHeader,
    attempt: Attempt,
    run: Callable[[Lease], Executed],
    snapshot_ids: tuple[int, ...] = (),
) -> Executed:
    """Take a table's lease with the intent to carry a plan out, do that, and give it back.

    Args:
        area: Of the table.
        header: Of the plan.
        attempt: Who does it, and how.
        run: Does it.
        snapshot_ids: See `doomed_snapshots`.

    Raises:
        LeaseHeldError: Another run maintains this table.
        LeaseLostError: The lease went to another run; this one stopped.
        StorageError: A request failed before anything was deleted; the intent stays, and the next run goes on.
    """
    # With the lease the intent becomes visible, before the next look: whoever tags a snapshot writes first and reads
    # the intent after, so one of the two always sees the other.
    intent = Intent(
        plan_id=header.plan_id,
        branch=header.branch,
        end_id=header.end_id,
        runs=(*attempt.earlier_runs, attempt.run_id),
        created_ms=area.store.now_ms(),
        grace_ms=attempt.grace_ms,
        snapshot_ids=snapshot_ids,
        plan_hash=header.content_hash,
        policy_etag=attempt.policy_etag,
    )
    # Whether a stored plan has ended, and which runs worked on it, was read right after the lease. One that was made
    # since needs no other answer than the looks.
    is_stored = attempt.lease is not None and not attempt.has_just_planned
    lease = acquire(area, attempt.run_id, intent, attempt.lease, exactly=is_stored)
    ended = False
    try:
        executed = run(lease)
        if executed.status != "interrupted":
            lease.check()
            attempt.on_end(executed)
            ended = True
        return executed
    finally:
        lease.release(ended=ended)


def forget(area: ControlArea, found: LeaseDocument, run_id: str, before: Callable[[], None] = lambda: None) -> None:
    """Withdraw the intent of a plan that is put off, or that cannot be loaded any more.

    Args:
        area: Of the table.
        found: The lease with the intent, as it was just read. Whoever has had it since may have ended the plan.
        run_id: Who withdraws it.
        before: Called under the lease, to write down what becomes of the plan.

    Raises:
        LeaseHeldError: Another run maintains this table.
    """
    lease = acquire(area, run_id, found.intent, found, exactly=True)
    ended = False
    try:
        before()
        ended = True
    finally:
        lease.release(ended=ended)


def stopped(outcome: Outcome, stop: KeyboardInterrupt) -> Executed:
    """Return how an execution ended that somebody stopped."""
    return Executed("interrupted", outcome, f"the run was stopped by {stopped_by(stop)}", stop_code(stop))


class _Execution:
    def __init__(self, env: Environment, plan: Plan, attempt: Attempt, lease: Lease) -> None:
        self._env = env
        self._plan = plan
        self._lease = lease
        self._grace_ms = attempt.grace_ms
        self._attempt = attempt
        self._earlier_runs = attempt.earlier_runs
        self._is_of_this_call = attempt.has_just_planned
        self._ledger = Ledger(env.area, attempt.run_id, plan.header.plan_id, attempt.chain)
        self._changelogs = {
            action.path: action
            for action in plan.actions
            if isinstance(action, Put) and action.kind == "changelog_document"
        }
        self._roots = frozenset(delete.path for delete in removed_roots(plan.actions))
        self._looker = Looker(
            env.stores.table, plan.header, env.known, self._pause, env.clear, written=frozenset(self._changelogs)
        )
        self._newcomers = Newcomers(self._looker)
        self._epoch_began_ms = env.area.store.now_ms()
        self._kept: dict[str, str] = {}
        self._warnings: tuple[str, ...] = ()
        self._untold: frozenset[str] = frozenset()
        """Paths of what an earlier run was about to delete, and of which the store cannot tell whether it did."""
        self._outcome = Outcome()
        self._settled: set[str] = set()
        """Paths of what this run is through with: gone, or kept. To delete it again would lay a second marker."""
        self._progress = Progress(others_were_here=bool(attempt.earlier_runs))

    def run(self) -> Executed:
        try:
            return self._run()
        except KeyboardInterrupt as stop:
            with suppress(MaintenanceError):
                self._ledger.flush()
            self._attempt.on_stop(stopped(self._outcome, stop))
            raise

    def _run(self) -> Executed:
        plan_id = self._plan.header.plan_id
        earlier = earlier_work(self._env.area, plan_id, self._earlier_runs)
        done = {**earlier.settled, **self._settle(earlier)}
        # What an earlier run intended may have happened, whether or not it lived to write that down. A plan of files
        # alone has no documents, so it leaves nothing half done.
        self._progress.documents_gone = bool(self._earlier_runs) and any(map(is_head, self._plan.actions))
        self._progress.data_begun = earlier.may_have_begun_files
        self._looker.forget(path for path in self._roots if done.get(path) in _GONE)
        if self._earlier_runs:
            self._progress.removed.update(self._roots)
        self._kept = {path: "an earlier run kept it" for path, result in done.items() if result == "kept_by_look"}
        pending = [action for action in self._plan.actions if done.get(action.path) not in _GONE]
        try:
            try:
                self._keep_outside(pending)
                self._carry_out(pending)
                self._ledger.flush()
            except StalePlanError as error:
                return self._after_stale(pending, error)
        except MaintenanceError as error:
            with suppress(MaintenanceError):  # what is not recorded, the next run finds out
                self._ledger.flush()
            if not self._outcome.deleted:
                raise
            is_put_off = isinstance(error, HeldBackError | OutOfTimeError) and self._is_of_orphans
            status = "put_off" if is_put_off and not self._lease.is_let_go else "interrupted"
            return Executed(status, self._outcome, str(error), error.code, self._warnings)
        return Executed("partial" if self._outcome.failed else "done", self._outcome, warnings=self._warnings)

    def _keep_outside(self, pending: Sequence[Action]) -> None:
        """Take out of the plan what lies outside the table and may not be deleted there, whatever the plan says."""
        stays = self._env.stores.stays((action.kind, action.path) for action in pending if isinstance(action, Delete))
        self._kept |= {path: str(stay) for path, stay in stays.items()}
        self._warnings = tuple(map(str, count_stays(stays.values())))

    def _settle(self, earlier: EarlierWork) -> dict[str, str]:
        """Write down what earlier runs deleted and could not write down, and return path -> result of that.

        Documents have no intents of their own: the lease that names the plan says that they may be gone.
        """
        if not self._earlier_runs:
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

    @property
    def _what(self) -> str:
        return f"plan {self._plan.header.plan_id} of table {self._plan.header.table}"

    def _still_ours(self) -> None:
        self._env.check_time(self._what)
        self._lease.check()

    def _pause(self, seconds: float) -> None:
        """Sleep, with all results written down: who waits may be killed."""
        self._ledger.flush()
        self._env.sleep(seconds)

    def _carry_out(self, pending: Sequence[Action]) -> None:
        total = sum(isinstance(action, Delete) for action in pending)
        grace_ms = 0 if self._progress.data_begun else self._grace_ms  # an earlier run has waited before its first file
        is_new = not self._earlier_runs
        batch: tuple[Action, ...] = ()
        asks_all = self._ask_all(pending)
        for batch in batches(pending):
            self._rest()
            if not is_head(batch[0]):
                self._wait(grace_ms)
                grace_ms = 0
            self._still_ours()
            if asks_all and self._is_of_orphans:
                self._newcomers.look()
                self._kept |= self._newcomers.needed(a for a in pending if isinstance(a, Delete))
            elif not self._was_just_listed(batch):
                references = self._looker.look([a for a in pending if isinstance(a, Delete)])
                if is_new and self._is_overtaken():
                    return
                self._keep(pending, references)
            is_new = False
            self._batch(batch)
            self._env.progress(self._outcome.deleted + self._outcome.already_gone, total)
        if batch and is_head(batch[-1]) and self._progress.documents_gone:
            # No file goes, so nothing has looked since the documents went; one of them may be a rollback's target.
            self._looker.look(())

    def _ask_all(self, pending: Sequence[Action]) -> bool:
        """Ask the roots that are there for the files of a plan that this call has not made; tell whether it was so."""
        files = [a for a in pending if isinstance(a, Delete) and a.kind in get_args(FileKind)]
        if (self._is_of_this_call and not self._attempt.asks_roots) or not files:
            return False
        has_begun = bool(self._earlier_runs)
        if self._is_of_orphans:
            self._newcomers.ask_all(lambda: files, self._still_ours, has_begun=has_begun)
            return True
        references = ask_present_roots(self._looker, self._plan.actions, files)
        if references.names and not has_begun:
            refuse_live_files(self._plan.header, files, lambda delete: base_name(delete.path) in references.names)
        self._keep(pending, references, STILL_NEEDED)
        return True

    @property
    def _is_of_orphans(self) -> bool:
        """Tell whether files go that no root refers to, and nothing else. Such a plan may stop anywhere."""
        return self._plan.header.end_id is None and not any(is_head(action) for action in self._plan.actions)

    def _rest(self) -> None:
        """Let others maintain the table, if this has gone on for long. Only files go, so it may stop anywhere."""
        now_ms = self._env.area.store.now_ms()
        if now_ms - self._epoch_began_ms < EPOCH_MS or any(is_head(action) for action in self._plan.actions):
            return
        self._ledger.flush()  # a run that dies meanwhile is finished by nobody
        self._lease.check()  # what was lost meanwhile cannot be let go, and must not be taken again
        self._attempt.on_rest()
        self._lease.rest(lambda seconds: self._env.wait(seconds, self._what), self._attempt.before_return)
        self._env.check_policy()
        self._epoch_began_ms = self._env.area.store.now_ms()

    def _is_overtaken(self) -> bool:
        """Tell whether another maintainer has removed every document of this plan, so that nothing is left to do.

        Raises:
            StalePlanError: It has removed some of them.
        """
        gone = sorted(self._roots - self._looker.listed)
        moves = any(isinstance(action, Put) and action.phase == TAG_PHASE for action in self._plan.actions)
        if gone and (moves or len(gone) < len(self._roots)):
            how = "deleted" if "tag/tag-" in gone[0] else "expired"
            raise StalePlanError(
                f"table {self._plan.header.table}: {gone[0]} was {how} by another maintainer since the plan was "
                "made; expected it there",
                code="overtaken",
            )
        return bool(gone)

    def _was_just_listed(self, batch: Sequence[Action]) -> bool:
        """Tell whether the listing that the plan was made from serves as the look before the documents go.

        What it cannot have seen, the look after the documents does: nothing that cannot be put back has gone by then.
        No other maintainer can have been here, since the lease is the one that was read before the listing.
        """
        header = self._plan.header
        age_ms = self._env.area.store.now_ms() - header.created_ms
        documents = sum(action.phase == DOCUMENT_PHASE for action in batch)
        is_fresh = self._is_of_this_call and self._lease.is_as_known and header.settled and 0 <= age_ms < FRESH_MS
        return is_fresh and is_head(batch[0]) and documents <= SINGLE_DELETES

    def _wait(self, grace_ms: int) -> None:
        """Wait for readers, holding the lease."""
        step_ms = 10_000  # what a caller keeps in reserve is more
        self._progress.others_were_here = self._progress.others_were_here or grace_ms > 0
        if grace_ms > 0:
            self._ledger.flush()
        while grace_ms > 0:
            self._env.check_time(f"readers of what plan {self._plan.header.plan_id} removes")
            self._env.sleep(min(step_ms, grace_ms) / 1000)
            grace_ms -= step_ms
            self._lease.check()

    def _keep(self, pending: Sequence[Action], references: References, why: str = NEEDED) -> None:
        """Take out of the plan what roots need."""
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
        """Delete one batch, step by step: the next begins when the one before is complete."""
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
                # The look and the steps before this one may have taken long, hence the lease.
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
        """Write an object, as its conditions allow. One that has these very bytes is an earlier write of this plan's.

        Raises:
            StalePlanError: Another one is there.
        """
        store, key = self._env.stores.resolve(action.path)
        body = to_bytes(action.body)
        old = next(iter(removed_roots(self._plan.actions)), None) if action.phase == TAG_PHASE else None
        if old is not None and not self._is_there(old):
            # Either an earlier run has moved the tag, or others took it, and maybe its files: it must not return.
            with suppress(ObjectNotFoundError):
                if store.read(key).data == body:
                    return
            raise self._moved_from_nothing(old.path)
        try:
            etag = store.put(key, body, if_absent=action.if_absent, if_match=action.etag)
        except PreconditionFailedError as error:
            with suppress(ObjectNotFoundError):
                if store.read(key).data == body:
                    return
            raise StalePlanError(
                f"table {self._plan.header.table}: {action.path} is another document than when the plan was made"
            ) from error
        self._progress.written[action.path] = etag

    def _is_there(self, document: Delete) -> bool:
        """Tell whether a document was there, and the one that is meant, at the last look."""
        return document.path in self._looker.listed and self._looker.seen.get(document.path) == document.etag

    def _moved_from_nothing(self, old: str, what: str = "") -> StalePlanError:
        return StalePlanError(
            f"table {self._plan.header.table}: {old} was deleted or replaced by another maintainer since the plan was "
            f"made{what}; expected it there",
            code="overtaken",
        )

    def _is_past(self, action: Put) -> bool:
        """Tell whether the snapshot that was to become a changelog is gone already.

        An earlier run of this plan has written the changelog before, or others have taken the snapshot, and maybe its
        changelog and their files as well: it must not return.
        """
        if action.phase != "changelog_documents":
            return False
        paths = [action.path] if action.path in self._changelogs else self._changelogs
        folder = f"{branch_dir(self._plan.header.branch)}snapshot/snapshot-"
        return self._looker.listed.isdisjoint(f"{folder}{id_of(path)}" for path in paths)

    def _check_documents(self, step: str, found: dict[str, DeleteResult]) -> None:
        if step not in (DOCUMENT_PHASE, TAG_PHASE, CONSUMER_PHASE):
            return
        if step != CONSUMER_PHASE:
            gone = [path for path, result in found.items() if result.ok]
            progress = self._progress
            progress.documents_gone = progress.documents_gone or bool(gone)
            progress.removed.update(path for path in gone if found[path].code == "deleted")
            progress.others_were_here = progress.others_were_here or not progress.removed.issuperset(gone)
            self._looker.forget(gone)
        written = [path for path in self._progress.written if path not in self._changelogs]
        for path, result in found.items():
            if step == TAG_PHASE and result.code == "already_gone" and written:
                # Whoever took it may have looked for other tags before this one was there.
                what = f", while {written[0]} was written, which stays and may not read completely"
                raise self._moved_from_nothing(path, what)
            if result.code == "precondition_failed":
                raise StalePlanError(
                    f"table {self._plan.header.table}: {path} is another document than when the plan was made"
                )
            if not result.ok and step != CONSUMER_PHASE:
                what = "tags" if step == TAG_PHASE else "snapshot documents"
                raise MaintenanceError(
                    f"table {self._plan.header.table}: {path} could not be deleted ({result.code}), so the files that "
                    f"it refers to stay; expected permission to delete {what}",
                    code=result.code,
                )

    def _after_stale(self, pending: Sequence[Action], error: StalePlanError) -> Executed:
        take_back = TakeBack(self._env.stores.table, self._plan, self._looker.saw_latest, self._progress)
        if not self._progress.documents_gone:
            take_back.changelogs()
        elif take_back.may_restore():
            self._ledger.record_restored(take_back.documents())
            take_back.changelogs()
        else:
            files = [a for a in pending if isinstance(a, Delete) and a.phase not in (DOCUMENT_PHASE, TAG_PHASE)]
            self._salvage([file for file in files if file.path not in self._settled])
        take_back.moved_tags()
        self._ledger.flush()
        return Executed("stale", self._outcome, str(error), error.code, self._warnings)

    def _salvage(self, deletes: Sequence[Delete]) -> None:
        """Remove what no root that exists now needs. See the module's docstring."""
        table = self._env.stores.table
        for batch in batches(deletes):
            self._lease.check()
            refs = list(discover(table, ROOT_FOLDERS).roots())
            if not refs:
                raise StalePlanError(f"table {table.location}: no root is left; expected some, so nothing more goes")
            self._keep(deletes, references_of(table, self._env.known, refs, deletes, self._plan.header.branch))
            self._batch(batch)
