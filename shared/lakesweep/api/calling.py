"""One call of the API: open the table, do the work, and return a result or raise an error in a program's words."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from lakesweep.api.arguments import spoken
from lakesweep.api.opening import open_table
from lakesweep.api.outcome import BEGUN, NO_TABLE, completed, failed_report, has_begun, located
from lakesweep.api.results import Document, Report
from lakesweep.api.stopping import interruptible
from lakesweep.control.noticed import with_warnings
from lakesweep.errors import MaintenanceError, RefusedError, UsageError
from lakesweep.model.progress import Progress, no_progress
from lakesweep.model.report import Refusal, RunReport
from lakesweep.model.roots import TableRef
from lakesweep.runs.receipts import call_receipt
from lakesweep.runs.session import Table, say_nothing
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.retries import told


@dataclass(frozen=True, slots=True)
class Settings:
    """A table, its control location, and how to reach its store: a `Place` that a program states."""

    table: str
    branch: str = "main"
    policy: str | None = None
    control: str | None = None
    local_control: bool = False
    external_root: tuple[str, ...] = ()
    endpoint_url: str | None = None
    region: str | None = None
    scan_id: str | None = None
    engine: str | None = None
    scan_queue: str | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who hears of a call while it runs."""

    progress: Progress = no_progress
    log: Callable[[str], None] | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let the caller hear of silent servers, and stop the call by Ctrl-C."""
        with interruptible(), nullcontext() if self.log is None else told(self.log):
            yield

    def open(self, place: Settings, counter: RequestCounter | None = None) -> Table:
        """Open a table for one call."""
        return open_table(place, counter, self.progress, self.log or say_nothing)


def read_document(caller: Caller, place: Settings, read: Callable[[Table], Mapping[str, Any]]) -> Document:
    """Read something about a table.

    Raises:
        MaintenanceError: As `read` says.
    """
    with caller.listening(), speaking():
        table = caller.open(place)
        try:
            return Document(with_warnings(read(table), table.area, table.store))
        except RefusedError as error:
            if error.code == NO_TABLE:
                error.args = (located(table, str(error)),)
            raise


def carry_out(
    caller: Caller,
    place: Settings,
    operation: str,
    run: Callable[[Table], RunReport],
    *,
    check: bool,
    arguments: Mapping[str, object],
) -> Report:
    """Run an operation and return its report.

    Args:
        caller: Who hears of it.
        place: The table.
        operation: Name of the operation.
        run: Runs it.
        check: Raise an error if the work is not done. Otherwise the report says so, whatever the reason.
        arguments: The arguments of the call.

    Raises:
        UsageError: The call is wrong.
        RunError: The work is not done, and a report says why.
        MaintenanceError: Another error kept it from being done.
    """
    counter = RequestCounter()
    table: Table | None = None
    ref, branches = TableRef(place.table, place.branch), bool(arguments.get("all_branches"))
    with caller.listening(), speaking():
        try:
            table = caller.open(place, counter)
            found = completed(table, run(table))
        except UsageError:
            raise
        except MaintenanceError as error:
            requests = counter.snapshot()
            begun = has_begun(error, requests)
            if begun:
                error.args = (f"{error}; {BEGUN}",)
            if check:
                raise
            refusal = Refusal(error.code, spoken(str(error)), error.exit_code)
            failed = failed_report(operation, ref, refusal, requests, begun=begun, all_branches=branches)
            found = call_receipt(table, failed)
    refusal_ = found.refusal
    found = replace(
        found,
        warnings=tuple(map(spoken, found.warnings)),
        refusal=None if refusal_ is None else replace(refusal_, message=spoken(refusal_.message)),
    )
    report = Report(found, dict(arguments))
    return report.raise_for_status() if check else report


@contextmanager
def speaking() -> Iterator[None]:
    """Let errors name arguments as a program states them."""
    try:
        yield
    except MaintenanceError as error:
        error.args = (spoken(str(error)),)
        raise
