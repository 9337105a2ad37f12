"""The requests of a plan that moves a branch: each on condition that nobody has written there since the last look."""

from lakesweep.control.ledger import Ledger
from lakesweep.errors import (
    AccessDeniedError,
    LeaseLostError,
    MaintenanceError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
)
from lakesweep.execute.batches import outcome_of
from lakesweep.execute.earlier import BY_INTENT
from lakesweep.execute.ground import Ground, stale
from lakesweep.execute.standing import LOOSE_KINDS, Documents, bytes_of
from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import Action, Delete, Put
from lakesweep.storage.guard import LateDeleteError
from lakesweep.storage.store import DeleteRequest, DeleteResult


class RootRequests:
    """Carries out one action after another, and counts them."""

    def __init__(self, documents: Documents, ledger: Ledger) -> None:
        self._documents = documents
        self._ledger = ledger
        self._etags: dict[str, str] = {}
        self._has_seen = False
        self._latest: str | None = None
        self.outcome = Outcome()
        """Of the deletions."""
        self.has_acted = False
        """Whether anything was changed, or may have been."""
        self.unseen = 0
        """Deletions since the last look."""
        self.untold: frozenset[str] = frozenset()
        """Paths of what an earlier run may have deleted: what turns out to be gone was its work."""

    def see(self, ground: Ground) -> None:
        """Take what a look found as the condition of what follows."""
        self._etags = dict(ground.standing.etags)
        if not self._has_seen:  # later looks do not tell who has written LATEST since, nor what for
            latest = ground.own.hints.get("snapshot/LATEST")
            self._latest = None if latest is None else latest.etag
            self._has_seen = True
        self.unseen = 0

    def delete(self, action: Delete) -> None:
        """Delete a document.

        Raises:
            StalePlanError: It is another one by now.
            MaintenanceError: It could not be deleted.
            StorageError: The request failed; it may be gone.
        """
        etag = None if action.kind in LOOSE_KINDS else self._etags.get(action.path, action.etag)
        result = self._deleted(DeleteRequest(action.path, etag))
        if result.code == "precondition_failed":
            raise stale(self._documents.plan.header, f"{action.path} is another document by now")
        is_earlier = result.code == "already_gone" and action.path in self.untold
        results = {action.path: DeleteResult(result.key, "deleted") if is_earlier else result}
        self.outcome += outcome_of([action], results, 0)
        self._ledger.record([action], results, (), {action.path: BY_INTENT} if is_earlier else {})
        if not result.ok:
            raise MaintenanceError(
                f"table {self._documents.plan.header.table}: {action.path} could not be deleted ({result.code}); "
                "expected permission to delete it",
                code=result.code,
            )
        self.has_acted = True
        self.unseen += 1

    def write(self, action: Put) -> None:
        """Write a document.

        LATEST is written over what the first look saw, or this run has written: a commit that came since has written
        it, and may lie far above what the plan would have it say. The next commit would not see that one, and be made
        on something else. And an engine that rolls the branch back begins with it.

        Raises:
            StalePlanError: Somebody else has written there, or has taken what was there.
            StorageError: The request failed; it may be written.
        """
        if is_latest(action):
            self._latest = self._written(action, if_absent=self._latest is None, if_match=self._latest)
            return
        is_loose = action.kind in LOOSE_KINDS
        etag = None if is_loose or action.etag is None else self._etags.get(action.path, action.etag)
        self._written(action, if_absent=action.if_absent and not is_loose, if_match=etag)

    def _deleted(self, request: DeleteRequest) -> DeleteResult:
        try:
            return self._documents.store.delete([request])[0]
        except AccessDeniedError:
            raise
        except LateDeleteError as error:
            self.has_acted = self.has_acted or not error.answers
            raise
        except StorageError:
            self.has_acted = True  # it may be gone
            raise

    def _written(self, action: Put, *, if_absent: bool, if_match: str | None) -> str:
        header, store, body = self._documents.plan.header, self._documents.store, bytes_of(action) or b""
        try:
            etag = store.put(action.path, body, if_absent=if_absent, if_match=if_match)
        except PreconditionFailedError as error:
            try:
                there = store.read(action.path)
            except ObjectNotFoundError:
                raise stale(header, f"{action.path} is gone") from error
            if there.data != body:
                raise stale(header, f"{action.path} was written by somebody else") from error
            etag = there.etag
        except AccessDeniedError:
            raise
        except (StorageError, LeaseLostError):
            self.has_acted = True  # it may have been written
            raise
        self.has_acted = True
        self._documents.bodies[action.path, etag] = body
        self._etags[action.path] = etag
        return etag


def is_latest(action: Action) -> bool:
    """Tell whether an action is about the hint that writers go by."""
    return action.kind == "hint" and action.path.endswith("snapshot/LATEST")
