"""What every operation gets: a table, the place for our own documents, and the edges' clock."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from lakesweep.control.area import ControlArea, check_apart
from lakesweep.model.allowance import Allowance
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.model.table_ref import TableRef
from lakesweep.operations.orphan_arguments import OrphanArguments
from lakesweep.plan.engine_facts import Available
from lakesweep.storage.remembering import Memory
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store


def _no_progress(done: int, total: int) -> None:
    """Show nothing."""


def _say_nothing(sentence: str) -> None:
    """Say nothing."""


def _no_limit(what: str) -> None:
    """Let it begin."""


class OrphanEngine(Protocol):
    """Another way to find orphan files than by this process alone. What it finds is the same."""

    def plan(self, table: "Table", arguments: OrphanArguments) -> Plan:
        """Plan the removal of a table's orphan files; see `plan_remove_orphan_files`."""

    def finished(self, table: "Table", report: RunReport) -> None:
        """Take note of what the call ended with, once its plan is stored."""


@runtime_checkable
class RemoteEngine(OrphanEngine, Protocol):
    """One that others run. Its plan is stored when it comes back, and its requests are counted there."""

    estimate: Mapping[str, object] | None
    """What was thought there that the last scan would take; see `engine_choice.Estimate.to_json`."""
    happened: Mapping[str, object] | None
    """What it took; see `engine_choice.happened`. `None`: nobody counted."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table to work on. The edges (CLI, functions, jobs) make it.

    Raises:
        RefusedError: The control location lies inside the table.
    """

    ref: TableRef
    store: Store
    area: ControlArea | None
    """Where plans, lease and ledger live; without one nothing is executed."""
    open_store: Callable[[str], Store]
    """Opens the store of a declared external root."""
    counter: RequestCounter = field(default_factory=RequestCounter)
    clock_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    """The caller's own clock: only what a caller writes as "now" is held against it."""
    sleep: Callable[[float], None] = time.sleep
    progress: Callable[[int, int], None] = _no_progress
    memory: Memory = field(default_factory=Memory)
    """What earlier runs, and this one, have read of the table's metadata."""
    check_time: Callable[[str], None] = _no_limit
    """Called with what a batch of deletions is for, before it begins.

    Raises:
        OutOfTimeError: The caller's time is nearly over.
    """
    orphan_engines: Mapping[str, OrphanEngine] = field(default_factory=dict)
    """What `engine` may say beside `local`: `lambda`, `spark`, as far as they are there."""
    available: Available | None = None
    """What `auto` chooses among; without it, it is `local`."""
    say: Callable[[str], None] = _say_nothing
    """Tells people something while a call goes on."""
    notes: dict[str, str] = field(default_factory=dict)
    """What a call read on its way, and its report says."""
    policy: str | None = None
    """Location of the fleet policy that governs unattended maintenance."""
    allowance: Allowance = field(default_factory=Allowance)
    """Where outside the table the operator lets files be deleted; the fleet policy may say more."""
    writes_schemas: bool = True
    """Whoever calls may write and remove schemas, and write over snapshots; see `operations/by_hand.py`."""

    def __post_init__(self) -> None:
        if self.area is not None:
            check_apart(self.area.store.location, self.ref.location)
