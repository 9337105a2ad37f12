"""What tests share that break commits about rows."""

import itertools
from collections.abc import Callable
from functools import cache
from random import Random
from typing import TypeVar

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.runs.committing.catalog import Catalog
from tests.support.faulty_store import Switch
from tests.support.reader import read_all
from tests.support.row_world import LOCKED, UNLOCKED, RowWorld

Scene = TypeVar("Scene", bound=RowWorld)
CATALOG = {"catalog_type": "filesystem", "catalog_lock": True}


@cache
def _made(kind: type[RowWorld]) -> RowWorld:
    return kind()


def fresh(kind: type[Scene]) -> Scene:
    """Return a table of one's own: a copy of one that is made once."""
    found = _made(kind).copy()
    assert isinstance(found, kind)
    return found


def of(world: RowWorld, *ids: int) -> list[str]:
    """Return the live data files with one of these rows."""
    return [name for name, rows in world.rows_by_file().items() if set(ids) & set(rows)]


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


class Crowd:
    """Others who work on a table at random, and the rows that have to be there."""

    def __init__(self, world: RowWorld, random_: Random) -> None:
        self.world, self.there = world, set(world.rows())
        self._random, self._numbers = random_, itertools.count(100)

    def catalog(self) -> Catalog:
        """Return whether writers take a lock, either way."""
        return self._random.choice((LOCKED, UNLOCKED))

    def append(self) -> None:
        ids = [next(self._numbers) for _ in range(self._random.randint(1, 6))]
        self.world.append(*ids, dt=self._random.choice("de"))
        self.there.update(ids)

    def compact(self) -> None:
        """Compact as an engine does."""
        partition = (self._random.choice("de"),)
        names = [each for each in self.world.know() if self.world.files[each].partition == partition]
        if names:
            self.world.compact(*self._random.sample(names, self._random.randint(1, min(3, len(names)))))

    def overwrite(self) -> None:
        if names := list(self.world.know()):
            name = self._random.choice(names)
            self.there.difference_update(self.world.rows_by_file()[name])
            self.world.overwrite(name)

    def delete(self, switch: Switch | None = None) -> None:
        ids = set(self._random.sample(sorted(self.there), min(self._random.randint(1, 4), len(self.there)))) or {0}
        where = f"id IN ({', '.join(map(str, ids))})"
        if did(lambda: self.world.delete(where, switch or Switch(), catalog=self.catalog())):
            self.there.difference_update(ids)
