"""The tour of all tables: what no event told of, or what an event was lost for, is found here.

Each table (`lakesweep.aws.places`) is asked whether a pass is due, which costs a listing of its branches and five small
reads at most, and a due one is asked for. Passes are idempotent, so nothing is lost when a tour is broken off, doubled
or late.
"""

from dataclasses import dataclass, replace

from lakesweep.aws.messages import Hint, Sweep
from lakesweep.aws.places import Place, Walk, places_of
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
from lakesweep.storage.deadline import Deadline
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store


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
    walk = Walk(
        places_of(runtime.settings, cursor, counter),
        Deadline(context.get_remaining_time_in_millis),
    )
    tours = [Tour(last=cursor)]
    is_finished = walk.ask(lambda place: _ask(runtime, place, policy, context, counter), tours.append)
    return replace(sum(tours[1:], tours[0]), is_finished=is_finished)


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
