"""Compensate a branch rewrite: revert its actions in the opposite order.

Each step has a condition. A document returns only where no document is. A document that the plan wrote is deleted only
while it is unchanged. So documents that somebody else has written since are kept.

Somebody may have committed on the half-rewritten history. Lakesweep keeps that commit and the snapshots it builds on.
Snapshots that the plan deleted do not return from the commit's id upwards, since the commit has taken their place.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from lakesweep.errors import ObjectNotFoundError, PreconditionFailedError, StorageError, some_of
from lakesweep.execute.batches import id_of
from lakesweep.execute.branch_rewrites.observation import BranchObservation, observe
from lakesweep.execute.branch_rewrites.progress import UNLISTED_KINDS, Documents, bytes_of, snapshots_seen
from lakesweep.execute.planned_roots import newest_schema, schema_id, schema_of
from lakesweep.format.documents import parse_hint
from lakesweep.model.plan import Action, Delete, Put
from lakesweep.model.roots import BranchListing
from lakesweep.storage.store import DeleteRequest, Store
from lakesweep.table.documents import latest_hint_of

_IDS = frozenset({"snapshot", "changelog_document"})


@dataclass(slots=True)
class Reversal:
    """The result of a compensation."""

    restored: list[Action] = field(default_factory=list)
    """Actions that were reverted, in the order of their reversal."""
    left: list[Action] = field(default_factory=list)
    """Actions that were not reverted: somebody else has built on them, or written in their place."""
    apart: list[str] = field(default_factory=list)
    """Snapshots of others that lack their predecessors: another writer has committed at the ids below."""

    def sentence(self) -> str:
        """Say what was not reverted."""
        apart = (
            f"; {some_of(self.apart)} was committed on a snapshot that is gone. Readers find it once the ids below it "
            "exist again, and then it is the newest. A rollback to a snapshot below removes it"
            if self.apart
            else ""
        )
        if not self.left:
            return f"Lakesweep reverted what the plan had done{apart}"
        deleted = [action.path for action in self.left if isinstance(action, Delete)]
        written = [action.path for action in self.left if isinstance(action, Put)]
        parts = [f"{what}: {some_of(paths)}" for what, paths in (("deleted", deleted), ("written", written)) if paths]
        return (
            "Lakesweep reverted what the plan had done, except where others have built on it. Not reverted: "
            f"{'; '.join(parts)}{apart}"
        )


def reverse(
    documents: Documents,
    check: Callable[[], None] = lambda: None,
    incomplete: Iterable[str] = frozenset(),
    until: int | None = None,
) -> Reversal:
    """Revert the done actions of a plan, and report which were and which were not reverted.

    A second call is harmless: a reverted action no longer counts as done.

    Args:
        documents: Of the plan. The caller holds the table's lease.
        check: Called before each request; raises when the lease is lost.
        incomplete: Paths of snapshots that must not return, since their files are gone.
        until: Number of the last action that may have been carried out, if known. If a later action looks done,
            somebody else did it.

    Raises:
        StorageError: A request failed; the rest is still to be reverted.
    """
    return _Reversing(documents, observe(documents), check, frozenset(incomplete), until).run()


def settle_latest(store: Store, branch: BranchListing) -> None:
    """Make LATEST name an existing snapshot, where somebody else's LATEST names one that is gone.

    Readers believe a hint as long as no snapshot follows the id it names. So a LATEST that others wrote before its
    snapshot was removed would lead readers to nothing.

    Raises:
        StorageError: A request failed.
    """
    ids = {ref.id for ref in branch.snapshots}
    document = branch.hints.get("snapshot/LATEST")
    if not ids or document is None:
        return
    named = latest_hint_of(store, branch)
    if named is not None and named > 0 and named not in ids and named + 1 not in ids:
        with suppress(PreconditionFailedError):  # a later writer of LATEST knows better
            store.put(document.path, str(max(ids)).encode(), if_match=document.etag)


class _Reversing:
    def __init__(
        self,
        documents: Documents,
        observation: BranchObservation,
        check: Callable[[], None],
        incomplete: frozenset[str],
        until: int | None,
    ) -> None:
        self._documents = documents
        self._store: Store = documents.store
        self._plan = documents.plan
        self._observation = observation
        self._check = check
        self._incomplete = incomplete
        self._end = len(documents.plan.actions) if until is None else until + 1
        self._etags = dict(observation.progress.etags)
        self._history = _HalfWay(observation, incomplete)
        has_schemas = any(action.kind == "schema" for action in documents.plan.actions)
        self._schema_of_others = newest_schema(self._store, observation.new_roots()) if has_schemas else -1
        self._schema_of_left = -1
        self._found = Reversal()

    def run(self) -> Reversal:
        progress = self._observation.progress
        kept: list[int] = []
        for number in sorted((progress.done | progress.uncertain).intersection(range(self._end)), reverse=True):
            action = self._plan.actions[number]
            self._check()
            done = self._return(action) if isinstance(action, Delete) else self._withdraw(action, number)
            if done:
                self._found.restored.append(action)
            elif action.kind != "hint":
                self._found.left.append(action)
                if isinstance(action, Put) and action.kind == "snapshot":
                    kept.append(number)
        for number in kept:  # a snapshot that was the branch's last one in the loop above may no longer be the last
            action = self._plan.actions[number]
            if isinstance(action, Put) and action.path in self._etags and self._withdraw(action, number):
                self._found.left.remove(action)
                self._found.restored.append(action)
        observation = observe(self._documents)
        settle_latest(self._store, observation.own)
        ids = {ref.id for ref in observation.own.snapshots}
        new_roots = [ref for ref in observation.new_roots() if ref.kind == "snapshot"]
        self._found.apart += [ref.path for ref in new_roots if ref.id - 1 not in ids and ref.id > min(ids)]
        return self._found

    def _return(self, action: Delete) -> bool:
        """Put a document back; tell whether it exists again."""
        body = bytes_of(action)
        if body is None or not self._history.may_return(action):
            return False
        if not self._put(action.path, body, None):
            return False
        if action.kind == "snapshot":
            self._history.add(id_of(action.path))
        return True

    def _withdraw(self, action: Put, number: int) -> bool:
        """Restore the state before an action that wrote a document; tell whether it is restored."""
        path = action.path
        before = None if path in self._incomplete else self._documents.before(number)
        etag = self._etags.get(path)
        if action.kind == "schema" and self._needs(schema_id(path), is_new=before is None):
            return False
        if action.kind == "snapshot" and self._history.is_built_on(id_of(path)):
            self._schema_of_left = max(self._schema_of_left, schema_of(path, bytes_of(action) or b""))
            return False
        if path in self._observation.progress.foreign:
            return False
        if action.kind == "hint" and before is not None and path.endswith("snapshot/LATEST"):
            before = self._history.latest(before)
        if before is not None:
            return (etag is not None or self._history.may_return(action)) and self._put(path, before, etag)
        if action.kind == "snapshot" and self._history.is_last(id_of(path)):
            return False
        if etag is None and action.kind in UNLISTED_KINDS:
            etag = self._etag_of(action)
        if etag is None:
            return True  # the document does not exist
        result = self._store.delete([DeleteRequest(path, etag)])[0]
        if not result.ok and result.code != "precondition_failed":
            raise StorageError(f"{path} could not be deleted ({result.code})", code=result.code)
        self._etags.pop(path, None)
        if result.ok and action.kind == "snapshot":
            self._history.remove(id_of(path))
        return result.ok

    def _etag_of(self, action: Put) -> str | None:
        """Return the ETag of a document that the plan wrote, `None` when it does not exist."""
        try:
            found = self._store.read(action.path)
        except ObjectNotFoundError:
            return None
        return found.etag if found.data == bytes_of(action) else None

    def _needs(self, number: int, *, is_new: bool) -> bool:
        """Tell whether a schema that the plan wrote must be kept.

        If the schema is new, a commit under its id was made under it. If the plan replaced a schema of the same id, the
        commit was made under the former schema. Writers use the schema that existed when they began.
        """
        return number <= max(self._schema_of_left, self._schema_of_others if is_new else -1)

    def _put(self, path: str, body: bytes, etag: str | None) -> bool:
        try:
            found = self._store.put(path, body, if_absent=etag is None, if_match=etag)
        except PreconditionFailedError:
            try:
                there = self._store.read(path)
            except ObjectNotFoundError:
                return False
            if there.data != body:
                return False
            found = there.etag
        self._documents.bodies[path, found] = body
        self._etags[path] = found
        return True


class _HalfWay:
    """The snapshots of the branch: which may return, and which must be kept. Updated with every step."""

    def __init__(self, observation: BranchObservation, incomplete: frozenset[str]) -> None:
        """Begin with what a recheck found.

        Args:
            observation: What the recheck found.
            incomplete: Paths of roots that must not return, since their files are gone.
        """
        self._incomplete = incomplete
        self._lacks_snapshots = any("snapshot/snapshot-" in path for path in incomplete)
        self._seen = snapshots_seen(observation.plan)
        self._there = {ref.id for ref in observation.own.snapshots}
        self._foreign = observation.foreign_ids()
        self._written = _written(observation)

    def add(self, snapshot_id: int) -> None:
        """Note that a snapshot exists again."""
        self._there.add(snapshot_id)

    def remove(self, snapshot_id: int) -> None:
        """Note that a snapshot is gone."""
        self._there.discard(snapshot_id)

    def may_return(self, action: Action) -> bool:
        """Tell whether a document that is gone may return."""
        if action.path in self._incomplete:
            return False
        if action.kind not in _IDS:
            return True
        snapshot_id = id_of(action.path)
        if self._foreign and snapshot_id >= self._foreign[0]:
            return False
        if action.kind != "snapshot" or not self._there or self._lacks_snapshots:
            return True
        # The snapshot below is missing: others have removed it, most likely by a rollback further down. It would leave
        # a hole.
        before = f"{action.path.rpartition('-')[0]}-{snapshot_id - 1}"
        return before not in self._seen or snapshot_id - 1 in self._there

    def is_built_on(self, snapshot_id: int) -> bool:
        """Tell whether a commit of somebody else builds on a snapshot that the plan wrote.

        All ids between the two must be new: a snapshot from before the plan breaks the chain.
        """
        new = {*self._foreign, *self._written}
        return any(foreign > snapshot_id and new.issuperset(range(snapshot_id, foreign)) for foreign in self._foreign)

    def is_last(self, snapshot_id: int) -> bool:
        """Tell whether deleting this snapshot would empty a branch whose former snapshots an expiry has deleted."""
        return self._there == {snapshot_id} and bool(self._seen)

    def latest(self, before: bytes) -> bytes:
        """Return what LATEST must say.

        This is its old value, unless that snapshot did not return or others committed on top of it. A writer that had
        written this value before the plan overwrote it does not write it again.
        """
        named = parse_hint(before)
        if named is None or not self._there:
            return before
        newest = named if named in self._there else max(self._there)
        while newest + 1 in self._there:
            newest += 1
        return before if newest == named else str(newest).encode()


def _written(observation: BranchObservation) -> frozenset[int]:
    """Return the ids of existing snapshots that the plan wrote."""
    return frozenset(
        id_of(action.path)
        for number, action in enumerate(observation.plan.actions)
        if number in observation.progress.done
        and isinstance(action, Put)
        and action.kind == "snapshot"
        and action.path in observation.progress.etags
    )
