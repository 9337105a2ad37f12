"""What a commit works with, what its caller prepares, and how it ends."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from lakesweep.commit.base import Base
from lakesweep.control.area import ControlArea
from lakesweep.control.lease import LeaseDocument
from lakesweep.format.manifest_writer import WrittenManifest
from lakesweep.format.snapshot import Snapshot
from lakesweep.model.commits.seen import SeenSnapshot
from lakesweep.storage.clock import Stopwatch, wall_ms
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.remembering import RememberingStore

IDENTIFIER = (1 << 63) - 1
"""The commit identifier of batch commits. Source: Paimon `BatchWriteBuilder.COMMIT_IDENTIFIER`."""
_STEP_S = 5.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to commit: what its snapshot has to contain."""

    base: Base
    number: int
    """From 1."""
    commit_user: str
    """A user that no other commit has."""
    uuid: str
    now_ms: int
    """The commit time: the table's clock, but never before the base."""
    write: Callable[[str, bytes], None]
    """Writes a new manifest below `manifest/` at once: its name and its body. So a preparation of many manifests need
    not keep them. They exist when the lists are written."""
    may_reuse: bool
    """All files that earlier attempts of this commit wrote exist, and no snapshot that names them was ever sent. So no
    rollback can have deleted them, and this attempt may name them."""

    def written(self, manifests: Iterable[WrittenManifest]) -> Iterator[WrittenManifest]:
        """Write each manifest at once, and yield it without its body: the bodies of many need no memory."""
        for each in manifests:
            self.write(each.meta.file_name, each.body)
            yield each._replace(body=b"")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A snapshot, and the new files that it names."""

    snapshot: Snapshot
    properties: Mapping[str, str] | None
    files: Mapping[str, bytes]
    """File name below `manifest/` -> body: the lists, and what was not written at once."""
    since: Stopwatch | None = None
    """Counts from before the first file of an earlier attempt that this snapshot names."""
    compares_marks: bool = False
    """See `CommitRecord.marks`."""


Prepare = Callable[[Attempt], Prepared | None]
"""Makes the snapshot of an attempt, without writing anything but new manifests and index files. `None`: there is
nothing left to do."""

Status = Literal["committed", "nothing_to_do", "gave_up", "base_vanished", "replaced", "unknown"]


@dataclass(frozen=True, slots=True)
class Committed:
    """How a commit ended."""

    status: Status
    """`committed`: the snapshot exists. `nothing_to_do`: no snapshot was needed. `gave_up`: others always committed
    first. `base_vanished`: a rollback removed what the snapshot was built on. `replaced`: another writer replaced the
    snapshot, each time. `unknown`: the store did not say whether the snapshot exists. Each of the last four has a
    `code`."""
    snapshot_id: int | None = None
    uuid: str | None = None
    attempts: int = 0
    replaced: int = 0
    """How often another writer replaced a snapshot of Lakesweep: in this commit, or the last commit before it."""
    warnings: tuple[str, ...] = ()
    message: str = ""
    """Why the status is not `committed`."""
    code: str = ""
    """The code word for the message."""
    made: SeenSnapshot | None = None
    """The snapshot as it was published, if the store answered that."""
    told: tuple[tuple[int, int], ...] = ()
    """Ids and numbers of the replaced snapshots; see `model.commits.seen`."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the state of the last pass says of the branch's former snapshots."""

    judged: frozenset[tuple[int, int]] = frozenset()
    """Ids and numbers of snapshots that were told as lost, or that something else happened to."""
    rewritten_ms: int = 0
    """When Lakesweep last rolled the branch back, or fast-forwarded it."""


@dataclass(frozen=True, slots=True)
class CommitEnvironment:
    """The stores, limits and callbacks that a commit works with."""

    store: Store
    """The table's."""
    area: ControlArea
    branch: str
    run_id: str
    batch: int
    """Number of this commit within the run."""
    options: Mapping[str, str]
    """The table's options; `commit.*` limits the retries."""
    has_lock: bool
    """All other writers use a lock, or create snapshots conditionally. So none of them replaces a snapshot."""
    sleep: Callable[[float], None]
    check_time: Callable[[str], None] = lambda what: None
    """Raises OutOfTimeError when the caller's time is nearly over."""
    check_policy: Callable[[], None] = lambda: None
    """Called under the lease, before the snapshot is written; raises HeldBackError when the table is paused."""
    first: Base | None = None
    """What the first attempt builds on, if the caller has just read it."""
    lease: LeaseDocument | None = None
    """The lease, if the caller has just read it."""
    clock_ms: Callable[[], int] = wall_ms
    """The caller's own clock."""
    known: Callable[[], Known] = Known
    """Reads the state of the last pass. Called only if another snapshot is in the place of the last commit."""

    @property
    def what(self) -> str:
        """Return what is at work, for messages."""
        return f"a commit to table {self.store.location}, branch {self.branch}"

    @property
    def table(self) -> Store:
        """Return the table's store without a cache: what a commit reads must be what is there now."""
        store = self.store
        while isinstance(store, RememberingStore):
            store = store.wrapped
        return store

    def commit_user(self, number: int) -> str:
        """Return the commit user of an attempt.

        No two attempts share one, since Paimon takes a snapshot of the same user, identifier and kind for the same
        commit.
        """
        return f"lakesweep-{self.run_id}-{self.batch}" + (f"-{number}" if number > 1 else "")

    def wait(self, seconds: float) -> None:
        """Sleep in steps, so that the end of the caller's time is noticed.

        Raises:
            OutOfTimeError: The caller's time is nearly over.
        """
        while seconds > 0:
            self.check_time(self.what)
            self.sleep(min(seconds, _STEP_S))
            seconds -= _STEP_S
