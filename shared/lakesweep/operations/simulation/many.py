"""A simulation of everything at a place: a table, the tables of a database, or those of a warehouse."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from lakesweep.errors import MaintenanceError, RefusedError, StorageError
from lakesweep.model.simulation import Simulation, TableSimulation
from lakesweep.operations.simulation.policies import Policy
from lakesweep.operations.simulation.simulate import simulate_table
from lakesweep.operations.simulation.sums import summed
from lakesweep.runs.database import has_lost_schemas, is_table
from lakesweep.runs.session import Table
from lakesweep.runs.table_folders import places_below
from lakesweep.storage.pools import threads
from lakesweep.storage.together import begun, waits
from lakesweep.storage.wrappers.remembering import MetadataCache

PARALLEL = 4
"""Tables that are read at the same time, if requests take time."""


def simulate(place: Table, policies: Sequence[Policy], days: int | None = None) -> Simulation:
    """Simulate policies on a table, or on each table below a database or warehouse.

    A table that cannot be read does not stop the others: its `problem` says why. If only one table is asked for, its
    error is raised.

    Args:
        place: A table, or what is at the location of a database or warehouse.
        policies: The present one first.
        days: Also replay the commits of so many days.

    Raises:
        RefusedError: There is no table, or the only one cannot be simulated.
        UsageError: The location of the fleet policy holds no valid policy.
        StorageError: The place could not be listed.
    """
    now_ms = place.store.now_ms()
    tables: list[TableSimulation] = []
    names: list[str] = []
    if is_table(place.store) or has_lost_schemas(place.store, ""):
        tables.append(simulate_table(place, policies, days))
    else:
        for found in _tables_below(place, now_ms):
            if isinstance(found, str):
                names.append(found)
            else:
                tables.append(found)
        if not names and not tables:
            raise RefusedError(
                f"{place.ref.location}: expected a table, a database or a warehouse, found no table there or below",
                code="not_a_table",
            )
    with threads(PARALLEL, "tables") as pool:
        calls = [
            begun(pool if waits(place.store) else None, partial(_each, place, each, policies, days)) for each in names
        ]
        for number, result in enumerate(calls):
            place.progress("tables simulated", number, len(names))
            tables.append(result())
    return summed(place.ref.location, now_ms, days, policies, tables, place.counter.snapshot())


def _tables_below(place: Table, now_ms: int) -> Iterator[str | TableSimulation]:
    """Yield the name of each table below a place, such as `sales.db/orders`, or why a folder could not be searched."""
    root, store = place.ref.location, place.store
    failures: list[TableSimulation] = []

    def failed(location: str, error: StorageError) -> None:
        if location == root:
            raise error
        failures.append(_failed(place, location.removeprefix(f"{root}/"), error, now_ms))

    control = "" if place.area is None else place.area.store.location
    for folder in places_below(root, store, apart_from=control, failed=failed):
        name = folder.location.removeprefix(f"{root}/")
        if not folder.is_table or folder.location == root or "/branch/branch-" in f"/{name}":
            continue
        if is_table(store, f"{name}/") or has_lost_schemas(store, f"{name}/"):
            yield name
    yield from failures


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
        return _failed(place, name, error, place.store.now_ms())


def _failed(place: Table, name: str, error: MaintenanceError, now_ms: int) -> TableSimulation:
    return TableSimulation(
        table=f"{place.ref.location}/{name}",
        name=name,
        branch=place.ref.branch,
        measured_ms=now_ms,
        problem=str(error),
        problem_code=error.code,
    )
