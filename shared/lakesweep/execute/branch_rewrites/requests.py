"""The requests of a branch rewrite. Each has the condition that the document is unchanged since the last recheck."""

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
from lakesweep.execute.branch_rewrites.observation import BranchObservation
from lakesweep.execute.branch_rewrites.progress import LOOSE_KINDS, Documents, bytes_of
from lakesweep.execute.deletions.deleting import BY_INTENT
from lakesweep.execute.recheck import stale
from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import Action, Delete, Put
from lakesweep.storage.guard import LateDeleteError
from lakesweep.storage.store import DeleteRequest, DeleteResult


class RootRequests:
    """Carries out one action after another, and sums up the outcome."""

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
        """Deletions since the last recheck."""
        self.untold: frozenset[str] = frozenset()
        """Paths that an earlier run may have deleted: if such an object turns out to be gone, that run deleted it."""

    def see(self, observation: BranchObservation) -> None:
        """Use what a recheck found as the condition of the next requests."""
        self._etags = dict(observation.progress.etags)
        if not self._has_seen:  # later rechecks do not tell who has written LATEST since, nor why
            latest = observation.own.hints.get("snapshot/LATEST")
            self._latest = None if latest is None else latest.etag
            self._has_seen = True
        self.unseen = 0

    def delete(self, action: Delete) -> None:
        """Delete a document.

        Raises:
            StalePlanError: It is a different document by now.
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

        LATEST is overwritten only if it is what the first recheck saw or this run wrote. A later commit has written
        LATEST and may lie far above the plan's value. If the plan overwrote it, the next commit would not see that
        commit and would build on another snapshot. A rollback by Paimon also begins by writing LATEST.

        Raises:
            StalePlanError: Somebody else has written or deleted the document there.
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
    """Tell whether an action is on LATEST, the hint that writers follow."""
    return action.kind == "hint" and action.path.endswith("snapshot/LATEST")
