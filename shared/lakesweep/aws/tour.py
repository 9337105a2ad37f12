"""A tour of all tables that asks for passes over the branches that one is due for.

Passes are idempotent, so nothing is lost when a tour is broken off, doubled or late. What there is no time for goes on
in another message, after the last folder that was looked at.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lakesweep.aws.messages import Hint, Sweep, TagTour
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
from lakesweep.storage.deadline import Deadline
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store

Due = tuple[str, int | None]
"""A branch that a pass is due for, and for how many milliseconds, where that is known."""
Question = Callable[[Table, bool], Iterator[Due]]
"""Yields the branches of a table that a pass is due for; told whether passes change the table, or only plan."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The metrics of a kind of tour."""

    tables: str
    due: str
    max_lag: str


@dataclass(frozen=True, slots=True)
class Tour:
    """What a tour found, or a part of it; parts add up."""

    tables: int = 0
    due: int = 0
    """Branches that a pass was asked for."""
    failed: int = 0
    max_lag_ms: int = 0
    """The longest time that a pass has been due, among tables that passes change."""
    last: str | None = None
    """The last folder that was looked at."""
    is_finished: bool = False

    def __add__(self, other: "Tour") -> "Tour":
        return replace(
            self,
            tables=self.tables + other.tables,
            due=self.due + other.due,
            failed=self.failed + other.failed,
            max_lag_ms=max(self.max_lag_ms, other.max_lag_ms),
            last=other.last or self.last,
        )


def make_tour(runtime: Runtime, message: Sweep | TagTour, context: Context, counts: Counts, question: Question) -> Tour:
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
        asking = _Asking(runtime, context, policy, counter, question)
        walk = Walk(
            places_of(runtime.settings, message.cursor, counter), Deadline(context.get_remaining_time_in_millis)
        )
        tours = [Tour(last=message.cursor)]
        is_finished = walk.ask(asking.ask, tours.append)
    except MaintenanceError:
        telemetry.count("RunsFailed")
        raise
    tour = replace(sum(tours[1:], tours[0]), is_finished=is_finished)
    telemetry.count(counts.tables, tour.tables)
    telemetry.count(counts.due, tour.due)
    telemetry.count(counts.max_lag, tour.max_lag_ms / 1000)
    telemetry.count_requests(counter.snapshot())
    telemetry.tell(f"{message.kind}: {'the tour ended' if is_finished else 'a part of the tour'}", tour=str(tour))
    if tour.failed:
        telemetry.count("RunsFailed", tour.failed)
    if not is_finished and not runtime.queues.again(replace(message, cursor=tour.last), 0):
        telemetry.count("HopLimitReached")
        telemetry.warn("the tour was handed on too often; tables after the last one wait for the next", last=tour.last)
    return tour


def states_of(table: Table) -> dict[str, BranchState]:
    """Return the state of each branch of a table, none where it cannot be read: passes write it anew."""
    try:
        return read_states(require_area(table))
    except FormatError:
        return {}


def branch_folders(store: Store) -> set[str]:
    """Return the branches that have a folder; not those with a slash in the name, which only a pass has seen."""
    found = map(branch_name_of, store.folders("branch/"))
    return {name for name in found if name is not None}


@dataclass(frozen=True, slots=True)
class _Asking:
    """What is the same for all tables of one part of a tour."""

    runtime: Runtime
    context: Context
    policy: FleetPolicy | None
    counter: RequestCounter
    question: Question

    def ask(self, place: Place) -> Tour:
        """Ask for a pass over each branch of a table that one is due for."""
        location, settings = place.location, self.runtime.settings
        if not place.is_table or not settings.allows(location):
            return Tour(last=location)
        tour = Tour(tables=1, last=location)
        try:
            ruling = ruling_in(self.policy, location)
            if ruling is not None and ruling.rule is not None and ruling.rule.paused:
                return tour
            changes = settings.may_delete and may_delete(ruling)
            table = self.runtime.open_table(location, MAIN, self.context, self.counter)
            for branch, lag_ms in self.question(table, changes):
                self.runtime.queues.ask_for_pass(Hint(location, branch))
                tour += Tour(due=1, max_lag_ms=(lag_ms or 0) if changes else 0)
        except OutOfTimeError:
            raise
        except MaintenanceError as error:
            self.runtime.telemetry.warn(f"tour: {error}", table=location, code=error.code)
            tour += Tour(failed=1)
        except Exception:  # the tables after this one are asked all the same
            self.runtime.telemetry.logger.exception("an error that nobody foresaw", table=location)
            tour += Tour(failed=1)
        return tour
