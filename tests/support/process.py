"""Calls of the product that take turns, request by request."""

from collections.abc import Callable
from itertools import islice

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from tests.support.faulty_store import FaultyStore, Switch
from tests.support.interleaving import Turns
from tests.support.maintenance import Maintainer
from tests.support.world import World

Call = Callable[[Maintainer], RunReport]


class _PausingSwitch(Switch):
    """Waits for its turn before each call."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def _run(self, name: str, call: Callable[[], object]) -> object:
        self._turns.pause()
        return super()._run(name, call)


class Process:
    """One call of the product that goes on when it is told to, and what it answered."""

    def __init__(self, stage: World, call: Call) -> None:
        self.report: RunReport | None = None
        self.error: MaintenanceError | None = None

        def run(turns: Turns) -> None:
            switch = _PausingSwitch(turns)
            maintainer = Maintainer(
                FaultyStore(stage.store, switch, "table"),
                control=FaultyStore(stage.control, switch, "control"),
                sleep=stage.sleep,
            )
            try:
                self.report = call(maintainer)
            except MaintenanceError as error:
                self.error = error

        self.turns = Turns(run)

    def go(self, requests: int | None = None) -> int:
        """Make so many requests, or all that are left; return how many there were."""
        return sum(1 for _ in islice(self.turns, requests))
