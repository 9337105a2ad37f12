"""Carry out a stored plan: look, delete a batch, write the ledger, and so on to the end.

Executing decides nothing except to stop, or to keep what a look says. Any executed prefix is harmless:

- Before the first document is gone, stopping leaves the table as it was.
- After it, the files that are still to go belong to no root, or a look says which they belong to.

A plan whose documents another maintainer removed before its first delete was overtaken: the files are the other's to
delete, and on a store that cannot tell a missing object from one that it deletes, both would claim them. On a versioned
bucket each object would get two delete markers, and no undo brings it back from below both.

So a plan that turns out stale before its first delete is dropped. One that turns out stale while only documents are
gone is taken back: the documents return, as far as a rollback has not left them behind and nobody else can have
touched their files. One that turns out stale later, or after others had time, is finished in *salvage*: no further
document goes, every root that exists now is asked again for what it needs, and only what none of them needs is removed.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lakesweep.control.area import ControlArea
from lakesweep.control.intent import Intent
from lakesweep.control.lease import Lease, LeaseDocument, acquire
from lakesweep.control.ledger import Ledger, intended_beyond_documents, settled
from lakesweep.errors import (
    MaintenanceError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StalePlanError,
    StorageError,
)
from lakesweep.execute.look import Looker, references_of
from lakesweep.model.facts import References, base_name
from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.model.plan import Action, Delete, Plan, Put
from lakesweep.model.roots import BranchListing
from lakesweep.model.table_ref import branch_dir
from lakesweep.storage.keys import SINGLE_DELETES
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store
from lakesweep.table.discover import ROOT_FOLDERS, discover
from lakesweep.table.documents import read_hint
from lakesweep.table.stores import TableStores

BATCH_KEYS = 1000
"""Deletes that share one look and one ledger entry, as many as one DeleteObjects request takes."""
_GONE = ("deleted", "already_gone")
DOCUMENT_PHASE = "documents"
CONSUMER_PHASE = "consumers"
FRESH_MS = 10_000
"""The listing that a plan was made from serves as the first look for so long, in the call that made it."""
_LASTING = ("access_denied", "no_such_bucket")
"""Answers of a whole store that asking again later does not change by itself."""
HEAD_PHASES = ("latest", "changelog_documents", DOCUMENT_PHASE, "hints")
"""What happens before the first file goes."""


@dataclass(frozen=True, slots=True)
class Executed:
    """How an execution ended."""

    status: str
    """`done`, `partial` (some objects are still there), `stale` (the table moved) or `interrupted` (an error came after
    the first deletion; the next run finishes the plan)."""
    outcome: Outcome
    message: str = ""
    """Why it is stale or interrupted."""
    code: str = ""
    """The word for it."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What an execution works with."""

    stores: TableStores
    area: ControlArea
    known: Store
    """The table's store, which may know lists and manifests from before."""
    sleep: Callable[[float], None] = time.sleep
    progress: Callable[[int, int], None] = lambda done, total: None
    """Called with objects settled so far and in all."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run's work on a stored plan."""

    run_id: str
    """That of a plan which the same call made is the plan's own id."""
    on_end: Callable[[Executed], None]
    """Called under the lease once the plan has ended, to write that down before the intent is withdrawn."""
    grace_ms: int = 0
    """How long readers that opened an expiring snapshot may go on before its files go."""
    earlier_runs: tuple[str, ...] = ()
    """Runs that began this plan and did not end it; what their ledgers settled is not done again."""
    lease: LeaseDocument | None = None
    """The lease as it was just read, when it was."""


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
    header = plan.header
    # With the lease the intent becomes visible, before the next look: whoever tags a snapshot writes first and reads
    # the intent after, so one of the two always sees the other.
    intent = Intent(
        plan_id=header.plan_id,
        branch=header.branch,
        end_id=header.end_id,
        runs=(*attempt.earlier_runs, attempt.run_id),
        created_ms=env.area.store.now_ms(),
        grace_ms=attempt.grace_ms,
    )
    lease = acquire(env.area, attempt.run_id, intent, attempt.lease)
    ended = False
    try:
        executed = _Execution(env, plan, attempt, lease).run()
        if executed.status != "interrupted":
            lease.check()
            attempt.on_end(executed)
            ended = True
        return executed
    finally:
        lease.release(ended=ended)


def forget(area: ControlArea, intent: Intent, run_id: str) -> None:
    """Withdraw the intent of a plan that has ended, or that cannot be loaded any more.

    Raises:
        LeaseHeldError: Another run maintains this table.
    """
    acquire(area, run_id, intent).release(ended=True)


class _Execution:
    def __init__(self, env: Environment, plan: Plan, attempt: Attempt, lease: Lease) -> None:
        self._env = env
        self._plan = plan
        self._lease = lease
        self._grace_ms = attempt.grace_ms
        self._earlier_runs = attempt.earlier_runs
        self._is_of_this_call = attempt.run_id == plan.header.plan_id
        self._ledger = Ledger(env.area, attempt.run_id, plan.header.plan_id)
        self._changelogs = {
            action.path: action
            for action in plan.actions
            if isinstance(action, Put) and action.kind == "changelog_document"
        }
        self._looker = Looker(env.stores.table, plan.header, env.known, env.sleep, written=frozenset(self._changelogs))
        self._kept: dict[str, str] = {}
        self._outcome = Outcome()
        self._documents_gone = False
        self._data_begun = False
        self._removed: set[str] = set()
        """Documents that runs of this plan removed, and nobody else."""
        self._others_were_here = bool(attempt.earlier_runs)
        """Others may have removed what the documents need: they had time, or documents were gone already."""
        self._written: dict[str, str] = {}
        """Path -> ETag of what this run wrote."""

    def run(self) -> Executed:
        plan_id = self._plan.header.plan_id
        done = settled(self._env.area, plan_id, self._earlier_runs)
        # What an earlier run intended may have happened, whether or not it lived to write that down.
        self._documents_gone = bool(self._earlier_runs)
        self._data_begun = intended_beyond_documents(self._env.area, plan_id, self._earlier_runs)
        documents = [delete.path for delete in self._plan.deletes if delete.phase == DOCUMENT_PHASE]
        self._looker.forget(path for path in documents if done.get(path) in _GONE)
        if self._earlier_runs:
            self._removed.update(documents)
        self._kept = {path: "an earlier run kept it" for path, result in done.items() if result == "kept_by_look"}
        pending = [action for action in self._plan.actions if done.get(action.path) not in _GONE]
        try:
            self._carry_out(pending)
            self._ledger.flush()
        except StalePlanError as error:
            return self._after_stale(pending, error)
        except MaintenanceError as error:
            with suppress(MaintenanceError):  # what is not recorded is done again, which is harmless
                self._ledger.flush()
            if not self._outcome.deleted:
                raise
            return Executed("interrupted", self._outcome, str(error), error.code)
        return Executed("partial" if self._outcome.failed else "done", self._outcome)

    def _carry_out(self, pending: Sequence[Action]) -> None:
        total = sum(isinstance(action, Delete) for action in pending)
        grace_ms = self._grace_ms
        is_new = not self._earlier_runs
        batch: tuple[Action, ...] = ()
        for batch in batches(pending):
            if not _is_head(batch[0]):
                self._wait(grace_ms)
                grace_ms = 0
            self._lease.check()
            if not self._was_just_listed(batch):
                references = self._looker.look([a for a in pending if isinstance(a, Delete)])
                if is_new and self._is_overtaken():
                    return
                self._keep(pending, references)
            is_new = False
            self._batch(batch)
            self._env.progress(self._outcome.deleted + self._outcome.already_gone, total)
        if batch and _is_head(batch[-1]) and self._documents_gone:
            # No file goes, so nothing has looked since the documents went; one of them may be a rollback's target.
            self._looker.look(())

    def _is_overtaken(self) -> bool:
        """Tell whether another maintainer has removed every document of this plan, so that nothing is left to do.

        Raises:
            StalePlanError: It has removed some of them.
        """
        documents = [delete.path for delete in self._plan.deletes if delete.phase == DOCUMENT_PHASE]
        gone = [path for path in documents if path not in self._looker.listed]
        if gone and len(gone) < len(documents):
            raise StalePlanError(
                f"table {self._plan.header.table}: {gone[0]} was expired by another maintainer since the plan was "
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
        return is_fresh and _is_head(batch[0]) and documents <= SINGLE_DELETES

    def _wait(self, grace_ms: int) -> None:
        """Wait for readers, holding the lease."""
        step_ms = 60_000
        self._others_were_here = self._others_were_here or grace_ms > 0
        while grace_ms > 0:
            self._env.sleep(min(step_ms, grace_ms) / 1000)
            grace_ms -= step_ms
            self._lease.check()

    def _keep(self, pending: Sequence[Action], references: References) -> None:
        """Take out of the plan what roots that appeared since need."""
        if not references.names and not references.unknown:
            return
        for action in pending:
            if isinstance(action, Delete) and action.phase != DOCUMENT_PHASE:
                name = base_name(action.path)
                if (
                    name in references.names
                    or (action.owner is not None and action.owner in references.names)
                    or action.kind in references.unknown
                ):
                    self._kept.setdefault(action.path, "a root that appeared after planning needs it")

    def _batch(self, batch: Sequence[Action]) -> None:
        """Delete one batch, step by step: the next begins when the one before is complete."""
        deletes = [a for a in batch if isinstance(a, Delete) and a.path not in self._kept]
        kept = [(a, self._kept[a.path]) for a in batch if isinstance(a, Delete) and a.path in self._kept]
        if any(not _is_head(delete) for delete in deletes):
            self._ledger.intend(deletes)
            self._data_begun = True
        results: dict[str, DeleteResult] = {}
        try:
            for step in dict.fromkeys(map(_step_of, batch)):
                for action in batch:
                    if isinstance(action, Put) and _step_of(action) == step and not self._is_past(action):
                        store, key = self._env.stores.resolve(action.path)
                        etag = store.put(key, action.body.encode("utf-8", "surrogateescape"))
                        self._written[action.path] = etag
                found = self._delete([delete for delete in deletes if _step_of(delete) == step])
                for path, result in found.items():
                    if result.code == "precondition_failed" and self._is_gone(path):
                        found[path] = DeleteResult(result.key, "already_gone")
                results.update(found)
                self._check_documents(step, found)
        finally:
            answered = [delete for delete in deletes if delete.path in results]
            self._outcome += outcome_of(answered, results, len(kept))
            self._ledger.record(answered, results, kept)

    def _is_past(self, action: Put) -> bool:
        """Tell whether the snapshot that was to become a changelog is gone already.

        An earlier run of this plan has written the changelog before, or others have taken the snapshot, and maybe its
        changelog and their files as well: it must not return.
        """
        if action.phase != "changelog_documents":
            return False
        paths = [action.path] if action.path in self._changelogs else self._changelogs
        folder = f"{branch_dir(self._plan.header.branch)}snapshot/snapshot-"
        return self._looker.listed.isdisjoint(f"{folder}{_id_of(path)}" for path in paths)

    def _check_documents(self, step: str, found: dict[str, DeleteResult]) -> None:
        if step not in (DOCUMENT_PHASE, CONSUMER_PHASE):
            return
        if step == DOCUMENT_PHASE:
            gone = [path for path, result in found.items() if result.ok]
            self._documents_gone = self._documents_gone or bool(gone)
            self._removed.update(path for path in gone if found[path].code == "deleted")
            self._others_were_here = self._others_were_here or not self._removed.issuperset(gone)
            self._looker.forget(gone)
        for path, result in found.items():
            if result.code == "precondition_failed":
                raise StalePlanError(
                    f"table {self._plan.header.table}: {path} is another document than when the plan was made"
                )
            if not result.ok and step == DOCUMENT_PHASE:
                raise MaintenanceError(
                    f"table {self._plan.header.table}: {path} could not be deleted ({result.code}), so the files that "
                    "it refers to stay; expected permission to delete snapshot documents",
                    code=result.code,
                )

    def _is_gone(self, path: str) -> bool:
        """Tell whether a condition failed only because an earlier, interrupted run has deleted the object."""
        store, key = self._env.stores.resolve(path)
        try:
            store.read(key)
        except ObjectNotFoundError:
            return True
        return False

    def _delete(self, deletes: Sequence[Delete]) -> dict[str, DeleteResult]:
        results: dict[str, DeleteResult] = {}
        by_store: dict[str, list[tuple[Delete, str]]] = {}
        for delete in deletes:
            store, key = self._env.stores.resolve(delete.path)
            by_store.setdefault(store.location, []).append((delete, key))
        for entries in by_store.values():
            store, _ = self._env.stores.resolve(entries[0][0].path)
            requests = [DeleteRequest(key, delete.etag) for delete, key in entries]
            self._lease.check()  # the look and the steps before this one may have taken long
            try:
                answers = store.delete(requests)
            except StorageError as error:
                if store is self._env.stores.table or error.code not in _LASTING:
                    raise
                # A root outside may be gone for good; the table must not wait for it.
                answers = [DeleteResult(request.key, error.code) for request in requests]
            results |= {delete.path: answer for (delete, _), answer in zip(entries, answers, strict=True)}
        return results

    def _after_stale(self, pending: Sequence[Action], error: StalePlanError) -> Executed:
        if not self._documents_gone:
            self._take_back_changelogs()
        elif self._may_restore():
            self._restore_documents()
            self._take_back_changelogs()
        else:
            self._salvage([a for a in pending if isinstance(a, Delete) and a.phase != DOCUMENT_PHASE])
        self._ledger.flush()
        return Executed("stale", self._outcome, str(error), error.code)

    def _may_restore(self) -> bool:
        """Tell whether documents that went still have all their files.

        That is certain as long as no file went and nobody else was here. Another run or engine may have expired
        further and taken files that only its own snapshots and these shared; then documents return only for a rollback
        that has left nothing else, or is about to. Nor do they return where LATEST was removed: so begins a
        fast-forward, or the end of a branch, and what was there before is not wanted any more.
        """
        if self._data_begun or (self._looker.saw_latest and self._newest() is None):
            return False
        own = discover(self._env.stores.table, ROOT_FOLDERS).branches.get(self._plan.header.branch)
        if own is None or not own.snapshots:
            return True
        if not self._others_were_here and not self._was_expired_further(own):
            return True
        newest = self._newest()
        return newest is not None and newest < own.snapshots[0].id

    def _was_expired_further(self, own: BranchListing) -> bool:
        """Tell whether others have removed the first document that was to stay, and left later ones.

        A rollback would have removed the later ones first.
        """
        end_id = self._plan.header.end_id
        documents = {delete.kind for delete in self._plan.deletes if delete.phase == DOCUMENT_PHASE}
        ids = {ref.id for ref in (own.snapshots if "snapshot" in documents else own.changelogs)}
        return end_id is not None and end_id not in ids and any(there > end_id for there in ids)

    def _restore_documents(self) -> None:
        """Put documents back, as far as the table has not left them behind.

        A rollback may have begun between the look and the deletion of its target. It has written LATEST first, so
        documents up to there are put back and later ones are not.
        """
        table = self._env.stores.table
        newest = self._newest()
        documents = [delete for delete in self._plan.deletes if delete.path in self._removed]
        restored = []
        for delete in documents:
            if delete.body and (newest is None or _id_of(delete.path) <= newest):
                try:
                    table.put(delete.path, delete.body.encode("utf-8", "surrogateescape"), if_absent=True)
                except PreconditionFailedError:
                    continue  # it never went, or another one took its id
                restored.append(delete)
        if restored:
            first = restored[0].path
            table.put(f"{first.removesuffix(base_name(first))}EARLIEST", str(_id_of(first)).encode())
            self._ledger.record_restored(restored)

    def _take_back_changelogs(self) -> None:
        """Remove the changelogs that this run wrote of snapshots that are still there, or that a rollback left behind.

        Those that were there before it stay, and so do those that somebody else has written since.
        """
        mine = [path for path in self._written if path in self._changelogs and path not in self._plan.header.roots_seen]
        if not mine:
            return
        table, newest = self._env.stores.table, self._newest()
        own = discover(table, ROOT_FOLDERS).branches[self._plan.header.branch]
        there = {ref.id for ref in own.snapshots}
        going = [path for path in mine if _id_of(path) in there or (newest is not None and _id_of(path) > newest)]
        results = table.delete([DeleteRequest(path, self._written[path]) for path in going])
        gone = {result.key for result in results if result.ok}
        hint = f"{branch_dir(own.name)}changelog/LATEST"
        staying = [ref.id for ref in own.changelogs if ref.path not in gone]
        if staying:
            table.put(hint, str(staying[-1]).encode())
        else:
            table.delete([DeleteRequest(hint)])

    def _newest(self) -> int | None:
        return read_hint(self._env.stores.table, f"{branch_dir(self._plan.header.branch)}snapshot/LATEST")

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


def batches(actions: Sequence[Action]) -> Iterator[tuple[Action, ...]]:
    """Split actions, in their order, into what one look covers.

    Documents and hints make batches of their own, so that a look lies between them and the first data file.
    """
    batch: list[Action] = []
    for action in actions:
        boundary = bool(batch) and _is_head(batch[-1]) != _is_head(action)
        if boundary or len(batch) >= BATCH_KEYS:
            yield tuple(batch)
            batch = []
        batch.append(action)
    if batch:
        yield tuple(batch)


def _is_head(action: Action) -> bool:
    return action.phase in HEAD_PHASES


def _step_of(action: Action) -> str:
    """Return what must be complete before the next thing begins: each phase of the head, and all files together.

    No root refers to a file that goes, and the stored plan knows them all, so their order among each other does not
    matter.
    """
    return action.phase if _is_head(action) or action.phase == CONSUMER_PHASE else "files"


def _id_of(path: str) -> int:
    """Return the id in the path of a snapshot or changelog document."""
    return int(path.rpartition("-")[2])


def outcome_of(deletes: Sequence[Delete], results: dict[str, DeleteResult], kept_count: int) -> Outcome:
    """Fold the results of one batch."""
    gone = [delete for delete in deletes if results[delete.path].code == "deleted"]
    return Outcome(
        deleted=len(gone),
        already_gone=sum(results[delete.path].code == "already_gone" for delete in deletes),
        failed=tuple(
            FailedDelete(delete.path, results[delete.path].code) for delete in deletes if not results[delete.path].ok
        ),
        kept_by_look=kept_count,
        deleted_bytes=sum(delete.size_bytes or 0 for delete in gone),
    )
