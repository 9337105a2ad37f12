"""Run a command to its end: open the table, run the operation, print the result, and return the exit code.

Only this module turns errors into sentences and exit codes.
"""

import dataclasses
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from lakesweep.api.opening import open_table
from lakesweep.api.outcome import (
    BEGUN,
    DAMAGED,
    NO_TABLE,
    PARTIAL,
    REFUSED,
    completed,
    document_of,
    exit_code_of,
    failed_report,
    has_begun,
    located,
    warnings_of,
    worst,
)
from lakesweep.cli.next_command import next_command
from lakesweep.cli.options import Place
from lakesweep.cli.reach import hint, is_out_of_reach, reach_exit_code
from lakesweep.cli.receipt import cost_lines
from lakesweep.cli.terminal.output import Files, OutputError, print_answer, print_document, print_lines, say
from lakesweep.cli.terminal.progress import shown_progress
from lakesweep.cli.text import next_line, report_lines
from lakesweep.control.noticed import with_warnings
from lakesweep.errors import (
    MaintenanceError,
    RefusedError,
    UsageError,
    masked,
    stop_code,
    stop_exit_code,
    stopped_by,
)
from lakesweep.model.report import Refusal, RunReport
from lakesweep.model.roots import TableRef
from lakesweep.runs.receipts import call_receipt
from lakesweep.runs.session import Table
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.retries import told

Document = Mapping[str, object]

_SIGNALS = 128
"""If a signal stopped a command, its exit code is this number plus the number of the signal."""
_NO_BUCKET = "no_such_bucket"


@told(say)
def answer_operation(
    place: Place,
    operation: str,
    run: Callable[[Table], RunReport],
    lines: Callable[[Document], Iterable[str]] = report_lines,
    following: Callable[[Place, RunReport], str] = next_command,
    counter: RequestCounter | None = None,
) -> int:
    """Run a maintenance operation and print its report, which `lines` renders as text."""
    document, text, exit_code = _carried_out(place, operation, run, lines, following, counter)
    if place.as_json:
        print_document(document)
    else:
        print_lines(text)
    return exit_code


@told(say)
def answer_database(
    place: Place, operation: str, run: Callable[[Table], RunReport], of_one_table: Sequence[str] = ()
) -> int:
    """Run an operation on a table, or on each table of a database, and print all reports.

    If one table fails, the others still run. The exit code is the worst of all tables.

    Args:
        place: A table or a database.
        operation: Name of the operation.
        run: Runs it on one table.
        of_one_table: Names of given arguments that make sense only for one table. With a database they are refused.
    """
    from lakesweep.runs.database import is_table, tables_of

    looked = RequestCounter()  # the first table's receipt has this look
    try:
        store = open_table(place, looked).store
        names = None if is_table(store) else list(tables_of(store))
    except Exception as error:  # noqa: BLE001 - the operation meets the same error again, and reports it
        if isinstance(error, MaintenanceError) and is_out_of_reach(error):  # to ask again would only take as long again
            return answer_operation(place, operation, partial(_stop, error))
        names = None
    except KeyboardInterrupt as stop:
        return answer_operation(place, operation, partial(_stop, stop))
    if not names:
        return answer_operation(place, operation, run, counter=looked)
    if of_one_table:
        return answer_operation(place, operation, partial(_refuse_database, of_one_table[0]))
    documents: list[Document] = []
    codes: list[int] = []
    for name in names:
        each = dataclasses.replace(place, table=f"{place.table.rstrip('/')}/{name}")
        document, text, exit_code = _carried_out(each, operation, run, counter=None if codes else looked)
        codes.append(exit_code)
        if place.as_json:
            documents.append(document)
        else:
            print_lines(text)
        if exit_code > _SIGNALS:
            break
    if place.as_json:
        print_document({"operation": operation, "database": store.location, "tables": documents})
    return codes[-1] if codes[-1] > _SIGNALS else worst(codes)


def _stop(stop: BaseException, database: Table) -> RunReport:
    raise stop


def _refuse_database(argument: str, database: Table) -> RunReport:
    raise UsageError(
        f"--{argument.replace('_', '-')}: expected a single table, found the database {database.ref.location}",
        code="bad_argument",
    )


def _carried_out(
    place: Place,
    operation: str,
    run: Callable[[Table], RunReport],
    lines: Callable[[Document], Iterable[str]] = report_lines,
    following: Callable[[Place, RunReport], str] = next_command,
    counter: RequestCounter | None = None,
) -> tuple[Document, Iterable[str], int]:
    """Run an operation and print its warnings. Return its document, its text and the exit code."""
    counter = counter or RequestCounter()
    table: Table | None = None
    try:
        with shown_progress(operation, counter) as progress:
            table = open_table(place, counter, progress, say)
            report = run(table)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the edge: every error becomes an answer
        failed, exit_code = _failed(place, table, operation, error, counter.snapshot())
        return failed.to_json(), (), exit_code
    report = completed(table, report)
    warnings = warnings_of(report)
    for warning in warnings:
        say(f"warning: {warning}")
    if table.area is None and report.status == "planned" and report.commits is None:
        say("warning: the plan is not stored, since no control location is given (--control or $LAKESWEEP_CONTROL)")
    for message in _refusals(report):
        say(message)
    if report.told_status == "damaged":
        say(f"table {report.table} is damaged: readers of some version fail; lakesweep check --all-roots shows details")
    document = document_of(report)
    text = [*lines(document), *cost_lines(document)]
    if table.area is not None and (command := following(place, report)):
        text.append(next_line(command))
    return document, text, exit_code_of(report)


def answer_document(
    place: Place,
    read: Callable[[Table], Document],
    lines: Callable[[Document], Iterable[str]],
    damage: Callable[[Document], bool] = lambda document: False,
    files: Files | None = None,
) -> int:
    """Run a read-only command and print its document. Its `warnings` also go to standard error.

    Args:
        place: A table.
        read: Reads the table and returns the document.
        lines: Renders the document as text.
        damage: Tells whether the document reports damage. Then the exit code is not 0.
        files: Rows that may be too many for the document. They are printed one by one after it, in JSON as `files`.
    """

    def found() -> Document:
        counter = RequestCounter()
        with shown_progress("reading", counter) as progress:
            table = open_table(place, counter, progress, say)
            try:
                return with_warnings(read(table), table.area, table.store)
            except RefusedError as error:
                if error.code != NO_TABLE:
                    raise
                raise RefusedError(located(table, str(error)), code=error.code) from error

    return answer_call(found, lines, as_json=place.as_json, damage=damage, files=files)


@told(say)
def answer_call(
    call: Callable[[], Document],
    lines: Callable[[Document], Iterable[str]],
    *,
    as_json: bool,
    damage: Callable[[Document], bool] = lambda document: False,
    files: Files | None = None,
) -> int:
    """Run a command with a document of its own kind, and print the document."""
    try:
        document = call()
        text = () if as_json else tuple(lines(document))
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the edge: every error becomes an answer
        return failed_document(error, as_json)
    warnings = document.get("warnings")
    for warning in warnings if isinstance(warnings, list) else ():
        say(f"warning: {warning}")
    try:
        print_answer(document, text, files, as_json=as_json)
    except OutputError:
        raise
    except MaintenanceError as error:  # a row could not be read, and others are printed
        return failed_document(error, as_json=False)
    return DAMAGED if damage(document) else 0


def _refusals(report: RunReport) -> Iterable[str]:
    """Return the refusals of a report; for all branches, each with the branch's name."""
    if report.branch is None and report.steps:
        refused = [(step.branch, step.refusal) for step in report.steps]
        return [f"branch {branch}: {refusal.message}" for branch, refusal in refused if refusal is not None]
    return [] if report.refusal is None else [report.refusal.message]


def explain(error: BaseException) -> tuple[str, str, int]:
    """Return the code, the sentence and the exit code of an error."""
    if os.environ.get("LAKESWEEP_DEBUG") == "1":
        sys.stderr.write(masked("".join(traceback.format_exception(error))))
    if isinstance(error, MaintenanceError):
        if is_out_of_reach(error):
            return error.code, f"{error}; {hint(error)}", reach_exit_code(error)
        exit_code = REFUSED if error.code == _NO_BUCKET else error.exit_code
        return error.code, str(error), exit_code
    if isinstance(error, KeyboardInterrupt):
        return stop_code(error), str(error) or f"stopped by {stopped_by(error)}", stop_exit_code(error)
    return (
        "internal",
        f"unexpected {type(error).__name__}: {masked(str(error))}; this is a bug (LAKESWEEP_DEBUG=1 shows where)",
        1,
    )


def _failed(
    place: Place, table: Table | None, operation: str, error: BaseException, requests: Mapping[str, int]
) -> tuple[RunReport, int]:
    """Print what went wrong, and return it as a report: `partial` if the table had been changed, else `refused`."""
    ref = TableRef(place.table, place.branch) if table is None else table.ref
    code, message, exit_code = explain(error)
    begun = has_begun(error, requests)
    if begun and not (isinstance(error, KeyboardInterrupt) and str(error)):  # a stopped run already says what is left
        message += f"; {BEGUN}"
    if begun and exit_code < _SIGNALS:
        exit_code = PARTIAL
    say(message)
    report = failed_report(
        operation, ref, Refusal(code, message), requests, begun=begun, all_branches=place.all_branches
    )
    return call_receipt(table, report), exit_code


def failed_document(error: BaseException, as_json: bool) -> int:
    """Print what went wrong in a command without a report, and return the exit code."""
    code, message, exit_code = explain(error)
    say(message)
    if as_json:
        print_document({"error": {"code": code, "message": message}})
    return exit_code
