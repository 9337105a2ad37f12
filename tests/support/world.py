"""A table in memory, its control location, one clock, and a switch that breaks requests.

    world = World(options={"snapshot.num-retained.max": "3"})
    world.replace_each(6)
    assert world.run("expire-snapshots", retain_max=1, retain_min=1).status == "done"
    assert world.ids() == [6]

Tests that need a table of their own make a subclass that builds it.
"""

from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from typing import Any, Self, TypeVar

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.operations.undo.undo import undo
from lakesweep.storage.requests import RequestCounter
from tests.support.faulty_store import DyingSwitch, FaultyStore, ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.reader import all_roots, assert_all_readable
from tests.support.table_builder import TableBuilder

START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
T = TypeVar("T")


class World:
    """One table and who maintains it. Every request of a run goes through `switch`, and is counted by `counter`."""

    def __init__(
        self,
        *,
        now_ms: int = START_MS,
        location: str = "memory://bucket/t",
        store: Callable[..., MemoryStore] = MemoryStore,
        branch: str = "main",
        versioned: bool = False,
        **table: Any,
    ) -> None:
        """Begin with an empty table.

        Args:
            now_ms: What the clock says.
            location: Where the table lies.
            store: The kind of its store; called with the location, the counter and the clock.
            branch: What is maintained unless a call names another.
            versioned: Whether its store keeps what was deleted.
            table: As `TableBuilder` takes it.
        """
        self.now_ms = now_ms
        self.branch = branch
        self.switch = Switch()
        self.steps: Iterator[None] = iter(())
        """What others do while a run waits, a step each time."""
        self.counter = RequestCounter()
        kept = {"versioned": True} if versioned else {}
        self.store = store(location, self.counter, self.clock, **kept)
        self.external_roots: tuple[str, ...] = ()
        """What the operator allows outside the table."""
        self.control = self.new_control()
        self.table = TableBuilder(self.store, **table)

    # Time.

    def clock(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        """Let time pass for a run that waits, and others act meanwhile."""
        self.now_ms += int(seconds * 1000)
        next(self.steps, None)

    def wait(self) -> None:
        """Let a lease that somebody left behind run out."""
        self.now_ms += LEASE_MS + DELETE_MARGIN_MS

    # What is written.

    def replace_each(self, count: int = 6, *, changelogs: bool = True) -> None:
        """Commit files of which each replaces the one before: snapshot n holds F<n>. An hour passes after that."""
        for number in range(1, count + 1):
            gone = [f"-F{number - 1}"] if number > 1 else []
            self.table.commit(*gone, f"+F{number}", changelog=[f"+L{number}"] if changelogs else ())
        self.now_ms += HOUR_MS

    def replace(self, after_ms: int = 0, **details: Any) -> int:
        """Let time pass, and commit a file that replaces the one before: snapshot n holds F<n>, and LATEST says so."""
        self.now_ms += after_ms
        number = max(self.table.ids("snapshot"), default=0) + 1
        gone = [f"-F{number - 1}"] if number > 1 else []
        newest = self.table.commit(*gone, f"+F{number}", time_ms=self.now_ms, **details)
        self.table.hint("LATEST", newest)
        return newest

    def forget_what_is_gone(self) -> None:
        """Have the builder forget the roots that are not there any more."""
        for gone in set(self.table.roots()) - set(all_roots(self.store)):
            self.table.remove(gone)

    # What is run.

    def maintainer(self, switch: Switch | None = None, *, branch: str | None = None, **arguments: Any) -> Maintainer:
        """Return a new process that maintains a branch."""
        if switch is None:
            switch = self.switch
        return Maintainer(
            FaultyStore(self.store, switch, "table"),
            branch or self.branch,
            **{
                "control": FaultyStore(self.control, switch, "control"),
                "open_store": opener(*self.table.externals.values()),
                "counter": self.counter,
                "sleep": self.sleep,
                "external_roots": self.external_roots,
                **arguments,
            },
        )

    def run(self, operation: str, *, on: str | None = None, status: str | None = None, **arguments: Any) -> RunReport:
        """Run an operation of the registry on a branch, and see that it ends as is told, if it is."""
        return self.ended(self.maintainer(branch=on).run(operation, **arguments), status)

    def maintain(
        self, switch: Switch | None = None, *, on: str | None = None, execute: bool = True, **arguments: Any
    ) -> RunReport:
        """Make the pass after a commit."""
        target = self.maintainer(switch, branch=on).table
        return self.ended(maintain(target, MaintainArguments(**arguments), execute=execute))

    def expire(self, retain: int = 1, *, on: str | None = None, status: str = "done") -> RunReport:
        """Expire all but the newest snapshots."""
        return self.ended(self.maintainer(branch=on).expire(retain, retain), status)

    def ended(self, report: RunReport, status: str | None = None) -> RunReport:
        """See that a run ended as is told, and look at the table."""
        assert status in (None, report.status), report
        self.after_run()
        return report

    def after_run(self) -> None:
        """Look at the table; subclasses do."""

    def run_id(self, operation: str, **arguments: Any) -> str:
        """Run an operation to a good end, and return the id of the run."""
        report = self.run(operation, status="done", **arguments)
        assert report.run_id is not None
        return report.run_id

    def refusal(self, operation: str, **arguments: Any) -> tuple[str, str]:
        """Run what must be refused before anything changes; return the code and the sentence."""
        before = self.etags()
        try:
            report = self.maintainer().run(operation, **arguments)
            assert report.status == "refused" and report.refusal is not None, report
            code, sentence = report.refusal.code, report.refusal.message
        except MaintenanceError as error:
            code, sentence = error.code, str(error)
        assert self.etags() == before
        return code, sentence

    def spent(self, call: Callable[..., T], *given: Any, **arguments: Any) -> tuple[T, dict[str, int]]:
        """Call, and count the requests that it takes."""
        before = self.counter.snapshot()
        found = call(*given, **arguments)
        return found, {kind: count - before[kind] for kind, count in self.counter.snapshot().items()}

    def undo(self, run_id: str, *, switch: Switch | None = None, execute: bool = True) -> RunReport:
        return undo(self.maintainer(switch).table, run_id, execute=execute)

    def dies_before(self, call: Callable[[str], bool], **arguments: Any) -> None:
        """Expire, and end the process right before the first request that `call` knows; its lease runs out."""
        with pytest.raises(ProcessDeathError):
            self.maintainer(DyingSwitch(call)).expire(**arguments)
        self.wait()

    def new_control(self) -> MemoryStore:
        """Return a control location that knows nothing."""
        return MemoryStore("memory://control", self.counter, self.clock)

    def copy(self) -> Self:
        """Return a world of its own whose stores hold the same; the builder stays with this one."""
        found = copy(self)
        for name in ("store", "control"):
            ours = copy(getattr(self, name))
            ours._clock = found.clock
            ours._objects, ours._versions = deepcopy(ours._objects), deepcopy(ours._versions)
            setattr(found, name, ours)
        return found

    # What is there.

    @property
    def area(self) -> ControlArea:
        return ControlArea(self.control, self.store.location)

    def keys(self, folder: str = "") -> set[str]:
        return {entry.key for entry in self.store.list(folder)}

    def etags(self) -> dict[str, str]:
        return {entry.key: entry.etag for entry in self.store.list("")}

    def bodies(self) -> dict[str, bytes]:
        return {entry.key: self.store.read(entry.key).data for entry in self.store.list("")}

    def ids(self, folder: str = "snapshot") -> list[int]:
        """Return the ids of the documents in a folder."""
        names = (entry.key.rpartition("-")[2] for entry in self.store.list(f"{folder}/"))
        return sorted(int(name) for name in names if name.isdecimal())

    def assert_reads(self) -> None:
        """Fail unless every root that the table ever had and has not lost reads completely."""
        assert_all_readable(self.table)


class ReadWorld(World):
    """A table that is read after each run, whose builder forgets the roots that went."""

    def after_run(self) -> None:
        self.assert_reads()
        self.forget_what_is_gone()
