"""`lakesweep runs`."""

from collections.abc import Iterator, Mapping
from typing import Any

from lakesweep.cli.options import Limit, Place, at_place

EXAMPLES = ("lakesweep runs /data/orders", "lakesweep runs /data/orders --limit 5 --json")


@at_place("control")
def runs(place: Place, limit: Limit = 20) -> int:
    """List the runs that changed a table, newest first."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.cli.stored import list_runs

    return answer_document(place, lambda opened: list_runs(opened, limit), _lines)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    from lakesweep.cli.text import columns, human_bytes, human_time

    if not document["runs"]:
        yield f"no run of {document['table']}"
        return
    yield from columns(
        ("RUN", "OPERATION", "BRANCH", "FINISHED", "STATUS", "DELETED", "BYTES", "UNDO"),
        (
            (
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
