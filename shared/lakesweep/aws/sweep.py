"""The tour of all tables: what no event told of, or what an event was lost for, is found here.

A table is found by its folders, in the layout of a warehouse (`name.db/table`) or of any other up to some levels deep.
Each is asked whether a pass is due, which costs a listing of its branches and five small reads at most, and a due one
is asked for. Passes are idempotent, so nothing is lost when a tour is broken off, doubled or late.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby, islice

from lakesweep.aws.messages import Hint, Sweep
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.control.state import BranchState, read_states
from lakesweep.errors import FormatError, MaintenanceError, OutOfTimeError
from lakesweep.format.names import branch_name_of
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.table_ref import MAIN
from lakesweep.operations.context import Table
from lakesweep.operations.fleet import may_delete, read_policy, ruling_in
from lakesweep.operations.run import require_area
from lakesweep.operations.triage import lag_of
from lakesweep.storage.deadline import BATCH_RESERVE_MS, Deadline
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store

MAX_DEPTH = 4
"""Levels below a configured place in which tables are looked for."""
PARALLEL = 8
"""Tables that are asked at once."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder on the way of the tour."""

    location: str
    is_table: bool


@dataclass(frozen=True, slots=True)
class Tour:
    """What a tour found, or a part of it; parts add up."""

    tables: int = 0
    lagging: int = 0
    """Branches that a pass was asked for."""
    failed: int = 0
    max_lag_ms: int = 0
    """The longest time that a pass has been due, among tables that may be deleted from."""
    last: str | None = None
    """The last folder that was looked at."""
    is_finished: bool = False

    def __add__(self, other: "Tour") -> "Tour":
        return replace(
            self,
            tables=self.tables + other.tables,
            lagging=self.lagging + other.lagging,
            failed=self.failed + other.failed,
            max_lag_ms=max(self.max_lag_ms, other.max_lag_ms),
            last=other.last or self.last,
        )


def sweep(runtime: Runtime, message: Sweep, context: Context) -> Tour:
    """Ask every table after `message.cursor`, as long as there is time; then hand the rest on.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: A folder could not be listed, or the policy not be read.
    """
    counter, telemetry = RequestCounter(), runtime.telemetry
    policy = None
    try:
        if runtime.settings.policy is not None:
            policy = read_policy(lambda place: open_store(place, counter=counter), runtime.settings.policy)
        tour = _ask_all(runtime, message.cursor, policy, context, counter)
    except MaintenanceError:
        telemetry.count("RunsFailed")
        raise
    telemetry.count("TablesSwept", tour.tables)
    telemetry.count("TablesLagging", tour.lagging)
    telemetry.count("MaxLagSeconds", tour.max_lag_ms / 1000)
    telemetry.count_requests(counter.snapshot())
    telemetry.tell("a part of the tour" if not tour.is_finished else "the tour ended", tour=str(tour))
    if tour.failed:
        telemetry.count("RunsFailed", tour.failed)
    if not tour.is_finished and not runtime.queues.again(Sweep(tour.last, message.hop), 0):
        telemetry.count("HopLimitReached")
        telemetry.warn("the tour was handed on too often; tables after the last one wait for the next", last=tour.last)
    return tour


def _ask_all(
    runtime: Runtime, cursor: str | None, policy: FleetPolicy | None, context: Context, counter: RequestCounter
) -> Tour:
    deadline = Deadline(context.get_remaining_time_in_millis)
    places = _places(runtime, cursor, counter)
    tour = Tour(last=cursor)
    with ThreadPoolExecutor(PARALLEL) as pool:
        while group := list(islice(places, 4 * PARALLEL)):
            try:
                for found in pool.map(lambda place: _ask(runtime, place, policy, context, counter), group):
                    tour += found
                deadline.check("sweep", 2 * BATCH_RESERVE_MS)
            except OutOfTimeError:
                return tour  # up to the last folder that was looked at, in order
    return replace(tour, is_finished=True)


def _ask(runtime: Runtime, place: Place, policy: FleetPolicy | None, context: Context, counter: RequestCounter) -> Tour:
    """Ask for a pass over each branch that one is due for.

    The branches are those whose folders are there: the event that told of a new one may be lost like any other.
    """
    location = place.location
    if not place.is_table or not runtime.settings.allows(location):
        return Tour(last=location)
    tour = Tour(tables=1, last=location)
    try:
        ruling = ruling_in(policy, location)
        if ruling is not None and ruling.rule is not None and ruling.rule.paused:
            return tour
        counts = runtime.settings.may_delete and may_delete(ruling)
        table = runtime.open_table(location, MAIN, context, counter)
        states = _states(table)
        for branch in (MAIN, *sorted((_branches(table.store) | states.keys()) - {MAIN})):
            target = replace(table, ref=replace(table.ref, branch=branch))
            lag = lag_of(target, states.get(branch))
            if lag is not None:
                runtime.queues.ask_for_pass(Hint(location, branch))
                tour += Tour(lagging=1, max_lag_ms=(lag.lag_ms or 0) if counts else 0)
    except OutOfTimeError:
        raise
    except MaintenanceError as error:
        runtime.telemetry.warn(f"sweep: {error}", table=location, code=error.code)
        tour += Tour(failed=1)
    except Exception:  # the tables after this one are asked all the same
        runtime.telemetry.logger.exception("an error that nobody foresaw", table=location)
        tour += Tour(failed=1)
    return tour


def _branches(store: Store) -> set[str]:
    """Return the branches that have a folder; not those with a slash in the name, which only a pass has seen."""
    found = map(branch_name_of, store.folders("branch/"))
    return {name for name in found if name is not None}


def _states(table: Table) -> dict[str, BranchState]:
    try:
        return read_states(require_area(table))
    except FormatError:
        return {}


def places_below(root: str, store: Store, after: str = "", apart_from: str = "") -> Iterator[Place]:
    """Yield the folders below a place, and which of them are tables, in the order of keys.

    Args:
        root: Location of the place.
        store: Of the place.
        after: A location; what comes before it or is it is left out, and not listed either.
        apart_from: A folder that holds no tables.

    Raises:
        StorageError: A folder could not be listed.
    """
    return _walk(root, store, "", 0, after, apart_from)


def _walk(root: str, store: Store, prefix: str, depth: int, after: str, apart_from: str) -> Iterator[Place]:
    location = f"{root}/{prefix}".rstrip("/")
    is_new = _order(location) > _order(after)
    if location == apart_from or not (is_new or _order(after).startswith(_order(location))):
        return
    names = list(store.folders(prefix))
    is_table = "snapshot" in names and "schema" in names
    if is_new:
        yield Place(location, is_table)
    if is_table:
        return
    is_database = prefix.rstrip("/").endswith(".db")
    for name in names:
        if name.startswith((".", "_")):
            continue
        if not is_database and depth < MAX_DEPTH:
            yield from _walk(root, store, f"{prefix}{name}/", depth + 1, after, apart_from)
        elif is_database and _order(f"{location}/{name}") > _order(after):
            yield Place(f"{location}/{name}", is_table=True)  # whether it is one, its documents say


def _places(runtime: Runtime, cursor: str | None, counter: RequestCounter) -> Iterator[Place]:
    """Yield the folders after `cursor`. One that lies below several configured places comes once."""
    settings = runtime.settings
    walks = (
        places_below(str(root), open_store(root, counter=counter), cursor or "", settings.control)
        for root in settings.tables
    )
    last = ""
    for location, found in groupby(merge(*walks, key=_place_order), key=lambda place: place.location):
        if location != last:
            last = location
            yield Place(location, any(place.is_table for place in found))


def _place_order(place: Place) -> str:
    return _order(place.location)


def _order(location: str) -> str:
    """Return by what locations are put in the order in which S3 lists them, folders before what lies in them."""
    return f"{location}/"
