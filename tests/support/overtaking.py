"""A partitioned table on S3, calls of one run on it in order, and another writer that commits just before it does.

table = PartitionedTable(moto_settings(), fresh_bucket(), commits=10)
run = table.run("drop-partition", partition=["dt=2024-01-01"])
run.report, run.requests, run.calls, run.to_visible
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lakesweep.control.area import ControlArea
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.registry import run_operation
from lakesweep.runs.session import Table
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.table_builder import TableBuilder

DAYS = tuple(f"2024-01-{day:02}" for day in range(1, 6))
CATALOG = {"catalog_type": "filesystem", "catalog_lock": True}
When = Literal["prepared", "before", "after", "waiting"]
_SNAPSHOT = "table put snapshot/snapshot-"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an operation."""

    report: RunReport
    requests: Mapping[str, int]
    """Kind -> number; kinds that did not occur are left out."""
    calls: tuple[str, ...]
    """Such as `table put snapshot/snapshot-11`, in order."""
    again: Mapping[str, int]
    """As `requests`, of what came after the other writer's commit; empty where there was none."""
    slept: tuple[float, ...]
    """How long it would have waited, in seconds."""

    @property
    def to_visible(self) -> tuple[str, ...]:
        """Return the calls after the last file below `manifest/` was put, until the snapshot was."""
        visible = max(index for index, call in enumerate(self.calls) if call.startswith(_SNAPSHOT))
        prepared = max(
            index for index, call in enumerate(self.calls[:visible]) if call.startswith("table put manifest/")
        )
        return self.calls[prepared + 1 : visible + 1]


class PartitionedTable:
    """A table on S3 whose every commit adds a file to each partition, in a manifest of its own."""

    def __init__(
        self,
        settings: StoreSettings,
        bucket: str,
        *,
        commits: int,
        days: Sequence[str] = DAYS,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._places = (f"s3://{bucket}/db.db/t", f"s3://{bucket}/control")
        self._numbers = itertools.count()
        self.days = days
        self.store = open_store(self._places[0], settings=settings)
        self.builder = TableBuilder(self.store, partition_keys=("dt",), options=options)
        for _ in range(commits):
            self.append()

    def append(self) -> None:
        """Commit a file for each partition."""
        new = {f"F{next(self._numbers)}": (day,) for day in self.days}
        self.builder.commit(*(f"+{name}" for name in new), partition=new, kind="APPEND")

    def overwrite(self) -> None:
        """Replace the first file by another one of the same partition."""
        new = f"F{next(self._numbers)}"
        self.builder.commit("-F0", f"+{new}", partition={new: (self.days[0],)}, kind="OVERWRITE")

    def compact(self) -> None:
        """Move the second file to another level, which is what the other writer's compaction did."""
        self.builder.commit("-F1@0", "+F1@5", kind="COMPACT")

    def run(
        self,
        operation: str,
        *,
        execute: bool = True,
        others: Callable[[], None] | None = None,
        when: When = "before",
        **arguments: object,
    ) -> Run:
        """Run an operation as a fresh process does, with the catalog declared.

        Args:
            others: Another writer, which is called once.
            when: Right before the run takes the lease, right before it puts its first snapshot, right after that, or
                the first time that it waits for more than a second. In the last two the writer had looked before, and
                replaces our snapshot.
        """
        counter, before, slept = RequestCounter(), dict[str, int](), list[float]()

        def opened(location: str) -> FaultyStore:
            name = "table" if location == self._places[0] else "control"
            return FaultyStore(open_store(location, counter=counter, settings=self._settings), switch, name)

        def act(at: When) -> None:
            if others is not None and not before and when == at:
                before.update(counter.snapshot())
                others()

        def around(name: str, call: Callable[[], object]) -> object:
            is_snapshot = name.startswith(_SNAPSHOT)
            if name.startswith("control put"):
                act("prepared")
            if is_snapshot:
                act("before")
            found = call()
            if is_snapshot:
                act("after")
            return found

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if seconds > 1:
                act("waiting")

        switch = Noting(around)
        store = opened(self._places[0])
        table = Table(
            ref=TableRef(store.location),
            store=store,
            area=ControlArea(opened(self._places[1]), store.location),
            open_store=opened,
            counter=counter,
            sleep=sleep,
        )
        report = run_operation(table, operation, {**CATALOG, **arguments}, execute=execute)
        after = counter.snapshot()
        requests = {kind: count for kind, count in after.items() if count}
        again = {kind: after[kind] - count for kind, count in before.items() if after[kind] > count}
        return Run(report, requests, tuple(switch.calls), again, tuple(slept))


class Noting(Switch):
    """Notes calls, and lets somebody act around each."""

    def __init__(self, around: Callable[[str, Callable[[], object]], object]) -> None:
        super().__init__()
        self._around = around

    def _run(self, name: str, call: Callable[[], object]) -> object:
        return super()._run(name, lambda: self._around(name, call))
