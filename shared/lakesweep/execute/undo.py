"""Undo a plan: restore its objects by removing exactly the delete markers that the ledger names.

The order is that of deletion, reversed. Any executed prefix of it is harmless to readers and writers:

1. Files, from statistics to data. No root names them yet, so they are orphans, and no reader opens them.
2. Documents, from the highest id down, one at a time. Each returns when all its files exist, so no reader finds an
   incomplete snapshot. Restoring downwards, the existing ids never have a hole. Readers step from one id to the next
   and search between the lowest and the highest, and a hole would stop them. Restoring upwards would leave a hole
   between the restored ids and the kept ones.
3. `EARLIEST`. Until then it names the former lowest id, whose snapshot still exists: a reader sees a shorter history,
   and a true one. If it were written first, it would name a document that does not exist. Tags are restored together:
   no tag needs another.
4. Changelog documents that the plan wrote in place of snapshots are deleted last, when those snapshots exist again. So
   a reader of changes finds each id in one place or in both, and never in none. The same holds for new names that the
   plan gave to tags. Right before each deletion, Lakesweep looks for the snapshot or the tag in the table: it does not
   trust a control document for this.

A run that dies on the way needs to store nothing. The marker of a restored object is gone, so the same undo, started
again, does the rest.

A rollback that removes the ids above would make a restored snapshot the newest. So Lakesweep rechecks the branch right
before each document. The window between this recheck and the request remains, as with every deletion.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from lakesweep.control.lease import Lease
from lakesweep.control.ledger import Ledger
from lakesweep.errors import (
    MaintenanceError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RefusedError,
    StalePlanError,
)
from lakesweep.execute.attempt import Environment, Executed
from lakesweep.execute.batches import BATCH_KEYS, DOCUMENT_PHASE, outcome_of
from lakesweep.execute.recheck import hint_lags
from lakesweep.format.names import changelog_id_of, snapshot_id_of
from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.model.plan import Action, Delete, Plan, Restore, to_bytes
from lakesweep.model.roots import BranchListing, base_name, branch_dir
from lakesweep.model.safety import SETTLE_MS
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store, UndeleteRequest, UndeleteResult
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import MAX_DOCUMENT_BYTES
from lakesweep.table.stores import TableStores

_POLL_MS = 500
_OTHER = "marker_not_current"
"""Code of an object that somebody has written since."""


@dataclass(frozen=True, slots=True)
class Following:
    """An action that follows when all objects are restored, and only if the table itself shows that they are."""

    action: Action
    needs: Mapping[str, str | None]
    """Path -> content of each document that must exist right before the action; `None`: the content is not known."""


@dataclass(frozen=True, slots=True)
class Undo:
    """All actions that undo a plan, in order."""

    undone: Plan
    """The plan to undo."""
    restores: tuple[Restore, ...]
    """Files, then documents from the highest id down, then hints."""
    after: tuple[Following, ...]
    """Actions that follow: `EARLIEST`, and deletions of changelog documents that are no longer needed."""
    written_again: frozenset[str] = frozenset()
    """Documents without a delete marker: undo writes them again from the plan."""
    warnings: tuple[str, ...] = ()


def restore(env: Environment, undo: Undo, run_id: str, lease: Lease) -> Executed:
    """Carry out an undo under the table's lease.

    Raises:
        LeaseLostError: Another run took the lease; this one stopped.
        RefusedError: The table changed before any object was restored.
        StorageError: A request failed before any object was restored.
    """
    return _Restoring(env, undo, run_id, lease).run()


class _Restoring:
    def __init__(self, env: Environment, undo: Undo, run_id: str, lease: Lease) -> None:
        self._env = env
        self._undo = undo
        self._lease = lease
        self._ledger = Ledger(env.area, run_id, undo.undone.header.plan_id)
        self._outcome = Outcome()

    def run(self) -> Executed:
        try:
            self._carry_out()
            self._ledger.flush()
        except MaintenanceError as error:
            with suppress(MaintenanceError):
                self._ledger.flush()
            if not self._outcome.restored:
                raise
            return Executed("interrupted", self._outcome, str(error), error.code)
        return Executed("partial" if self._outcome.failed else "done", self._outcome)

    def _carry_out(self) -> None:
        documents = [each for each in self._undo.restores if each.phase == DOCUMENT_PHASE]
        hints = [each for each in self._undo.restores if each.kind == "hint"]
        hints += [each for each in self._undo.restores if each.kind == "tag_success"]
        tags = [each for each in self._undo.restores if each.kind == "tag"]
        heads = {each.path for each in (*documents, *hints, *tags)}
        files = [each for each in self._undo.restores if each.path not in heads]
        for start in range(0, len(files), BATCH_KEYS):
            self._lease.check()
            self._restore(files[start : start + BATCH_KEYS])
        if self._outcome.failed:
            return  # a document that returned now could lack a file
        for document in documents:
            self._lease.check()
            settled_observation(self._env.stores.table, self._undo.undone, self._env.sleep, self._undo.written_again)
            self._restore([document])
            if self._outcome.failed:
                return  # a document below it would leave a hole
        for start in range(0, len(tags), BATCH_KEYS):
            self._lease.check()
            self._restore(tags[start : start + BATCH_KEYS])
            if self._outcome.failed:
                return  # the tag's other name may be the only one left
        self._lease.check()
        if hints:
            self._restore(hints)
        for each in self._undo.after:
            self._lease.check()
            self._check_needs(each)
            self._follow(each.action)

    def _restore(self, restores: Sequence[Restore]) -> None:
        results: dict[str, UndeleteResult] = {}
        try:
            undelete(self._env.stores, restores, results)
        finally:
            done = [each for each in restores if each.path in results]
            codes = {path: result.code for path, result in results.items()}
            failed = [FailedDelete(each.path, codes[each.path]) for each in done if not results[each.path].ok]
            self._outcome += Outcome(restored=sum(code == "restored" for code in codes.values()), failed=tuple(failed))
            self._ledger.record_undeleted(done, codes)
        self._env.progress("objects restored", self._outcome.restored, len(self._undo.restores))

    def _check_needs(self, following: Following) -> None:
        """Recheck the documents that justify an action: a rollback may have removed them meanwhile.

        Raises:
            StalePlanError: A document is gone or different.
        """
        for path, body in following.needs.items():
            if not is_document(self._env.stores.table, path, body):
                raise StalePlanError(
                    f"table {self._undo.undone.header.table}: {path} is gone or different; expected the restored "
                    f"document, so {following.action.path} is kept as it is"
                )

    def _follow(self, action: Action) -> None:
        store, key = self._env.stores.resolve_to_change(action.kind, action.path)
        if not isinstance(action, Delete):
            store.put(key, to_bytes(action.body))
            return
        self._ledger.intend([action])
        results: dict[str, DeleteResult] = {}
        try:
            results[action.path] = store.delete([DeleteRequest(key, action.etag)])[0]
        finally:
            answered = [action] if results else []
            self._outcome += outcome_of(answered, results, 0)
            self._ledger.record(answered, results, ())


def undelete(
    stores: TableStores,
    restores: Sequence[Restore],
    results: dict[str, UndeleteResult],
    *,
    only_check: bool = False,
    any_marker: bool = False,
) -> None:
    """Ask each store to restore up to 1 000 objects, and put the answers into `results` by path.

    Args:
        stores: Of the table.
        restores: The objects to restore.
        results: Receives path -> the store's answer.
        only_check: Change nothing.
        any_marker: With `only_check`: ask about the marker that hides the object now, whichever it is.

    Raises:
        RefusedError: An object lies outside the table, where the operator allows no change.
        StorageError: A request failed.
    """
    by_store: dict[str, tuple[Store, list[tuple[Restore, str]]]] = {}
    for each in restores:
        store, key = stores.resolve_to_change(each.kind, each.path)
        if each.body is not None:
            results[each.path] = _write_again(store, key, each, only_check=only_check)
            continue
        by_store.setdefault(store.location, (store, []))[1].append((each, key))
    for store, entries in by_store.values():
        requests = [UndeleteRequest(key, None if any_marker else each.version_id) for each, key in entries]
        answers = store.undelete(requests, only_check=only_check)
        results |= {each.path: answer for (each, _), answer in zip(entries, answers, strict=True)}


def _write_again(store: Store, key: str, restore: Restore, *, only_check: bool) -> UndeleteResult:
    """Write a document again from the plan's copy, if none is there."""
    body = to_bytes(restore.body or "")
    try:
        is_same = store.read(key).data == body
    except ObjectNotFoundError:
        if only_check:
            return UndeleteResult(key, "restorable", restore.etag)
    else:
        return UndeleteResult(key, "already_there", restore.etag) if is_same else UndeleteResult(key, _OTHER)
    try:
        return UndeleteResult(key, "restored", store.put(key, body, if_absent=True))
    except PreconditionFailedError:
        return UndeleteResult(key, _OTHER)


def is_document(store: Store, path: str, body: str | None) -> bool:
    """Tell whether a document exists, with this content if the content is known."""
    try:
        found = store.read(path, MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return False
    return body is None or found.data == to_bytes(body)


def settled_observation(
    store: Store, undone: Plan, sleep: Callable[[float], None], written_again: frozenset[str] = frozenset()
) -> BranchListing:
    """Return the present branch, if its history is still the history that the plan shortened.

    Args:
        store: The table's store.
        undone: The plan to undo.
        sleep: Waits so many seconds.
        written_again: Documents that have no delete marker, so that an undo writes them: their ETags may differ.

    Raises:
        RefusedError: The history has changed: `id_reused`, `later_run` or `rolled_back`.
        StalePlanError: A rollback seems to be under way.
    """
    for _ in range(10 * SETTLE_MS // _POLL_MS):
        own = _observation(store, undone, written_again)
        if not own.snapshots or not hint_lags(store, own):
            return own
        sleep(_POLL_MS / 1000)
    raise StalePlanError(f"table {undone.header.table}: LATEST keeps changing and never names the newest snapshot")


def _observation(store: Store, undone: Plan, written_again: frozenset[str]) -> BranchListing:
    header, folder = undone.header, branch_dir(undone.header.branch)
    entries = chain(store.list(f"{folder}snapshot/"), store.list(f"{folder}changelog/"))
    own = sort_listing(store.location, entries).branches.get(header.branch) or BranchListing(header.branch)
    documents = {delete.path: delete for delete in undone.deletes if delete.phase == DOCUMENT_PHASE}
    present = {ref.path: ref.etag for ref in (*own.snapshots, *own.changelogs)}
    for path, delete in documents.items():
        if path not in present or delete.etag in (None, present[path]):
            continue
        if path not in written_again or not is_document(store, path, delete.body):
            raise _refusal(undone, "id_reused", f"{path} is another document than the one that was deleted")
    if not documents:
        return own
    last = max(id_of(path) for path in documents)
    newest = max((ref.id for ref in own.snapshots if ref.path not in documents), default=0)
    if newest <= last:
        raise _refusal(
            undone, "rolled_back", f"snapshot {newest} is the newest that was kept; expected one above {last}, as then"
        )
    _check_successor(undone, last, present, of_snapshots=any(each.kind == "snapshot" for each in documents.values()))
    return own


def _check_successor(undone: Plan, last: int, present: dict[str, str], *, of_snapshots: bool) -> None:
    """Make sure that the first kept id still exists, so that no hole lies between it and the restored ids.

    A kept snapshot may have become a changelog since. For the changelogs before it that is as good.
    """
    header, folder = undone.header, re.escape(branch_dir(undone.header.branch))
    kinds = "snapshot" if of_snapshots else "snapshot|changelog"
    pattern = re.compile(rf"{folder}({kinds})/\1-[0-9]+")
    stayed = {id_of(path): path for path in header.roots_seen if pattern.fullmatch(path) and id_of(path) > last}
    if not stayed:
        return
    first = min(stayed)
    path = stayed[first]
    if path in present:
        if present[path] != header.roots_seen[path]:
            raise _refusal(undone, "id_reused", f"{path} is another document than the one that was kept then")
        return
    other = f"{branch_dir(header.branch)}changelog/changelog-{first}"
    if of_snapshots or other not in present:
        raise _refusal(
            undone,
            "later_run",
            f"{path}, the first that was kept then, no longer exists; undo the run that removed it first",
        )


def id_of(path: str) -> int:
    """Return the id in the path of a snapshot or changelog document."""
    name = base_name(path)
    found = snapshot_id_of(name)
    found = changelog_id_of(name) if found is None else found
    return -1 if found is None else found


def _refusal(undone: Plan, code: str, what: str) -> RefusedError:
    header = undone.header
    return RefusedError(
        f"table {header.table}, branch {header.branch}: plan {header.plan_id} cannot be undone: {what}", code=code
    )
