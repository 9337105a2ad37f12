"""A table sweep: it visits all tables of a deployment, and asks something about each.

What it requests is idempotent, so a table sweep may be interrupted, doubled or late. If time runs out, another message
continues after the last folder that was visited.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lakesweep.aws.messages import OrphanSweep, Sweep, TagSweep
from lakesweep.aws.places import places_of, visit
from lakesweep.aws.runtime import Context, Runtime
from lakesweep.errors import MaintenanceError, OutOfTimeError
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.roots import MAIN
from lakesweep.runs.fleet import may_delete, read_policy, rule_of, ruling_in
from lakesweep.runs.session import Table
from lakesweep.runs.table_folders import TableFolder
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.wrappers.deadline import Deadline


@dataclass(frozen=True, slots=True)
class Counts:
    """Names of the metrics of a kind of table sweep."""

    tables: str
    due: str
    max_lag: str
    max_refused: str | None = None


@dataclass(frozen=True, slots=True)
class TableSweep:
    """The result of a table sweep or of a part of it; parts add up."""

    tables: int = 0
    due: int = 0
    """Passes or scans that were requested."""
    again: int = 0
    """Scans that had been silent and were requested again."""
    failed: int = 0
    max_lag_ms: int = 0
    """Longest time for which a pass has been due, among tables that passes change."""
    max_refused_ms: int = 0
    """Longest time for which every pass over a branch was refused, among branches for which a pass is due."""
    last: str | None = None
    """The last folder that was visited."""
    is_finished: bool = False

    def __add__(self, other: "TableSweep") -> "TableSweep":
        return replace(
            self,
            tables=self.tables + other.tables,
            due=self.due + other.due,
            again=self.again + other.again,
            failed=self.failed + other.failed,
            max_lag_ms=max(self.max_lag_ms, other.max_lag_ms),
            max_refused_ms=max(self.max_refused_ms, other.max_refused_ms),
            last=other.last or self.last,
        )


Ask = Callable[[Runtime, Table, bool], Iterator[TableSweep]]
"""Requests what is due for a table, and yields a result for each request. The flag tells whether the deployment and the
fleet policy let the table be changed."""


def sweep_tables(
    runtime: Runtime,
    message: Sweep | TagSweep | OrphanSweep,
    context: Context,
    ask: Ask,
    counts: Counts | None = None,
    name: str = "table sweep",
) -> TableSweep:
    """Visit every table after `message.cursor` while time is left; then hand the rest on.

    Args:
        runtime: The function's runtime.
        message: The message that asked for it.
        context: The context of this invocation.
        ask: What is asked about each table.
        counts: The metrics, if there are any.
        name: What log lines call it.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: A folder could not be listed, or the policy could not be read.
    """
    counter, telemetry = RequestCounter(), runtime.telemetry
    policy = None
    try:
        if runtime.settings.policy is not None:
            policy = read_policy(lambda place: open_store(place, counter=counter), runtime.settings.policy)
        asking = _Asking(runtime, context, policy, counter, ask, name)
        places = places_of(runtime.settings, message.cursor, counter)
        sweeps = [TableSweep(last=message.cursor)]
        is_finished = visit(places, Deadline(context.get_remaining_time_in_millis), asking.visit, sweeps.append)
    except MaintenanceError:
        telemetry.count("RunsFailed")
        raise
    sweep = replace(sum(sweeps[1:], sweeps[0]), is_finished=is_finished)
    if counts is not None:
        if sweep.tables or message.cursor is None:  # a later part without tables says nothing about the sweep
            telemetry.count(counts.tables, sweep.tables)
        telemetry.count(counts.due, sweep.due)
        telemetry.count(counts.max_lag, sweep.max_lag_ms / 1000)
        if counts.max_refused is not None:
            telemetry.count(counts.max_refused, sweep.max_refused_ms / 1000)
    telemetry.count_requests(counter.snapshot())
    telemetry.tell(
        f"{message.kind}: {f'the {name} ended' if is_finished else f'a part of the {name}'}", sweep=str(sweep)
    )
    if sweep.failed:
        telemetry.count("RunsFailed", sweep.failed)
    if not is_finished and not runtime.queues.again(replace(message, cursor=sweep.last), 0):
        telemetry.count("HopLimitReached")
        telemetry.warn(
            "the table sweep was handed on too often; the next one visits the tables after the last", last=sweep.last
        )
    return sweep


@dataclass(frozen=True, slots=True)
class _Asking:
    """What is the same for all tables of one part of a table sweep."""

    runtime: Runtime
    context: Context
    policy: FleetPolicy | None
    counter: RequestCounter
    ask: Ask
    name: str

    def visit(self, place: TableFolder) -> TableSweep:
        """Ask about a table, unless the policy pauses it. An error does not hold back the next tables."""
        location, settings = place.location, self.runtime.settings
        if not place.is_table or not settings.allows(location):
            return TableSweep(last=location)
        sweep = TableSweep(tables=1, last=location)
        try:
            table = self.runtime.open_table(location, MAIN, self.context, self.counter)
            ruling = ruling_in(self.policy, table.store)
            if rule_of(ruling).pause:
                return sweep
            for found in self.ask(self.runtime, table, settings.may_delete and may_delete(ruling)):
                sweep += found
        except OutOfTimeError:
            raise
        except MaintenanceError as error:
            self.runtime.telemetry.warn(f"{self.name}: {error}", table=location, code=error.code)
            sweep += TableSweep(failed=1)
        except Exception:  # the table sweep continues with the next table
            self.runtime.telemetry.logger.exception("an unexpected error", table=location)
            sweep += TableSweep(failed=1)
        return sweep
