"""`lakesweep runs`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from lakesweep.cli.options import Limit, Place, at_place
from lakesweep.errors import MaintenanceError

EXAMPLES = (
    "lakesweep runs /data/orders",
    "lakesweep runs /data/orders --limit 5 --json",
    "lakesweep runs s3://ops/lakesweep --since 1d",
)


@at_place("control")
def runs(
    place: Place,
    limit: Limit = 20,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", help="Only runs that began at most this long ago, such as 1d."),
    ] = None,
) -> int:
    """List the runs that changed a table, newest first.

    TABLE may also be a control location. Then the command lists the runs of all its tables.
    """
    from lakesweep.cli.answer import answer_call, answer_document
    from lakesweep.cli.history.audited import control_store, runs_of_all, runs_of_table
    from lakesweep.runs.parameters.times import parse_span_ms
    from lakesweep.runs.session import Table

    def begin_ms(now_ms: int) -> int | None:
        return None if since is None else now_ms - parse_span_ms(since, "--since")

    def read(opened: Table) -> Mapping[str, Any]:
        return runs_of_table(opened, limit, begin_ms(opened.store.now_ms()) if since is not None else None)

    try:
        control = control_store(place)
    except MaintenanceError:
        control = None  # the answer for the table reports the problem of the place
    if control is None:
        return answer_document(place, read, _lines)
    return answer_call(
        lambda: runs_of_all(place, control, limit, begin_ms(control.now_ms())), _lines, as_json=place.as_json
    )


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from lakesweep.cli.text import columns, human_bytes, human_time

    if not document["runs"]:
        yield f"no run of {document.get('table') or document['control']}"
        return
    yield from columns(
        (
            *(("TABLE",) if "control" in document else ()),
            "RUN",
            "OPERATION",
            "BRANCH",
            "FINISHED",
            "STATUS",
            "DELETED",
            "BYTES",
            "UNDO",
        ),
        (
            (
                *((run["table"],) if "control" in document else ()),
                run["run_id"],
                run["operation"] or "-",
                run["branch"] or "-",
                "-" if run["finished_ms"] is None else human_time(run["finished_ms"]),
                str(run["status"]),
                "-" if run["deleted"] is None else str(run["deleted"]),
                "-" if run["bytes"] is None else human_bytes(run["bytes"]),
                _undo(run),
            )
            for run in document["runs"]
        ),
    )
    for run in document["runs"]:
        if run["problem"] is not None:
            yield f"run {run['run_id']} cannot be read: {run['problem']}"


def _undo(run: Mapping[str, Any]) -> str:
    from lakesweep.cli.text import human_time

    if not run["undoable"]:
        return str(run["undoable_reason"]).replace("_", " ")
    return "yes" if run["undoable_until_ms"] is None else f"until {human_time(run['undoable_until_ms'])}"
