"""What every operation receives: a table, the control location, and the clock of the caller."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lakesweep.control.area import ControlArea, check_apart
from lakesweep.model.paths.stays import Allowance
from lakesweep.model.progress import Progress, no_progress
from lakesweep.model.roots import TableRef
from lakesweep.storage.clock import wall_ms
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.remembering import MetadataCache

if TYPE_CHECKING:  # triage of a commit needs a table, and none of these
    from lakesweep.model.plan import Plan
    from lakesweep.model.report import RunReport
    from lakesweep.model.scans import Available, OrphanArguments


COMMITS_ELSEWHERE = "this process may not commit, so another one has to"
"""Words of the warning about commits that a pass planned and left to another process."""

NOT_EXECUTABLE = "this cannot be executed"
"""The first words of the warning of a planned commit that would be refused."""


def say_nothing(sentence: str) -> None:
    """Say nothing."""


def _no_limit(what: str) -> None:
    """Let it begin."""


class ScanBackend(Protocol):
    """A way to find orphan files with more than this process. Every backend finds the same files."""

    def plan(self, table: "Table", arguments: "OrphanArguments") -> "Plan":
        """Plan the removal of a table's orphan files; see `plan_remove_orphan_files`."""

    def finished(self, table: "Table", report: "RunReport") -> None:
        """Record the result of the call, once its plan is stored."""


@runtime_checkable
class RemoteBackend(ScanBackend, Protocol):
    """A backend that runs elsewhere. It has already stored the plan that it returns, and counted its own requests."""

    estimate: Mapping[str, object] | None
    """The remote side's estimate for the last scan; see `backend_choice.Estimate.to_json`."""
    happened: Mapping[str, object] | None
    """The actual cost of the last scan; see `backend_choice.happened`. `None`: not counted."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table to work on. The edges (CLI, functions, jobs) make it.

    Raises:
        RefusedError: The control location lies inside the table.
    """

    ref: TableRef
    store: Store
    area: ControlArea | None
    """Holds plans, lease and ledger; without it nothing is executed."""
    open_store: Callable[[str], Store]
    """Opens the store of a declared external root."""
    counter: RequestCounter = field(default_factory=RequestCounter)
    clock_ms: Callable[[], int] = wall_ms
    """The caller's own clock. Only times that a caller gives as "now", and times of passes, are compared with it."""
    sleep: Callable[[float], None] = time.sleep
    progress: Progress = no_progress
    memory: MetadataCache = field(default_factory=MetadataCache)
    """What earlier runs and this run have read of the table's metadata."""
    check_time: Callable[[str], None] = _no_limit
    """Called before a batch of deletions begins, with a description of the batch.

    Raises:
        OutOfTimeError: The caller's time is nearly over.
    """
    scan_backends: Mapping[str, ScanBackend] = field(default_factory=dict)
    """The values of `engine` beside `local`: `lambda` and `spark`, if available."""
    available: "Available | None" = None
    """The backends that `auto` chooses from. Without this field, `auto` means `local`."""
    rows_engine: Any = None
    """A `RowsEngine`: what searches data files for rows to delete; `None`: this process."""
    compaction_engine: Any = None
    """A `RewritingEngine`: what rewrites data files; `None`: this process."""
    say: Callable[[str], None] = say_nothing
    """Tells people about progress during a call."""
    notes: dict[str, str] = field(default_factory=dict)
    """Facts that a call read on its way, for its report."""
    policy: str | None = None
    """Location of the fleet policy that governs unattended maintenance."""
    allowance: Allowance = field(default_factory=Allowance)
    """Where outside the table the operator allows deletions; the fleet policy may narrow or widen this."""
    writes_schemas: bool = True
    """The caller may write and delete schemas, and overwrite snapshots; see `runs/manual.py`."""
    may_commit: bool = True
    """The caller may write snapshots. If false, a pass plans the commits of a table, and says `COMMITS_ELSEWHERE`."""
    may_delete: bool = True
    """The caller may delete objects. If false, a commit waits for another run to finish what a dead run has begun."""
    most_entries: int | None = None
    """This process has no time to rewrite manifests with more entries together; `None`: it has."""
    run_id: str | None = None
    """Id of a run that commits, if its request has one; the run commits nothing if a run of this id may have."""
    usd_per_second: float | None = 0.0
    """What a second of this process costs, for receipts; `None`: unknown."""

    def __post_init__(self) -> None:
        if self.area is not None:
            check_apart(self.area.store.location, self.ref.location)
