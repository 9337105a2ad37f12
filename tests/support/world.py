"""A table in memory, its control location, one clock, and a switch that breaks requests."""

from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.model.safety import DELETE_MARGIN_MS, LEASE_MS
from tests.support.content_store import ContentStore
from tests.support.faulty_store import DyingSwitch, FaultyStore, ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots
from tests.support.table_builder import TableBuilder

START_MS = 1_800_000_000_000


class Stage:
    """A table and a control location in memory, with one clock."""

    def __init__(self, *, content_etags: bool = False, **table: Any) -> None:
        self.now_ms = START_MS
        kind = ContentStore if content_etags else MemoryStore
        self.store = kind("memory://bucket/t", clock=lambda: self.now_ms)
        self.control = MemoryStore("memory://control", clock=lambda: self.now_ms)
        self.table = TableBuilder(self.store, **table)
        self.switch = Switch()

    def maintainer(self, **arguments: Any) -> Maintainer:
        return Maintainer(
            FaultyStore(self.store, self.switch, "table"),
            control=FaultyStore(self.control, self.switch, "control"),
            sleep=self.sleep,
            **arguments,
        )

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)

    def dies_before(self, call: Callable[[str], bool], **arguments: Any) -> None:
        """Expire, and end the process right before the first request that `call` knows; time goes on after that."""
        switch = DyingSwitch(call)
        self.switch = switch
        with pytest.raises(ProcessDeathError):
            self.maintainer().expire(**arguments)
        self.switch = Switch()
        self.now_ms += LEASE_MS + DELETE_MARGIN_MS

    def snapshots(self) -> list[int]:
        return sorted(int(key.rpartition("-")[2]) for key in all_roots(self.store) if key.startswith("snapshot/"))


def simple(stage: Stage, count: int = 6) -> None:
    """Each commit replaces the file of the one before."""
    stage.table.commit("+F1", changelog=["+L1"])
    for number in range(2, count + 1):
        stage.table.commit(f"-F{number - 1}", f"+F{number}", changelog=[f"+L{number}"])
    stage.now_ms += 3_600_000
