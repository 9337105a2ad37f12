"""A table sweep that requests passes over the branches for which one is due.

Passes are idempotent, so a table sweep may be interrupted, doubled or late. If time runs out, another message continues
after the last folder that was visited.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lakesweep.aws.messages import Hint, Sweep, TagSweep
from lakesweep.aws.places import FolderVisits, TableFolder, places_of
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.control.state import BranchState, read_states
from lakesweep.errors import FormatError, MaintenanceError, OutOfTimeError
from lakesweep.format.names import branch_name_of
from lakesweep.model.policy import FleetPolicy
from lakesweep.model.roots import MAIN
from lakesweep.runs.execution import require_area
from lakesweep.runs.fleet import may_delete, read_policy, ruling_in
from lakesweep.runs.session import Table
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.deadline import Deadline

Due = tuple[str, int | None]
"""A branch for which a pass is due, and for how many milliseconds it has been due, if known."""
Question = Callable[[Table, bool], Iterator[Due]]
"""Yields the branches of a table for which a pass is due. The flag tells whether passes change the table or only plan.
"""


@dataclass(frozen=True, slots=True)
class Counts:
    """Names of the metrics of a kind of table sweep."""

    tables: str
    due: str
    max_lag: str


@dataclass(frozen=True, slots=True)
class TableSweep:
    """The result of a table sweep or of a part of it; parts add up."""

    tables: int = 0
    due: int = 0
    """Branches for which a pass was requested."""
    failed: int = 0
    max_lag_ms: int = 0
    """Longest time for which a pass has been due, among tables that passes change."""
    last: str | None = None
    """The last folder that was visited."""
    is_finished: bool = False

    def __add__(self, other: "TableSweep") -> "TableSweep":
        return replace(
            self,
            tables=self.tables + other.tables,
            due=self.due + other.due,
            failed=self.failed + other.failed,
            max_lag_ms=max(self.max_lag_ms, other.max_lag_ms),
            last=other.last or self.last,
        )


def sweep_tables(
    runtime: Runtime, message: Sweep | TagSweep, context: Context, counts: Counts, question: Question
) -> TableSweep:
    """Visit every table after `message.cursor` while time is left; then hand the rest on.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: A folder could not be listed, or the policy could not be read.
    """
    counter, telemetry = RequestCounter(), runtime.telemetry
    policy = None
    try:
        if runtime.settings.policy is not None:
            policy = read_policy(lambda place: open_store(place, counter=counter), runtime.settings.policy)
        asking = _Asking(runtime, context, policy, counter, question)
        walk = FolderVisits(
            places_of(runtime.settings, message.cursor, counter), Deadline(context.get_remaining_time_in_millis)
        )
        sweeps = [TableSweep(last=message.cursor)]
        is_finished = walk.ask(asking.ask, sweeps.append)
    except MaintenanceError:
        telemetry.count("RunsFailed")
        raise
    sweep = replace(sum(sweeps[1:], sweeps[0]), is_finished=is_finished)
    telemetry.count(counts.tables, sweep.tables)
    telemetry.count(counts.due, sweep.due)
    telemetry.count(counts.max_lag, sweep.max_lag_ms / 1000)
    telemetry.count_requests(counter.snapshot())
    telemetry.tell(
        f"{message.kind}: {'the table sweep ended' if is_finished else 'a part of the table sweep'}", sweep=str(sweep)
    )
    if sweep.failed:
        telemetry.count("RunsFailed", sweep.failed)
    if not is_finished and not runtime.queues.again(replace(message, cursor=sweep.last), 0):
        telemetry.count("HopLimitReached")
        telemetry.warn(
            "the table sweep was handed on too often; the next one visits the tables after the last", last=sweep.last
        )
    return sweep


def states_of(table: Table) -> dict[str, BranchState]:
    """Return the state of each branch of a table; none if the states cannot be read, since passes write them again."""
    try:
        return read_states(require_area(table))
    except FormatError:
        return {}


def branch_folders(store: Store) -> set[str]:
    """Return the branches that have a folder. A branch with a slash in its name is not found here, only by a pass."""
    found = map(branch_name_of, store.folders("branch/"))
    return {name for name in found if name is not None}


@dataclass(frozen=True, slots=True)
class _Asking:
    """What is the same for all tables of one part of a table sweep."""

    runtime: Runtime
    context: Context
    policy: FleetPolicy | None
    counter: RequestCounter
    question: Question

    def ask(self, place: TableFolder) -> TableSweep:
        """Request a pass over each branch of a table for which one is due."""
        location, settings = place.location, self.runtime.settings
        if not place.is_table or not settings.allows(location):
            return TableSweep(last=location)
        sweep = TableSweep(tables=1, last=location)
        try:
            ruling = ruling_in(self.policy, location)
            if ruling is not None and ruling.rule is not None and ruling.rule.paused:
                return sweep
            changes = settings.may_delete and may_delete(ruling)
            table = self.runtime.open_table(location, MAIN, self.context, self.counter)
            for branch, lag_ms in self.question(table, changes):
                self.runtime.queues.ask_for_pass(Hint(location, branch))
                sweep += TableSweep(due=1, max_lag_ms=(lag_ms or 0) if changes else 0)
        except OutOfTimeError:
            raise
        except MaintenanceError as error:
            self.runtime.telemetry.warn(f"table sweep: {error}", table=location, code=error.code)
            sweep += TableSweep(failed=1)
        except Exception:  # the table sweep continues with the next table
            self.runtime.telemetry.logger.exception("an unexpected error", table=location)
            sweep += TableSweep(failed=1)
        return sweep
