"""A simulation of everything at a place: a table, the tables of a database, or those of a warehouse."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakesweep.errors import MaintenanceError
from lakesweep.model.simulation import Simulation, TableSimulation
from lakesweep.operations.simulation.policies import Policy
from lakesweep.operations.simulation.simulate import simulate_table
from lakesweep.operations.simulation.sums import summed
from lakesweep.runs.database import is_table, tables_of
from lakesweep.runs.session import Table
from lakesweep.storage.wrappers.remembering import MetadataCache

_DATABASE = ".db"
"""The end of the folders of databases in a warehouse."""


def simulate(place: Table, policies: Sequence[Policy], days: int | None = None) -> Simulation:
    """Simulate policies on a table, or on each table below a database or warehouse.

    A table that cannot be read does not stop the others: its `problem` says why. If there is only one, its error is
    raised.

    Args:
        place: A table, or what is at the location of a database or warehouse.
        policies: The present one first.
        days: Also replay the commits of so many days.

    Raises:
        RefusedError: There is no table, or the only one cannot be simulated.
        UsageError: The location of the fleet policy holds no valid policy.
        StorageError: A request failed, before any table was found.
    """
    now_ms = place.store.now_ms()
    names = [] if is_table(place.store) else list(tables_below(place))
    if not names:
        tables = [simulate_table(place, policies, days)]
    else:
        tables = []
        for number, name in enumerate(names):
            place.progress("tables simulated", number, len(names))
            tables.append(_each(place, name, policies, days))
    return summed(place.ref.location, now_ms, days, policies, tables, place.counter.snapshot())


def tables_below(place: Table) -> Iterator[str]:
    """Yield the names of the tables below a database or warehouse, such as `orders` or `sales.db/orders`.

    Raises:
        StorageError: A request failed.
    """
    yield from tables_of(place.store)
    for folder in place.store.folders(""):
        if folder.endswith(_DATABASE):
            for name in tables_of(place.open_store(f"{place.ref.location}/{folder}")):
                yield f"{folder}/{name}"


def _each(place: Table, name: str, policies: Sequence[Policy], days: int | None) -> TableSimulation:
    location = f"{place.ref.location}/{name}"
    table = replace(
        place,
        ref=replace(place.ref, location=location),
        store=place.open_store(location),
        area=None,
        memory=MetadataCache(),
        notes={},
    )
    try:
        return simulate_table(table, policies, days, name)
    except MaintenanceError as error:
        return TableSimulation(
            table=location,
            name=name,
            branch=place.ref.branch,
            measured_ms=place.store.now_ms(),
            problem=str(error),
            problem_code=error.code,
        )
