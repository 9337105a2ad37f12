"""Publish a prepared snapshot under the lease, so that it never replaces another one.

The order of the steps is the safety argument:

1. List the branch: the newest snapshot and schema must be those of the base. Read the base again: it must have the same
   ETag and bytes. So no commit, schema change or rollback came in between, up to the moment of the reads.
2. Create the snapshot only if none of its id exists. So of several writers that use the condition, one wins.
3. If the put fails for any reason, look. Only the bytes at this place say what happened. The same put is sent again
   while nothing is there. Nothing is prepared anew while an earlier put may still take effect.
4. List again: the snapshot must be there with the ETag that the put answered, and the base must still be there. If the
   listing shows anything else, the bytes at this place decide. Then the hint.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from lakesweep.commit.base import Base, list_branch
from lakesweep.commit.environment import CommitEnvironment
from lakesweep.commit.files import is_unsupported, refusal
from lakesweep.commit.hint import write_hint
from lakesweep.commit.retries import Retries
from lakesweep.control.lease import Lease
from lakesweep.errors import (
    AccessDeniedError,
    LeaseLostError,
    MaintenanceError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StorageError,
)
from lakesweep.model.roots import BranchListing, RootRef, branch_dir
from lakesweep.storage.aws_client import was_repeated
from lakesweep.storage.guard import GuardedStore
from lakesweep.storage.store import Body, DeleteRequest, Store
from lakesweep.table.documents import MAX_DOCUMENT_BYTES

_PUTS = 6
"""How often one put is sent; each time the store itself makes several attempts."""
_LOOKS = 4
"""How often the snapshot is read, or the branch listed, until that succeeds."""
_PAUSES = Retries(0, 10, 5_000, None)
"""How long to wait before a request is sent again. The table's options are about other writers, and may outlast the
lease."""

T = TypeVar("T")
Seen = Literal["ours", "other", "absent"]


@dataclass(frozen=True, slots=True)
class Published:
    """What became of a prepared snapshot."""

    state: Literal["ours", "not_newest", "lost", "replaced", "failed", "unknown", "base_vanished"]
    """`ours`: it exists. `not_newest`: the table has changed, nothing was written. `lost`: another writer created a
    snapshot of this id first. `replaced`: it was written, and another writer wrote over it. `failed`: it does not
    exist, but a request that had no answer may still take effect. `unknown`: nothing tells whether it exists.
    `base_vanished`: it was written, and the base is gone."""
    message: str = ""
    code: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def is_written(self) -> bool:
        """The snapshot was created, so the next commit looks for it."""
        return self.state in ("ours", "replaced")


@dataclass(slots=True)
class Publishing:
    """One prepared snapshot on its way into the table."""

    env: CommitEnvironment
    lease: Lease
    base: Base
    id: int
    body: bytes
    """The snapshot document."""
    may_exist: bool = False
    """A put was sent, and nothing shows that it had no effect."""
    was_sent: bool = False
    """A put was sent, whatever became of it."""
    etag: str | None = None
    """What the put answered, or a later look; `None`: nothing shows yet that it succeeded."""
    _warnings: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Return the path of the snapshot."""
        return f"{branch_dir(self.env.branch)}snapshot/snapshot-{self.id}"

    @property
    def _where(self) -> str:
        return f"{self.env.table.location}/{self.path}"

    @property
    def _store(self) -> Store:
        """Return the table's store; it sends no attempt of any change after the lease has ended."""
        return GuardedStore(self.env.table, self.lease.refuse_late)

    def run(self) -> Published:
        """Publish the snapshot.

        Raises:
            RefusedError: The store knows no conditional put (`no_conditional_put`).
            HeldBackError: The policy pauses the table.
            LeaseLostError: Another run took the lease before anything was sent.
            MaintenanceError: A request failed before the put.
        """
        listing = self._unchanged()
        if listing is None:
            return self._conflict("another writer has changed the branch", "not_newest")
        self.env.check_policy()
        self.lease.check()
        ended = self._put()
        if ended is not None:
            return ended
        listed = self._listed()
        ended = None if self._is_listed(listed) else self._read_back()
        if ended is None and (ended := self._check_base(listed)) is None:
            self._warnings += write_hint(self._store, self.env.branch, listing, self.id)
        return ended or Published("ours", warnings=tuple(self._warnings))

    def _unchanged(self) -> BranchListing | None:
        """Return the listing of the branch if the base is still the newest snapshot, with the newest schema."""
        listing = list_branch(self.env.table, self.env.branch)
        ref = self.base.root.ref
        if listing.snapshots[-1:] != (ref,) or listing.schemas[-1:] != (self.base.schema_ref,):
            return None
        try:
            found = self.env.table.read(ref.path, max_bytes=MAX_DOCUMENT_BYTES)
        except ObjectNotFoundError:
            return None
        return listing if found == Body(self.base.root.body, ref.etag) else None

    def _put(self) -> Published | None:
        """Create the snapshot; `None`: it exists, and it is ours."""
        failure = self._send()
        for sent in range(1, _PUTS + 1):
            if failure is None:
                return None
            try:
                seen = self._look()
                if seen == "ours":
                    return None
                if seen == "other":
                    self.may_exist = False
                    return self._conflict("another writer created it first", "lost")
                self._refuse(failure)
                if isinstance(failure, LeaseLostError) or sent == _PUTS:
                    break
                self.env.wait(_PAUSES.wait_s(sent))
                if self._repeated(self._unchanged) is None and self._look() == "absent":
                    break
                self.lease.check()
            except MaintenanceError as error:
                if not self.may_exist:
                    raise
                return self._in_doubt(failure, error)
            failure = self._send()
        if not self.may_exist:
            return self._conflict(f"it could not be created, and other writers were at work: {failure}", "not_newest")
        return Published(
            "failed",
            f"{self._where}: expected the store to create it, found nothing there; a request without an answer may "
            f"still create it, which the next commit will notice: {failure}",
            "commit_failed",
        )

    def _send(self) -> MaintenanceError | None:
        """Send the put once, and return why it failed."""
        was_in_doubt, self.may_exist, self.was_sent = self.may_exist, True, True
        try:
            self.etag = self._store.put(self.path, self.body, if_absent=True)
        except (StorageError, LeaseLostError) as error:
            self.may_exist = was_in_doubt or not _had_no_effect(error)
            return error
        return None

    def _refuse(self, failure: MaintenanceError) -> None:
        """Raise the error of a put that did nothing, and would do nothing if it were sent again."""
        if self.may_exist:
            return
        if isinstance(failure, AccessDeniedError):
            raise failure
        if isinstance(failure, StorageError) and is_unsupported(failure):
            raise refusal(self.env.table, str(failure)) from failure

    def _conflict(self, why: str, state: Literal["lost", "not_newest"]) -> Published:
        return Published(state, f"{self._where}: {why}", "commit_conflict")

    def _in_doubt(self, failure: MaintenanceError, error: MaintenanceError) -> Published:
        return Published(
            "unknown",
            f"{self._where}: nothing tells whether this snapshot exists, which the next commit will notice: {failure}; "
            f"then {error}",
            "commit_unknown",
        )

    def _look(self) -> Seen:
        """Return what is at the place of the snapshot.

        Raises:
            StorageError: Every look failed.
        """
        seen, etag = self._repeated(lambda: found_at(self.env.table, self.path, self.body))
        if seen == "ours":
            self.etag = self.etag or etag
        return seen

    def _repeated(self, look: Callable[[], T]) -> T:
        """Look at the table, again and again if that fails.

        Raises:
            StorageError: Every look failed.
            OutOfTimeError: The caller's time is nearly over.
        """
        for number in range(1, _LOOKS):
            with suppress(StorageError):
                return look()
            self.env.wait(_PAUSES.wait_s(number))
        return look()

    def _read_back(self) -> Published | None:
        """Make sure that the snapshot is there; `None`: it is, or nobody knows."""
        try:
            seen = self._look()
        except MaintenanceError as error:
            self._warnings.append(f"{self._where} was created, but could not be read back: {error}")
            return None
        if seen == "other":
            return Published("replaced", f"{self._where}: another writer replaced it", "commit_replaced")
        if seen == "absent":
            self.may_exist = False
            return Published("base_vanished", f"{self._where}: a rollback or expiry removed it", "base_vanished")
        return None

    def _listed(self) -> tuple[RootRef, ...] | None:
        """Return the snapshots of the branch, `None` if each listing failed."""
        try:
            return self._repeated(lambda: list_branch(self.env.table, self.env.branch, ("snapshot",)).snapshots)
        except MaintenanceError as error:
            self._warnings.append(f"{self._where} was created, but its base could not be checked: {error}")
            return None

    def _is_listed(self, snapshots: tuple[RootRef, ...] | None) -> bool:
        """Tell whether a listing shows the snapshot as the put left it, so that it need not be read."""
        return self.etag is not None and any(ref.id == self.id and ref.etag == self.etag for ref in snapshots or ())

    def _check_base(self, snapshots: tuple[RootRef, ...] | None) -> Published | None:
        """Make sure that the snapshot follows its base; `None`: it does, or nobody knows."""
        if snapshots is None:
            return None
        ids = [ref.id for ref in snapshots]
        base = self.base.root.ref
        # Expiry deletes the oldest snapshots first. So a base that expired leaves nothing below it.
        if base in snapshots or not any(each < self.id for each in ids):
            return None
        found = f"{self._where}: its base, snapshot {base.id}, was rolled back at the same moment"
        left = self._withdraw()
        if not left:
            self.may_exist = False
            return Published("base_vanished", f"{found}; so this snapshot was deleted again", "base_vanished")
        return Published(
            "base_vanished",
            f"{found}, and this snapshot could not be deleted again ({left}); look at the table, and roll it back to "
            "the snapshot that you want",
            "snapshot_left",
            (f"snapshot {self.id} has no base, and was left in place: {left}",),
        )

    def _withdraw(self) -> str:
        """Delete the snapshot if it is still ours, and return why it was left, empty if it was not."""
        try:
            body = self.env.table.read(self.path, max_bytes=MAX_DOCUMENT_BYTES)
            if body.data != self.body:
                return ""
            ids = [ref.id for ref in list_branch(self.env.table, self.env.branch, ("snapshot",)).snapshots]
            if max(ids, default=0) > self.id:
                return "others have committed on top"
            if min(ids, default=self.id) >= self.id:
                return "it is the only snapshot by now, since those below it have expired"
            self.lease.check()
            (answer,) = self._store.delete([DeleteRequest(self.path, body.etag)])
        except ObjectNotFoundError:
            return ""
        except MaintenanceError as error:
            return str(error)
        return "" if answer.ok else answer.code


def _had_no_effect(error: MaintenanceError) -> bool:
    """Tell whether an answer of the store says that the put did nothing, nor any earlier attempt of it."""
    return (
        isinstance(error, StorageError)
        and (isinstance(error, PreconditionFailedError | AccessDeniedError) or is_unsupported(error))
        and not was_repeated(error)
    )


def seen_at(store: Store, path: str, body: bytes) -> Seen:
    """Return what is at the place of a snapshot.

    Raises:
        StorageError: The read failed.
    """
    return found_at(store, path, body)[0]


def found_at(store: Store, path: str, body: bytes) -> tuple[Seen, str | None]:
    """Return what is at the place of a snapshot, with its ETag; see `seen_at`."""
    try:
        found = store.read(path, max_bytes=MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return "absent", None
    except StorageError as error:
        if error.code == "too_large":
            return "other", None
        raise
    return "ours" if found.data == body else "other", found.etag
