"""`lakesweep plans`, `runs` and `report`: what is stored about the runs of a table."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from lakesweep.cli.command import reads
from lakesweep.cli.commits import in_words
from lakesweep.cli.options import Limit, Place, Since, To, option
from lakesweep.cli.page import Html, page_file, paged
from lakesweep.cli.receipt import cost_lines, human_usd
from lakesweep.cli.text import columns, counted, human_bytes, human_time, report_lines
from lakesweep.errors import FormatError, MaintenanceError, UsageError


@reads(
    "lakesweep plans /data/orders",
    "lakesweep plans /data/orders --limit 5",
    "lakesweep plans s3://lake/sales.db/orders --control s3://ops/lakesweep --json",
    "lakesweep plans /data/orders 20260131T120000Z-1f2e3d4c --files",
    "lakesweep plans /data/orders 20260131T120000Z-1f2e3d4c --html plan.html",
    place=("policy", "control", "external_root"),
)
def plans(
    place: Place,
    plan_id: Annotated[str | None, typer.Argument(metavar="[PLAN_ID]", help="Show this plan.")] = None,
    *,
    files: Annotated[bool, option("--files", "With PLAN_ID: also list every object of the plan.")] = False,
    html: Html = None,
    limit: Limit = 50,
) -> int:
    """List the stored plans of a table, newest first.

    With PLAN_ID: show the plan as it was shown when it was made, who made it, and whether it still holds. For this,
    Lakesweep checks what `execute` checks first. It takes no lease and changes nothing. Only `execute` checks whether a
    single file was rewritten.
    """
    from lakesweep.api.stored import list_plans
    from lakesweep.cli.answer import answer_document

    if plan_id is not None or files or html is not None:
        return _show(place, plan_id, files=files, html=html)
    return answer_document(place, lambda opened: list_plans(opened, limit), _plan_lines)


def _show(place: Place, plan_id: str | None, *, files: bool, html: str | None) -> int:
    from lakesweep.api.shown import StoredPlan, load_shown
    from lakesweep.cli.answer import answer_document
    from lakesweep.cli.history.shown import file_line, plan_lines
    from lakesweep.cli.next_command import execute_command
    from lakesweep.cli.terminal.output import Files
    from lakesweep.cli.text import next_line
    from lakesweep.runs.session import Table

    found: list[StoredPlan] = []

    def read(opened: Table) -> Mapping[str, Any]:
        if plan_id is None:
            name = "--files" if files else "--html"
            raise UsageError(f"{name}: expected a PLAN_ID, found none", code="bad_argument")
        found.append(load_shown(opened, plan_id))
        return found[0].document()

    def lines(document: Mapping[str, Any]) -> Iterator[str]:
        yield from plan_lines(found[0], document)
        if document["recheck"]["holds"]:
            yield next_line(execute_command(place, found[0].plan.header))

    def page(document: Mapping[str, Any], text: Sequence[str]) -> str:
        from lakesweep.pages.deletions import plan_page

        return plan_page(document, found[0].files(), text)

    rows = Files(lambda: found[0].files(), file_line) if files else None  # noqa: PLW0108 - nothing is found yet
    written = paged(page_file(html, page), read, lines, as_json=place.as_json)
    return answer_document(place, *written, files=rows)


def _plan_lines(document: Mapping[str, Any]) -> Iterator[str]:
    if not document["plans"]:
        yield f"no stored plan of {document['table']}"
        return
    yield from columns(
        ("PLAN", "OPERATION", "BRANCH", "CREATED", "EXPIRES", "STATUS", "SNAPSHOTS", "ACTIONS"),
        (
            (
                plan["plan_id"],
                plan["operation"] or "-",
                plan["branch"] or "-",
                human_time(plan["created_ms"]),
                human_time(plan["expires_ms"]),
                plan["status"] + (" (needs --confirm)" if plan["needs_confirmation"] else ""),
                _snapshots(plan),
                plan["action_count"],
            )
            for plan in document["plans"]
        ),
    )
    for plan in document["plans"]:
        if plan["problem"] is not None:
            yield f"plan {plan['plan_id']} cannot be read: {plan['problem']}"


def _snapshots(plan: Mapping[str, Any]) -> str:
    """Return how many snapshots are deleted and how many written; a replaced snapshot counts as both."""
    if plan["action_count"] is None:
        return "-"
    goes = plan["expired_snapshot_count"] + plan["withdrawn_snapshot_count"]
    comes = plan["written_snapshot_count"]
    return " ".join(f"{sign}{count}" for sign, count in (("-", goes), ("+", comes)) if count) or "0"


@reads(
    "lakesweep runs /data/orders",
    "lakesweep runs /data/orders --limit 5 --json",
    "lakesweep runs s3://ops/lakesweep --since 1d",
    "lakesweep runs s3://ops/lakesweep --since 30d --to runs.parquet",
    place=("control",),
)
def runs(
    place: Place,
    limit: Annotated[int | None, option("--limit", "List the newest N; default 20, with --to all.", "N")] = None,
    since: Since = None,
    to: To = None,
) -> int:
    """List the runs that changed a table, newest first.

    TABLE may also be a control location. Then the command lists the runs of all its tables. With --to, it writes them
    as rows.
    """
    from lakesweep.api.audited import control_store, runs_of_all, runs_of_table
    from lakesweep.api.exports import check_target
    from lakesweep.cli.answer import answer_call, answer_document, failed_document
    from lakesweep.cli.reach import is_out_of_reach
    from lakesweep.cli.terminal.output import say
    from lakesweep.runs.parameters.age import Age
    from lakesweep.runs.parameters.times import parse_past
    from lakesweep.runs.session import Table
    from lakesweep.storage.retries import told
    from lakesweep.storage.store import Store

    most = 20 if limit is None and to is None else limit

    def begin_ms(now_ms: Callable[[], int]) -> int | None:
        found = None if since is None else parse_past(since, "--since")
        return found.before(now_ms()) if isinstance(found, Age) else found

    def read(opened: Table) -> Mapping[str, Any]:
        return _written(to, runs_of_table(opened, most, begin_ms(opened.store.now_ms)))

    def read_all(control: Store) -> Mapping[str, Any]:
        return _written(to, runs_of_all(place, control, most, begin_ms(control.now_ms)))

    if to is not None:
        try:
            check_target(one_output(to, place.as_json))
        except MaintenanceError as error:
            return failed_document(error, place.as_json)

    try:
        with told(say):
            control = control_store(place)
    except MaintenanceError as error:
        if is_out_of_reach(error):
            return failed_document(error, place.as_json)
        control = None  # the answer for the table reports the problem of the place
    if control is None:
        return answer_document(place, read, _run_lines if to is None else written_lines)
    return answer_call(lambda: read_all(control), _run_lines if to is None else written_lines, as_json=place.as_json)


def _written(to: str | None, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write the runs of a document as rows; return the document, then with the number of rows instead of the runs."""
    if to is None:
        return document
    from lakesweep.api.exported import RUN_COLUMNS, run_row
    from lakesweep.api.exports import export
    from lakesweep.cli.terminal.output import write_text

    rows = (run_row(document.get("table"), run) for run in document["runs"])
    count = export(to, RUN_COLUMNS, rows, write_text)
    return {**{key: value for key, value in document.items() if key != "runs"}, "to": to, "rows": count}


def one_output(to: str, as_json: bool) -> str:
    """Return where rows go.

    Raises:
        UsageError: Rows and a document would go to the same place.
    """
    if as_json and to == "-":
        raise UsageError(
            "--to - and --json: expected one of them, since both go to standard output", code="bad_argument"
        )
    return to


def written_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Render what was written to a file; nothing for standard output, which has the rows alone."""
    if document["to"] != "-":
        yield f"wrote {counted(document['rows'], 'row')} to {document['to']}"


def _run_lines(document: Mapping[str, Any]) -> Iterator[str]:
    if not document["runs"]:
        yield f"no run of {document.get('table') or document['control']}"
        return
    head = ("RUN", "OPERATION", "BRANCH", "FINISHED", "STATUS", "DELETED", "BYTES", "USD", "UNDO")
    is_of_all = "control" in document
    yield from columns(
        ("TABLE", *head) if is_of_all else head,
        (
            (
                *((run["table"],) if is_of_all else ()),
                run["run_id"],
                run["operation"] or "-",
                run["branch"] or "-",
                human_time(run["finished_ms"]),
                run["status"] + (f" ({in_words(run['committed'])})" if run["committed"] else ""),
                run["deleted"],
                "-" if run["bytes"] is None else human_bytes(run["bytes"]),
                "-" if run["usd"] is None else human_usd(run["usd"]).removesuffix(" USD"),
                _undo(run),
            )
            for run in document["runs"]
        ),
    )
    for run in document["runs"]:
        if run["problem"] is not None:
            yield f"run {run['run_id']} cannot be read: {run['problem']}"


def _undo(run: Mapping[str, Any]) -> str:
    if not run["undoable"]:
        return str(run["undoable_reason"]).replace("_", " ")
    return "yes" if run["undoable_until_ms"] is None else f"until {human_time(run['undoable_until_ms'])}"


@reads(
    "lakesweep report /data/orders 20260131T120000Z-1f2e3d4c",
    "lakesweep report /data/orders 20260131T120000Z-1f2e3d4c --html run.html",
    place=("control",),
)
def report(
    place: Place,
    run_id: Annotated[str, typer.Argument(metavar="RUN_ID", help="Run id, as `runs` shows it.")],
    html: Html = None,
) -> int:
    """Print what one run did. With --json, print the document as it is stored."""
    from lakesweep.api.stored import stored_report
    from lakesweep.cli.answer import answer_document
    from lakesweep.runs.session import Table

    def stored(opened: Table) -> Mapping[str, Any]:
        return stored_report(opened, run_id)

    return answer_document(place, *paged(page_file(html, _run_page), stored, _told, as_json=place.as_json))


def _run_page(document: Mapping[str, Any], text: Sequence[str]) -> str:
    from lakesweep.pages.deletions import run_page

    with _readable(document):
        return run_page({**document, "report": _dashed(document["report"])}, text)


def _dashed(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a stored report with the operation words of this version."""
    from lakesweep.runs.parameters.signatures import operation_named

    steps = report["steps"] and [_dashed(step) for step in report["steps"]]
    return {**report, "operation": operation_named(report["operation"]), "steps": steps}


def _told(document: Mapping[str, Any]) -> Iterator[str]:
    with _readable(document):
        yield from [*report_lines(_dashed(document["report"])), *cost_lines(document["report"])]
    yield f"{'time':<10} {human_time(document['started_ms'])} to {human_time(document['finished_ms'])}"


@contextmanager
def _readable(document: Mapping[str, Any]) -> Iterator[None]:
    """Raise a `FormatError` if the block finds that fields of a stored report are damaged."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            f"report of run {document['report']['run_id']}: expected the fields of a report, found it damaged; --json "
            "prints it unchanged"
        ) from error
