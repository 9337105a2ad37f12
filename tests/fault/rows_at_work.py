"""What tests share that break commits about rows."""

from collections.abc import Callable
from random import Random

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from tests.support.faulty_store import Switch
from tests.support.reader import read_all
from tests.support.row_world import RowWorld

CATALOG = {"catalog_type": "filesystem", "catalog_lock": True}


def did(act: Callable[[], object]) -> bool:
    """Act, and tell whether that changed the table."""
    try:
        report = act()
    except MaintenanceError as error:
        return "is committed" in str(error)
    return not isinstance(report, RunReport) or report.status in ("done", "partial")


class Busy(Switch):
    """Lets others act before many requests of a run."""

    def __init__(self, act: Callable[[], object], random_: Random, share: float) -> None:
        super().__init__()
        self._act, self._random, self._share = act, random_, share

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if self._random.random() < self._share:
            self._act()
        return super()._run(name, call)


def scan(world: RowWorld, leftovers: set[str], other: RowWorld) -> None:
    """Scan for orphans: of the usual age there are none, and of any age these are all.

    Args:
        world: The table.
        leftovers: The orphans.
        other: A table of the same kind, which becomes a copy.
    """
    kept = world.keys()
    assert world.run("remove-orphan-files").status == "nothing_to_do"
    assert world.keys() == kept
    other.store, other.control = world.copy().store, world.copy().control
    report = other.run("remove-orphan-files", older_than="0 s", no_writers="the only writer is dead")
    assert report.status == ("done" if leftovers else "nothing_to_do"), report
    assert kept - other.keys() == leftovers
    read_all(other.store)
